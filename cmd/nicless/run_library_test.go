package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/explore"
	"github.com/stretchr/testify/require"
)

// needCompiler skips a test if there is no C compiler. In CI it fails the test instead.
func needCompiler(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs a C compiler: %v", err)
		}
		t.Skipf("needs a C compiler (%s): %v", verbsPreload.install(), err)
	}
}

// noLibrary sets the environment of a command that was installed with go install: there is no
// library, and the cache is empty.
func noLibrary(t *testing.T) (cache string) {
	t.Helper()
	was := embeddedShim
	t.Cleanup(func() { embeddedShim = was })
	embeddedShim = nil
	cache = t.TempDir()
	t.Setenv("NICLESS_SHIM", "")
	t.Setenv("CC", "")
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	return cache
}

func notAsked() (string, error) { panic("the directory of the engine is not needed") }

// The library is built when it is first needed, and again if it was damaged or changed.
func TestLibraryIsBuiltOnce(t *testing.T) {
	needCompiler(t)
	cache := noLibrary(t)
	path, err := findLibrary(notAsked)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(cache, "nicless"), filepath.Dir(path))
	require.Regexp(t, `^libnicless_verbs-[0-9a-f]{16}\.so$`, filepath.Base(path))
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "files of the build are left")
	was, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), was.Mode())
	same := func() bool {
		t.Helper()
		again, err := findLibrary(notAsked)
		require.NoError(t, err)
		require.Equal(t, path, again)
		is, err := os.Stat(path)
		require.NoError(t, err)
		return os.SameFile(was, is)
	}
	require.True(t, same())

	good, err := os.ReadFile(path)
	require.NoError(t, err)
	version, err := verbsPreload.version()
	require.NoError(t, err)
	for what, bad := range map[string][]byte{
		"cut off": good[:100], "empty": nil, "another version": []byte(strings.Replace(string(good), string(unhex(t, version)), strings.Repeat("\x00", 20), 1)),
	} {
		require.NoError(t, os.WriteFile(path, bad, 0o755))
		require.Error(t, checkLibrary(path, version), what)
	}
	require.NoError(t, os.WriteFile(path, good, 0o755))
	require.NoError(t, checkLibrary(path, version))
	require.NoError(t, os.Chmod(path, 0o777))
	require.ErrorContains(t, checkLibrary(path, version), "only this user may change")
	require.False(t, same(), "other users may have changed it")
	require.NoError(t, checkLibrary(path, version))
}

func unhex(t *testing.T, digits string) (b []byte) {
	t.Helper()
	for i := 0; i < len(digits); i += 2 {
		hi, lo := strings.IndexByte("0123456789abcdef", digits[i]), strings.IndexByte("0123456789abcdef", digits[i+1])
		b = append(b, byte(hi<<4|lo))
	}
	return b
}

// Several commands that start at the same time can build the library at the same time.
func TestLibraryIsBuiltAtTheSameTime(t *testing.T) {
	explore.Only(t) // it compiles the library twice
	needCompiler(t)
	noLibrary(t)
	const commands = 2
	errs := make(chan error, commands)
	for range commands {
		go func() {
			path, err := verbsPreload.cached()
			if err == nil {
				version, _ := verbsPreload.version()
				err = checkLibrary(path, version)
			}
			errs <- err
		}()
	}
	for range commands {
		require.NoError(t, <-errs)
	}
}

// If there is no compiler, or no headers of the C library, one sentence says what to install.
func TestLibraryCannotBeBuilt(t *testing.T) {
	noLibrary(t)
	t.Setenv("PATH", t.TempDir())
	_, err := findLibrary(notAsked)
	require.EqualError(t, err, "a C compiler (cc) is needed once, to build the library that programs preload: there is none")
	require.Equal(t, "Debian and Ubuntu: apt install gcc libc6-dev", hintOf(t, err))

	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, []byte("#!/bin/sh\necho 'alloc.c: note: a line before'\necho \"alloc.c:3:10: fatal error: stdio.h: No such file or directory\"\necho compilation terminated.\nexit 1\n"), 0o755))
	t.Setenv("CC", broken)
	_, err = findLibrary(notAsked)
	require.ErrorContains(t, err, "exit status 1: alloc.c:3:10: fatal error: stdio.h: No such file or directory")
	require.Equal(t, "Debian and Ubuntu: apt install gcc libc6-dev", hintOf(t, err))
}

func hintOf(t *testing.T, err error) string {
	t.Helper()
	var h *hinted
	require.ErrorAs(t, err, &h)
	return h.hint
}

// A cache directory in which another user may write, or that LD_PRELOAD cannot name, is not
// used.
func TestCacheDirectoryOfOthers(t *testing.T) {
	for name, spoil := range map[string]func(cache string) string{
		"writable for all": func(cache string) string { _ = os.Chmod(cache, 0o777); return cache },
		"with a space":     func(cache string) string { return filepath.Join(cache, "a b") },
		"a link":           func(cache string) string { _ = os.Symlink(t.TempDir(), filepath.Join(cache, "nicless")); return cache },
		"not a directory": func(cache string) string {
			_ = os.WriteFile(filepath.Join(cache, "f"), nil, 0o600)
			return filepath.Join(cache, "f")
		},
		"no home": func(string) string { t.Setenv("HOME", ""); return "" },
	} {
		t.Setenv("XDG_CACHE_HOME", spoil(noLibrary(t)))
		dir, err := verbsPreload.cacheDirectory()
		require.NoError(t, err, name)
		require.Equal(t, filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "nicless"), dir, name)
	}
	noLibrary(t)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", t.TempDir())
	dir, err := verbsPreload.cacheDirectory()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(os.Getenv("HOME"), ".cache/nicless"), dir)
}

// sudo can make root execute a command with the home directory of another user. The command
// neither makes nor trusts a file there, because the owner could replace it by another library.
func TestCacheIsNotInTheHomeOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, who alone can be in this position")
	}
	noLibrary(t)
	home := t.TempDir()
	require.NoError(t, os.Chown(home, 1000, 1000))
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", home)
	dir, err := verbsPreload.cacheDirectory()
	require.NoError(t, err)
	require.NotContains(t, dir, home)
	require.NoDirExists(t, filepath.Join(home, ".cache"))
}
