package include

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runMake runs make in this folder.
func runMake(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no make, and CI needs it")
		}
		t.Skip("no make: installation is not tested")
	}
	out, err := exec.Command("make", args...).CombinedOutput()
	require.NoError(t, err, "make %s:\n%s", args, out)
}

// tree returns the paths of the files and empty folders below dir.
func tree(t *testing.T, dir string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			paths = append(paths, rel)
		}
		return err
	}))
	return paths
}

// cflags returns the flags that pkg-config prints for the file pc. Without pkg-config it
// returns those that parsePC reads.
func cflags(t *testing.T, pc string) []string {
	t.Helper()
	if path, err := exec.LookPath("pkg-config"); err == nil {
		cmd := exec.Command(path, "--cflags", "nicless")
		cmd.Env = append(os.Environ(), "PKG_CONFIG_PATH="+filepath.Dir(pc), "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1")
		out, err := cmd.Output()
		require.NoError(t, err)
		return strings.Fields(string(out))
	}
	return parsePC(t, pc)
}

// parsePC reads the Cflags of a pkg-config file.
func parsePC(t *testing.T, pc string) []string {
	t.Helper()
	b, err := os.ReadFile(pc)
	require.NoError(t, err)
	vars := map[string]string{}
	value := func(s string) string { return os.Expand(s, func(name string) string { return vars[name] }) }
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if name, v, ok := strings.Cut(line, "="); ok && !strings.Contains(name, ":") {
			vars[name] = value(v)
		} else if v, ok := strings.CutPrefix(line, "Cflags:"); ok {
			return strings.Fields(value(v))
		}
	}
	t.Fatalf("%s has no Cflags", pc)
	return nil
}

// A program outside of the checkout compiles and runs with the installed headers
// and the flags of pkg-config, in C99 and C++17.
func TestInstall(t *testing.T) {
	prefix := t.TempDir()
	runMake(t, "install", "PREFIX="+prefix)
	pc := filepath.Join(prefix, "share/pkgconfig/nicless.pc")
	flags := cflags(t, pc)
	assert.Equal(t, []string{"-I" + prefix + "/include"}, flags)
	assert.Equal(t, flags, parsePC(t, pc), "the two ways to read it")

	source := filepath.Join(t.TempDir(), "outside.c")
	require.NoError(t, os.WriteFile(source, []byte(`#include <nicless/nicless_verbs.h>
#include <nicless/rdmaxcel.h>
int main(void) {
	static struct nicless_client c;
	printf("%d %s\n", nicless_connect(&c, "/nonexistent/engine.sock", "outside"), c.error);
	return 0;
}
`), 0o600))
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "outside")
			l.compile(t, out, source, flags...)
			said, err := exec.Command(out).Output()
			require.NoError(t, err)
			assert.Equal(t, "-2 no engine at /nonexistent/engine.sock: No such file or directory\n", string(said))
		})
	}
}

// All headers are installed below DESTDIR, and nicless.pc does not contain that path.
// uninstall removes only them.
func TestInstallDestdir(t *testing.T) {
	headers, err := filepath.Glob("nicless/*.h")
	require.NoError(t, err)
	want := []string{"usr/share/pkgconfig/nicless.pc"}
	for _, h := range headers {
		want = append(want, "usr/include/"+h)
	}
	dest := t.TempDir()
	runMake(t, "install", "PREFIX=/usr", "DESTDIR="+dest)
	assert.ElementsMatch(t, want, tree(t, dest))
	assert.Equal(t, []string{"-I/usr/include"}, parsePC(t, filepath.Join(dest, "usr/share/pkgconfig/nicless.pc")))

	other := filepath.Join(dest, "usr/include/other.h")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	runMake(t, "uninstall", "PREFIX=/usr", "DESTDIR="+dest)
	assert.Equal(t, []string{"usr/include/other.h"}, tree(t, dest))
	assert.NoDirExists(t, filepath.Join(dest, "usr/include/nicless"))
}

// nicless.pc has the version of the newest release in CHANGELOG.md.
func TestInstalledVersion(t *testing.T) {
	log, err := os.ReadFile("../CHANGELOG.md")
	require.NoError(t, err)
	newest := regexp.MustCompile(`(?m)^## v(\d+\.\d+\.\d+)`).FindSubmatch(log)
	require.NotNil(t, newest, "CHANGELOG.md has no release")
	prefix := t.TempDir()
	runMake(t, "install", "PREFIX="+prefix)
	b, err := os.ReadFile(filepath.Join(prefix, "share/pkgconfig/nicless.pc"))
	require.NoError(t, err)
	assert.Contains(t, string(b), "\nVersion: "+string(newest[1])+"\n")
	assert.NotContains(t, string(b), "@", "a placeholder of the template")
}
