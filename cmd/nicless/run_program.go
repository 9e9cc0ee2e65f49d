package main

import (
	"bufio"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// What a program must be like for the library to be loaded into it. Where it is
// not, the loader says nothing, or the program finds no device and does not say
// why: so it is said before.

// findProgram returns the path of a program, or why it cannot be run so.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", failf(statusNotRun, "", "%s: it is not executable", name)
	case err != nil && strings.Contains(name, "/"):
		return "", failf(statusNotFound, "", "%s: there is no such program", name)
	case err != nil:
		return "", failf(statusNotFound, programHint(name), "%s: there is no such program in PATH", name)
	}
	return path, loadable(path, 0)
}

// programHint says which package has what people try first.
func programHint(name string) string {
	switch {
	case strings.HasPrefix(name, "ib_"):
		return "Debian and Ubuntu have it in the package perftest"
	case strings.HasPrefix(name, "ibv_"):
		return "Debian and Ubuntu have it in the package ibverbs-utils"
	}
	return ""
}

// machines are the processors whose programs load our library.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// loadable says why a program would not load the library.
func loadable(path string, depth int) error {
	const preload = "LD_PRELOAD, by which programs find the device, is ignored there"
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return failf(statusNotFound, "", "%s: %w", path, err)
	}
	switch {
	case st.Mode&unix.S_ISUID != 0 && int(st.Uid) != os.Getuid(), st.Mode&unix.S_ISGID != 0 && int(st.Gid) != os.Getgid():
		return failf(statusNotRun, "run a copy of it, which belongs to you", "%s runs as another user or group (setuid): %s", path, preload)
	case os.Getuid() != 0 && hasCapabilities(path):
		return failf(statusNotRun, "run a copy of it, which has none", "%s has capabilities of its own: %s", path, preload)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil // it can be run, if not read
	}
	if err != nil {
		return failf(statusNotRun, "", "%w", err)
	}
	defer f.Close()
	program, err := elf.NewFile(f)
	if err != nil {
		return script(f, depth)
	}
	if want, ok := machines[runtime.GOARCH]; ok && (program.Machine != want || program.Class != elf.ELFCLASS64) {
		return failf(statusNotRun, "", "%s is a program for %v, %v; the library is for %v", path, program.Machine, program.Class, want)
	}
	loader := interpreter(program)
	switch {
	case loader == "":
		return failf(statusNotRun, "link it dynamically", "%s is linked statically: %s", path, preload)
	case strings.Contains(loader, "ld-musl"):
		return failf(statusNotRun, "", "%s is a program of musl (%s); the library is for glibc", path, loader)
	}
	return nil
}

func interpreter(f *elf.File) string {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b, _ := io.ReadAll(io.LimitReader(p.Open(), 4096))
			return strings.TrimRight(string(b), "\x00")
		}
	}
	return ""
}

func hasCapabilities(path string) bool {
	n, err := unix.Getxattr(path, "security.capability", nil)
	return err == nil && n > 0
}

// scripts that are run by scripts: as many as the kernel follows.
const deepest = 4

// script looks at the program that runs a script.
func script(f *os.File, depth int) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil
	}
	line, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	rest, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return failf(statusNotRun, "", "%s is no program: neither ELF nor a script with #! in its first line", f.Name())
	}
	words := strings.Fields(rest)
	if len(words) == 0 || depth == deepest {
		return nil // exec will say
	}
	return loadable(words[0], depth+1)
}

// missingLibraries says what of rdma-core is not where it is usually installed.
// It may be elsewhere, so that is no error.
func missingLibraries() (list []string) {
	if !anyFile(libraryPaths("libibverbs.so.1")) {
		list = append(list, "libibverbs.so.1 is not installed: Debian and Ubuntu have it in the package libibverbs1")
	}
	if !anyFile(libraryPaths("libibverbs/libmlx5-rdmav*.so")) && !anyFile([]string{"/etc/libibverbs.d/mlx5.driver"}) {
		list = append(list, "libmlx5, which libibverbs needs for this device, is not installed: Debian and Ubuntu have it in the package ibverbs-providers")
	}
	return list
}

// libraryPaths returns patterns of where a library may be.
func libraryPaths(name string) (list []string) {
	dirs := filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))
	for _, root := range []string{"/usr/lib", "/lib", "/usr/local/lib"} {
		dirs = append(dirs, root, root+"64", root+"/*-linux-gnu")
	}
	for _, d := range dirs {
		if d != "" {
			list = append(list, filepath.Join(d, name))
		}
	}
	return list
}

func anyFile(patterns []string) bool {
	for _, p := range patterns {
		if found, _ := filepath.Glob(p); len(found) > 0 {
			return true
		}
	}
	return false
}

// shimName is the library that programs preload.
const shimName = "libnicless_verbs.so"

// findShim returns where that is: where NICLESS_SHIM says, beside this command, in
// ../lib, or inside of it; then it is put into dir.
func findShim(dir string) (path string, err error) {
	if path = os.Getenv("NICLESS_SHIM"); path != "" {
		if path, err = filepath.Abs(path); err == nil && missing(path) {
			err = hintf("it names the library that programs preload", "NICLESS_SHIM=%s: there is no such file", path)
		}
		return path, errors.Join(err, preloadable(path))
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	bin := filepath.Dir(self)
	for _, path := range []string{filepath.Join(bin, shimName), filepath.Join(bin, "../lib", shimName)} {
		if !missing(path) {
			return path, preloadable(path)
		}
	}
	if embeddedShim == nil {
		return "", hintf("in the source tree, make verbs builds both (Debian and Ubuntu: apt install gcc make libc6-dev); or name it: NICLESS_SHIM=PATH",
			"%s, which programs preload, is neither beside %s nor in ../lib", shimName, self)
	}
	path = filepath.Join(dir, shimName)
	return path, errors.Join(writeShim(path), preloadable(path))
}

// writeShim puts the library that is inside this command into a file. Programs may
// have it mapped, so it is replaced and never written to.
func writeShim(path string) error {
	if b, err := os.ReadFile(path); err == nil && string(b) == string(embeddedShim) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), shimName)
	if err != nil {
		return err
	}
	_, err = f.Write(embeddedShim)
	return errors.Join(err, f.Chmod(0o755), f.Close(), os.Rename(f.Name(), path))
}

// preloadable refuses a path that LD_PRELOAD cannot name.
func preloadable(path string) error {
	if strings.ContainsAny(path, ": ") {
		return hintf("put it elsewhere, or NICLESS_SHIM=PATH", "%s: LD_PRELOAD takes no path with a colon or a space", path)
	}
	return nil
}
