package glibc

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]Version{"GLIBC_2.2.5": {2, 2, 5}, "GLIBC_2.31": {2, 31}} {
		got, err := Parse(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, name, "GLIBC_"+got.String())
	}
	for _, name := range []string{"", "GCC_3.0", "GLIBC_PRIVATE", "GLIBC_2.", "GLIBC_ABI_DT_RELR"} {
		_, err := Parse(name)
		require.Error(t, err, name)
	}
	require.Negative(t, slices.Compare(Version{2, 2, 5}, Oldest))
	require.Negative(t, slices.Compare(Version{2, 4}, Oldest), "2.4 is older than 2.31")
	require.Positive(t, slices.Compare(Version{2, 34}, Oldest))
}

// compilers are those of the processors for which releases are made.
var compilers = map[elf.Machine][]string{
	elf.EM_X86_64:  {"x86_64-linux-gnu-gcc", "gcc"},
	elf.EM_AARCH64: {"aarch64-linux-gnu-gcc"},
}

// The C parts of a release load with glibc 2.31, although the compiler's glibc is newer.
func TestReleaseLoadsWithOldest(t *testing.T) {
	for machine, names := range compilers {
		t.Run(machine.String(), func(t *testing.T) {
			dir := t.TempDir()
			run(t, "make", "-s", "-C", "../oldest", "OUT="+dir, "CC="+find(t, names))
			for _, name := range []string{"libnicless_verbs.so", "nicless-ucx"} {
				file := filepath.Join(dir, name)
				f, err := elf.Open(file)
				require.NoError(t, err)
				require.Equal(t, machine, f.Machine)
				libraries, err := f.ImportedLibraries()
				require.NoError(t, err)
				require.Contains(t, libraries, "libdl.so.2", "glibc 2.31 has dlsym there")
				require.NoError(t, f.Close())
				require.NoError(t, Check(file, Oldest))
				require.ErrorContains(t, Check(file, Version{2, 24}), "getrandom@GLIBC_2.25")
			}
		})
	}
}

// A library that is linked without care is refused, with the names of the symbols, where glibc is newer.
func TestNewerSymbols(t *testing.T) {
	dir := t.TempDir()
	source, file := filepath.Join(dir, "a.c"), filepath.Join(dir, "a.so")
	require.NoError(t, os.WriteFile(source, []byte("#include <sys/random.h>\nint f(void) { return (int)getrandom(0, 0, 0); }\n"), 0o600))
	run(t, find(t, []string{"gcc"}), "-shared", "-fPIC", "-o", file, source)
	require.NoError(t, Check(file, Version{2, 25}))
	require.EqualError(t, Check(file, Version{2, 24}), file+" needs more than glibc 2.24: getrandom@GLIBC_2.25")
	require.ErrorContains(t, Check(source, Oldest), "bad magic number")
}

// find returns the first of some programs that is installed. Without one the test is skipped, but not in CI.
func find(t *testing.T, names []string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("none of %v is installed", names)
	}
	t.Skipf("none of %v is installed", names)
	return ""
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, "%s: %s", name, out)
}
