//go:build linux

// Package shimtest builds the library that verbs programs preload, for tests of several packages. That takes
// some seconds of processor time, so they share one library: it is in the user's cache directory, and its
// name there is a hash of all that it is made from. Only tests import this package.
package shimtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kept is how long a library stays in the cache after its last use. Each change of the sources makes another.
const kept = 7 * 24 * time.Hour

// Build writes the library to the file out. root is the root of the tree. It needs make and a C compiler, and
// an error has what they said. Processes that build the same library wait for the first of them. Without a
// cache directory that may be written to, nothing is shared.
func Build(root, out string) error {
	sources := filepath.Join(root, "verbs/shim")
	cache, err := os.UserCacheDir()
	if err != nil {
		return compile(sources, out)
	}
	return build(sources, filepath.Join(cache, "nicless-tests"), out)
}

func build(sources, cache, out string) error {
	hash, err := hash(sources)
	if err != nil {
		return err
	}
	if os.MkdirAll(cache, 0o700) != nil {
		return compile(sources, out)
	}
	lock, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return compile(sources, out)
	}
	defer lock.Close() // and with it the lock
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return fmt.Errorf("flock %s: %w", lock.Name(), err)
	}
	library := filepath.Join(cache, hash+".so")
	now := time.Now()
	if os.Chtimes(library, now, now) != nil {
		if err := compile(sources, library); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(library)
	return errors.Join(err, os.WriteFile(out, text, 0o755), removeOld(cache, now.Add(-kept)))
}

// hash returns a hash of the sources and of what make takes from outside.
func hash(sources string) (string, error) {
	sum := sha256.New()
	for _, name := range []string{"CC", "CFLAGS", "LDFLAGS"} {
		fmt.Fprintf(sum, "%s=%q\n", name, os.Getenv(name))
	}
	compiler := append(strings.Fields(os.Getenv("CC")), "cc")[0]
	version, err := exec.Command(compiler, "--version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w %s", compiler, err, version)
	}
	fmt.Fprintf(sum, "%q\n", version)
	tree := os.DirFS(sources)
	for _, pattern := range []string{"*.c", "*.h", "flags", "Makefile"} {
		names, err := fs.Glob(tree, pattern)
		if err != nil || names == nil {
			return "", errors.Join(err, fmt.Errorf("%s has no %s", sources, pattern))
		}
		for _, name := range names {
			text, err := fs.ReadFile(tree, name)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// compile builds the library. A process that is killed meanwhile leaves no part of it in the file.
func compile(sources, library string) error {
	dir, err := os.MkdirTemp(filepath.Dir(library), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "libnicless_verbs.so")
	if said, err := exec.Command("make", "-s", "-C", sources, "OUT="+made).CombinedOutput(); err != nil {
		return fmt.Errorf("make -C %s: %w\n%s", sources, err, said)
	}
	return os.Rename(made, library)
}

// removeOld removes what was used last before a point in time, and what a killed process has left.
func removeOld(cache string, before time.Time) error {
	entries, err := os.ReadDir(cache)
	for _, e := range entries {
		info, failed := e.Info()
		if failed == nil && e.Name() != "lock" && info.ModTime().Before(before) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(cache, e.Name())))
		}
	}
	return err
}
