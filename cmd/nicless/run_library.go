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

// This file finds the libraries that programs preload: libnicless_verbs.so for nicless run, and
// libnicless_record.so for nicless record. It looks in these places, in this order:
//
//  1. the file that a variable names: NICLESS_SHIM, NICLESS_RECORDER
//  2. the directory of this command, and then ../lib, relative to that directory
//  3. this command itself, in a build with -tags shim: libnicless_verbs.so is then written to the
//     engine's directory
//  4. the user's cache directory. If the library is not there, the C compiler of the system
//     builds it there, from sources that are inside this command
//
// Preloaded code runs with all rights of the user. So 3 and 4 use only directories in which no
// other user can write.

const libraryName = "libnicless_verbs.so"

// A preload is a library that programs preload.
type preload struct {
	name     string // of its file
	variable string // of the environment, that may name its file
	sources  func() fs.FS
	packages string // of Debian, that are needed to build it
}

var (
	verbsPreload  = preload{libraryName, "NICLESS_SHIM", verbs.ShimSources, "gcc libc6-dev"}
	recordPreload = preload{"libnicless_record.so", "NICLESS_RECORDER", verbs.RecordSources,
		"gcc libc6-dev libibverbs-dev"}
)

func (l *preload) install() string { return "Debian and Ubuntu: apt install " + l.packages }

// findLibrary returns the path of the library for nicless run. dir returns the directory for place 3.
func findLibrary(dir func() (string, error)) (path string, err error) {
	if path, err := verbsPreload.ready(); path != "" || err != nil {
		return path, err
	}
	if embeddedShim == nil {
		return verbsPreload.cached()
	}
	into, err := dir()
	if err != nil {
		return "", err
	}
	path = filepath.Join(into, libraryName)
	return path, errors.Join(writeLibrary(path), verbsPreload.preloadable(path))
}

// find returns the path of the library, in places 1, 2 and 4.
func (l *preload) find() (string, error) {
	if path, err := l.ready(); path != "" || err != nil {
		return path, err
	}
	return l.cached()
}

// ready returns the path of the library in places 1 and 2, or "" if it is not there.
func (l *preload) ready() (path string, err error) {
	if path = os.Getenv(l.variable); path != "" {
		if path, err = filepath.Abs(path); err == nil && missing(path) {
			err = hintf(l.variable+" names the library that programs preload", "%s=%s: there is no such file", l.variable, path)
		}
		return path, errors.Join(err, l.preloadable(path))
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	bin := filepath.Dir(self)
	for _, path := range []string{filepath.Join(bin, l.name), filepath.Join(bin, "../lib", l.name)} {
		if !missing(path) {
			return path, l.preloadable(path)
		}
	}
	return "", nil
}

// writeLibrary writes the library that is inside this command to a file. Programs may have
// mapped an older version of the file, so writeLibrary replaces the file and does not change it.
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

// preloadable returns an error if LD_PRELOAD cannot name the path.
func (l *preload) preloadable(path string) error {
	if strings.ContainsAny(path, ": ") {
		return hintf("put the library elsewhere, and name it with "+l.variable+"=PATH", "%s: LD_PRELOAD takes no path with a colon or a space", path)
	}
	return nil
}

// cached returns the path of the library in the cache directory. It builds the library
// if there is none of this version. The version is a hash of all that the library is built
// from. It is part of the file's name and is the library's build ID.
func (l *preload) cached() (string, error) {
	dir, err := l.cacheDirectory()
	if err != nil {
		return "", err
	}
	version, err := l.version()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%s.so", strings.TrimSuffix(l.name, ".so"), version[:16]))
	if checkLibrary(path, version) == nil {
		return path, nil
	}
	return path, l.build(path, version)
}

// cacheDirectory returns a directory for files of this user. It is below os.UserCacheDir, or the
// directory for this user's engine if os.UserCacheDir cannot be used. Under sudo, for example,
// os.UserCacheDir can belong to another user.
func (l *preload) cacheDirectory() (string, error) {
	if base, err := os.UserCacheDir(); err == nil && l.preloadable(base) == nil && safeFrom(base) &&
		os.MkdirAll(base, 0o700) == nil && private(base) {
		dir := filepath.Join(base, "nicless")
		if unixsock.MakeDirectory(dir, 0o700) == nil && unix.Access(dir, unix.W_OK) == nil {
			return dir, nil
		}
	}
	return userDirectory()
}

// safeFrom reports whether only this user and root can change path and the directories above it;
// path need not exist yet. Another user who could change them could later put another file there,
// and a program would load that file. A directory in which all users may write, such as /tmp, is
// safe if it is sticky.
func safeFrom(path string) bool {
	for {
		var st unix.Stat_t
		err := unix.Stat(path, &st)
		switch {
		case err == unix.ENOENT:
		case err != nil, st.Uid != 0 && int(st.Uid) != os.Geteuid(),
			st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0:
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
		path = filepath.Dir(path)
	}
}

// private reports whether a directory belongs to this user and no other user may write there.
func private(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && int(st.Uid) == os.Geteuid() && st.Mode&0o022 == 0
}

// version returns the version of the library, a hash in hexadecimal digits.
func (l *preload) version() (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.GOARCH)
	sources := l.sources()
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

// checkLibrary returns nil if path is a library of this version, for this processor, that no
// other user could have changed.
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
	if want, ok := machines[runtime.GOARCH]; (ok && f.Machine != want) ||
		!strings.HasSuffix(hex.EncodeToString(id), version) {
		return fmt.Errorf("%s is of another version", path)
	}
	return nil
}

// buildTime is how long the compiler may take. It is enough for a slow and busy machine.
const buildTime = 5 * time.Minute

// build builds the library in a directory beside path and renames the complete library to
// path. So processes that build the library at the same time do not disturb each other.
func (l *preload) build(path, version string) error {
	compiler := findCompiler()
	if compiler == nil {
		return hintf(l.install(), "a C compiler (cc) is needed once, to build the library that programs preload: there is none")
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sources := l.sources()
	if err := os.CopyFS(dir, sources); err != nil {
		return err
	}
	files, err := fs.Glob(sources, "*.c")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	args := slices.Concat(compiler[1:],
		[]string{"-O2", "@flags", "-Wl,--build-id=0x" + version, "-o", l.name}, files, []string{"-ldl"})
	c := exec.CommandContext(ctx, compiler[0], args...)
	c.Dir = dir
	c.Env = without(os.Environ(), "LD_PRELOAD")
	if said, err := c.CombinedOutput(); err != nil {
		return hintf(l.install(), "the library that programs preload does not compile: %s: %w: %s", compiler[0], err, firstError(string(said)))
	}
	made := filepath.Join(dir, l.name)
	if err := os.Chmod(made, 0o755); err != nil {
		return err
	}
	if err := checkLibrary(made, version); err != nil {
		return fmt.Errorf("the library that programs preload was built but cannot be used: %w", err)
	}
	return os.Rename(made, path)
}

// findCompiler returns the command of a C compiler: $CC if it is set, otherwise the first of cc,
// gcc and clang that is in PATH. It returns nil if there is none.
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

// firstError returns the first line of a compiler's output that says "error:", or the last line
// if no line does.
func firstError(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for _, line := range lines {
		if strings.Contains(line, "error:") {
			return line
		}
	}
	return lines[len(lines)-1]
}
