//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs"
	"golang.org/x/sys/unix"
)

// The library that programs preload, libnicless_verbs.so. It is looked for in this order:
//
//  1. where NICLESS_SHIM says
//  2. beside this command, and in ../lib
//  3. inside this command, in a build with -tags shim: it is written to the engine's
//     directory
//  4. in the user's cache directory. If it is not there it is built, from sources that
//     are inside this command, by the C compiler of the system
//
// Preloaded code runs with all rights of the user, so 3 and 4 use directories only in which
// no other user can write.

const libraryName = "libnicless_verbs.so"

// findLibrary returns the path of the library. dir returns the directory for 3.
func findLibrary(dir func() (string, error)) (path string, err error) {
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
	for _, path := range []string{filepath.Join(bin, libraryName), filepath.Join(bin, "../lib", libraryName)} {
		if !missing(path) {
			return path, preloadable(path)
		}
	}
	if embeddedShim == nil {
		return cachedLibrary()
	}
	into, err := dir()
	if err != nil {
		return "", err
	}
	path = filepath.Join(into, libraryName)
	return path, errors.Join(writeLibrary(path), preloadable(path))
}

// writeLibrary writes the library that is inside this command to a file. Programs may have
// the file mapped, so it is replaced rather than changed.
func writeLibrary(path string) error {
	if b, err := os.ReadFile(path); err == nil && string(b) == string(embeddedShim) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), libraryName)
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

// cachedLibrary returns the library in the cache directory, and builds it if there is none
// of this version. The version is a hash of all that it is built from; it is part of the
// file's name, and the library's build ID.
func cachedLibrary() (string, error) {
	dir, err := cacheDirectory()
	if err != nil {
		return "", err
	}
	version, err := libraryVersion()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("libnicless_verbs-%s.so", version[:16]))
	if checkLibrary(path, version) == nil {
		return path, nil
	}
	return path, buildLibrary(path, version)
}

// cacheDirectory returns a directory for files of this user: below os.UserCacheDir, or
// where engines are if that cannot be used. Under sudo, for example, the former can be
// another user's.
func cacheDirectory() (string, error) {
	if base, err := os.UserCacheDir(); err == nil && preloadable(base) == nil && safeFrom(base) && os.MkdirAll(base, 0o700) == nil && private(base) {
		dir := filepath.Join(base, "nicless")
		if unixsock.MakeDirectory(dir, 0o700) == nil && unix.Access(dir, unix.W_OK) == nil {
			return dir, nil
		}
	}
	return userDirectory()
}

// safeFrom reports whether only this user and root can change the directories in which path
// is or is to be made. Anybody else could put another file there later, and a program would
// load it. A directory that all may write to, such as /tmp, is safe if it is sticky.
func safeFrom(path string) bool {
	for {
		var st unix.Stat_t
		switch err := unix.Stat(path, &st); {
		case err == unix.ENOENT:
		case err != nil, st.Uid != 0 && int(st.Uid) != os.Geteuid(), st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0:
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
		path = filepath.Dir(path)
	}
}

// private reports whether a directory is this user's and no other user may write there.
func private(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && int(st.Uid) == os.Geteuid() && st.Mode&0o022 == 0
}

// libraryVersion returns a hash, in hexadecimal digits.
func libraryVersion() (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.GOARCH)
	sources := verbs.ShimSources()
	err := fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sources, name)
		fmt.Fprintln(hash, name, len(text))
		_, _ = hash.Write(text)
		return err
	})
	return hex.EncodeToString(hash.Sum(nil)[:20]), err
}

// checkLibrary returns an error unless path is a library of this version and processor,
// which no other user could have changed.
func checkLibrary(path, version string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s is not a file that only this user may change", path)
	}
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	note := f.Section(".note.gnu.build-id")
	if note == nil {
		return fmt.Errorf("%s has no build ID", path)
	}
	id, err := note.Data()
	if err != nil {
		return err
	}
	if want, ok := machines[runtime.GOARCH]; (ok && f.Machine != want) || !strings.HasSuffix(hex.EncodeToString(id), version) {
		return fmt.Errorf("%s is of another version", path)
	}
	return nil
}

// buildTime is how long the compiler may take, on a slow and loaded machine.
const buildTime = 5 * time.Minute

const installCompiler = "Debian and Ubuntu: apt install gcc libc6-dev"

// buildLibrary builds the library beside path and renames it when it is complete, so that
// processes which build it at the same time do not disturb each other.
func buildLibrary(path, version string) error {
	compiler := findCompiler()
	if compiler == nil {
		return hintf(installCompiler, "a C compiler (cc) is needed once, to build the library that programs preload: there is none")
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sources := verbs.ShimSources()
	if err := os.CopyFS(dir, sources); err != nil {
		return err
	}
	files, err := fs.Glob(sources, "*.c")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	args := slices.Concat(compiler[1:], []string{"-O2", "@flags", "-Wl,--build-id=0x" + version, "-o", libraryName}, files, []string{"-ldl"})
	c := exec.CommandContext(ctx, compiler[0], args...)
	c.Dir = dir
	c.Env = without(os.Environ(), "LD_PRELOAD")
	if said, err := c.CombinedOutput(); err != nil {
		return hintf(installCompiler, "the library that programs preload does not compile: %s: %w: %s", compiler[0], err, firstError(string(said)))
	}
	made := filepath.Join(dir, libraryName)
	if err := os.Chmod(made, 0o755); err != nil {
		return err
	}
	if err := checkLibrary(made, version); err != nil {
		return fmt.Errorf("the library that programs preload was built, and cannot be used: %w", err)
	}
	return os.Rename(made, path)
}

// findCompiler returns the command of a C compiler: $CC, else the first in PATH; nil if there
// is none.
func findCompiler() []string {
	if words := strings.Fields(os.Getenv("CC")); len(words) > 0 {
		if _, err := exec.LookPath(words[0]); err != nil {
			return nil
		}
		return words
	}
	for _, name := range []string{"cc", "gcc", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			return []string{path}
		}
	}
	return nil
}

// firstError returns the line of a compiler's output that says most.
func firstError(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for _, line := range lines {
		if strings.Contains(line, "error:") {
			return line
		}
	}
	return lines[len(lines)-1]
}
