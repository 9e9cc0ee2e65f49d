//go:build linux

package shimtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tree returns a directory with a Makefile that counts its runs in the file runs.
func tree(t *testing.T) (sources string, runs func() int) {
	t.Helper()
	for _, program := range []string{"make", "cc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	count := filepath.Join(dir, "runs")
	for name, text := range map[string]string{
		"a.c": "1", "a.h": "2", "flags": "3", "Makefile": "all:\n\t@cat a.c a.h flags >$(OUT)\n\t@echo >>runs\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir, func() int {
		text, _ := os.ReadFile(count)
		return strings.Count(string(text), "\n")
	}
}

func TestBuildsOnce(t *testing.T) {
	sources, runs := tree(t)
	cache := filepath.Join(t.TempDir(), "cache")
	var all sync.WaitGroup
	for _, out := range []string{"1", "2", "3", "4"} {
		out = filepath.Join(t.TempDir(), out)
		all.Go(func() {
			if err := build(sources, cache, out); err != nil {
				t.Error(err)
			}
			if text, _ := os.ReadFile(out); string(text) != "123" {
				t.Errorf("%q", text)
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, runs())
}

// A cache directory that cannot be made is no error.
func TestWithoutACache(t *testing.T) {
	sources, runs := tree(t)
	out := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.WriteFile(out, nil, 0o600))
	for i := range 2 {
		require.NoError(t, build(sources, filepath.Join(out, "cache"), out))
		require.Equal(t, i+1, runs())
	}
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, "123", string(text))
}

// Whatever the library is made from, a change of it makes another one.
func TestChangesBuildAgain(t *testing.T) {
	sources, runs := tree(t)
	cache, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	for i, change := range []func(){
		func() {},
		func() { require.NoError(t, os.WriteFile(filepath.Join(sources, "a.c"), []byte("4"), 0o600)) },
		func() { require.NoError(t, os.WriteFile(filepath.Join(sources, "flags"), []byte("5"), 0o600)) },
		func() { require.NoError(t, os.WriteFile(filepath.Join(sources, "b.h"), nil, 0o600)) },
		func() { t.Setenv("CFLAGS", "-O1") },
		func() { t.Setenv("CC", "cc -m64") },
	} {
		change()
		require.NoError(t, build(sources, cache, out))
		require.NoError(t, build(sources, cache, out))
		require.Equal(t, i+1, runs())
	}
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, "425", string(text))
}

// A library that make has not completed is not kept, and one that nobody has used for a week is removed.
func TestNothingStays(t *testing.T) {
	sources, runs := tree(t)
	cache, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	makefile := filepath.Join(sources, "Makefile")
	works, err := os.ReadFile(makefile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(makefile, []byte("all:\n\t@echo partly >$(OUT); echo trouble; exit 1\n"), 0o600))
	for range 2 {
		require.ErrorContains(t, build(sources, cache, out), "trouble")
	}
	require.NoError(t, os.WriteFile(makefile, works, 0o600))
	require.NoError(t, build(sources, cache, out))

	old := time.Now().Add(-kept - time.Hour)
	libraries, err := filepath.Glob(filepath.Join(cache, "*.so"))
	require.NoError(t, err)
	require.Len(t, libraries, 1)
	require.NoError(t, os.Chtimes(libraries[0], old, old))
	require.NoError(t, build(sources, cache, out)) // a use
	require.Equal(t, 1, runs())
	require.NoError(t, os.Chtimes(libraries[0], old, old))
	require.NoError(t, os.WriteFile(filepath.Join(sources, "a.c"), []byte("4"), 0o600))
	require.NoError(t, build(sources, cache, out))
	require.NoFileExists(t, libraries[0])
	require.Equal(t, 2, runs())
}
