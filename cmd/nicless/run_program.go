//go:build linux && (amd64 || arm64)

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

// This file checks whether a program will load the library. If the program does not load it,
// the program finds no device, and neither the loader nor the program says why. So this
// command reports the reason before it starts the program.

// findProgram returns the path of a program. It returns an error if the program cannot be run
// with the library.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "", failf(statusNotRun, "", "%s: it is not executable", name)
	case err != nil && strings.Contains(name, "/"):
		return "", failf(statusNotFound, programHint(name), "%s: there is no such program", name)
	case err != nil:
		return "", failf(statusNotFound, programHint(name), "%s: there is no such program in PATH", name)
	}
	return path, loadable(path, 0)
}

// programHint returns a hint that says which package has a program, for the programs that
// users try first, or what is wrong with a flag in the program's place.
func programHint(name string) string {
	switch {
	case strings.HasPrefix(name, "-"):
		return "flags come before --"
	case strings.HasPrefix(name, "ib_"):
		return "Debian and Ubuntu have it in the package perftest"
	case strings.HasPrefix(name, "ibv_"):
		return "Debian and Ubuntu have it in the package ibverbs-utils"
	}
	return ""
}

// machines has the ELF machines of the processors for which the library can be built.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// loadable returns an error that says why a program would not load the library, or nil.
func loadable(path string, depth int) error {
	const preload = "such a program ignores LD_PRELOAD, which it needs to find the device"
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return failf(statusNotFound, "", "%s: %w", path, err)
	}
	switch {
	case st.Mode&unix.S_ISUID != 0 && int(st.Uid) != os.Getuid(),
		st.Mode&unix.S_ISGID != 0 && int(st.Gid) != os.Getgid():
		return failf(statusNotRun, "run a copy of the program that belongs to you", "%s runs as another user or group (setuid): %s", path, preload)
	case os.Getuid() != 0 && hasCapabilities(path):
		return failf(statusNotRun, "run a copy of the program, which has no capabilities", "%s has file capabilities: %s", path, preload)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil // it may be executable without being readable
	}
	if err != nil {
		return failf(statusNotRun, "", "%w", err)
	}
	defer f.Close()
	program, err := elf.NewFile(f)
	if err != nil {
		return script(f, depth)
	}
	if want, ok := machines[runtime.GOARCH]; ok &&
		(program.Machine != want || program.Class != elf.ELFCLASS64) {
		return failf(statusNotRun, "", "%s is a program for %v, %v; the library is for %v", path, program.Machine, program.Class, want)
	}
	loader := interpreter(program)
	switch {
	case loader == "":
		return failf(statusNotRun, "link the program dynamically", "%s is linked statically: %s", path, preload)
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

// hasCapabilities reports whether the file gives capabilities to the process that executes it.
func hasCapabilities(path string) bool {
	n, err := unix.Getxattr(path, "security.capability", nil)
	return err == nil && n > 0
}

// deepest limits scripts whose interpreter is a script too: it is the largest number of scripts
// in such a chain that the kernel accepts.
const deepest = 4

// script checks the program that runs a script.
func script(f *os.File, depth int) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil
	}
	line, _ := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	rest, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return failf(statusNotRun, "", "%s is not a program: neither ELF nor a script with #! in its first line", f.Name())
	}
	words := strings.Fields(rest)
	if len(words) == 0 || depth == deepest {
		return nil // exec reports the error
	}
	return loadable(words[0], depth+1)
}

// missingLibraries returns a warning for each library of rdma-core that is not where it is
// usually installed. It is not an error, because the library may be elsewhere.
func missingLibraries() (list []string) {
	if !anyFile(libraryPaths("libibverbs.so.1")) {
		list = append(list, "libibverbs.so.1 is not installed: Debian and Ubuntu have it in the package libibverbs1")
	}
	if !anyFile(libraryPaths("libibverbs/libmlx5-rdmav*.so")) && !anyFile([]string{"/etc/libibverbs.d/mlx5.driver"}) {
		list = append(list, "libmlx5, which libibverbs needs for this device, is not installed: Debian and Ubuntu have it in the package ibverbs-providers")
	}
	return list
}

// libraryPaths returns patterns for the paths at which a library may be.
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
