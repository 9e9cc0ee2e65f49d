package pack

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// files of a tarball, as short as they can be.
var short = map[string]string{
	"nicless": "#!/bin/sh\necho nicless v1.2.3\n", "LICENSES": "all\n", "LICENSE": "ours\n",
	"README.md": "read\n", "CHANGELOG.md": "changes\n", "SECURITY.md": "report\n",
	"docs/A.md": "a\n", "docs/design/0001-b.md": "b\n", "man/nicless.1": ".TH\n", "man/nicless-run.1": ".TH run\n",
	"completions/nicless.bash": "b\n", "completions/_nicless": "z\n", "completions/nicless.fish": "f\n",
	"include/nicless/dv.h": "/* */\n", "include/nicless.pc.in": "includedir=@INCLUDEDIR@\nVersion: @VERSION@\n",
}

func writeTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range short {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return dir
}

func release(t *testing.T) Release {
	return Release{Tree: writeTree(t), Version: "v1.2.3-rc.1", Arch: "arm64", Time: time.Unix(1790000000, 0)}
}

// Two runs, with the tree in two folders, give the same bytes.
func TestSameBytesTwice(t *testing.T) {
	names := map[string]string{"deb": "nicless_1.2.3~rc.1-1_arm64.deb", "rpm": "nicless-1.2.3~rc.1-1.aarch64.rpm"}
	for _, format := range Formats {
		var made [2][]byte
		for i := range made {
			path, err := release(t).Write(format, t.TempDir())
			require.NoError(t, err)
			require.Equal(t, names[format], filepath.Base(path))
			made[i], err = os.ReadFile(path)
			require.NoError(t, err)
		}
		require.True(t, bytes.Equal(made[0], made[1]), format)
	}
}

var (
	listed = regexp.MustCompile(`(?m)^-(\S+) +(\S+) +\d+ +(\S+ \S+) +\.(/\S+)$`)
	wanted = []string{
		"/usr/bin/nicless",
		"/usr/include/nicless/dv.h",
		"/usr/lib/systemd/system/nicless.service",
		"/usr/lib/systemd/user/nicless.service",
		"/usr/lib/sysusers.d/nicless.conf",
		"/usr/share/bash-completion/completions/nicless",
		"/usr/share/doc/nicless/CHANGELOG.md",
		"/usr/share/doc/nicless/README.md",
		"/usr/share/doc/nicless/SECURITY.md",
		"/usr/share/doc/nicless/copyright",
		"/usr/share/doc/nicless/docs/A.md",
		"/usr/share/doc/nicless/docs/design/0001-b.md",
		"/usr/share/fish/vendor_completions.d/nicless.fish",
		"/usr/share/man/man1/nicless-run.1.gz",
		"/usr/share/man/man1/nicless.1.gz",
		"/usr/share/pkgconfig/nicless.pc",
		"/usr/share/zsh/vendor-completions/_nicless",
	}
)

func TestContentsOfDeb(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("no dpkg-deb: not Debian")
	}
	path, err := release(t).Write("deb", t.TempDir())
	require.NoError(t, err)
	list := exec.Command("dpkg-deb", "-c", path)
	list.Env = append(os.Environ(), "TZ=UTC")
	out, err := list.Output()
	require.NoError(t, err)
	modes := map[string]string{}
	for _, m := range listed.FindAllStringSubmatch(string(out), -1) {
		require.Equal(t, []string{"root/root", "2026-09-21 14:13"}, m[2:4], m[4])
		modes[m[4]] = m[1]
	}
	require.Equal(t, wanted, slices.Sorted(maps.Keys(modes)))
	require.Equal(t, "rwxr-xr-x", modes["/usr/bin/nicless"])
	require.Equal(t, "rw-r--r--", modes["/usr/share/doc/nicless/docs/A.md"])

	root := t.TempDir()
	require.NoError(t, exec.Command("dpkg-deb", "-x", path, root).Run())
	text, err := os.ReadFile(filepath.Join(root, "usr/share/pkgconfig/nicless.pc"))
	require.NoError(t, err)
	require.Equal(t, "includedir=/usr/include\nVersion: 1.2.3-rc.1\n", string(text))
	fields, err := exec.Command("dpkg-deb", "-f", path, "Version", "Architecture", "Recommends").Output()
	require.NoError(t, err)
	require.Equal(t, "Version: 1.2.3~rc.1-1\nArchitecture: arm64\nRecommends: libibverbs1, ibverbs-providers\n", string(fields))
}

func TestBadReleases(t *testing.T) {
	r := release(t)
	_, err := r.Write("apk", t.TempDir())
	require.ErrorContains(t, err, "apk")
	require.NoError(t, os.Remove(filepath.Join(r.Tree, "LICENSES")))
	_, err = r.Write("deb", t.TempDir())
	require.ErrorContains(t, err, "LICENSES")
	require.NoError(t, os.RemoveAll(filepath.Join(r.Tree, "man")))
	_, err = r.Write("rpm", t.TempDir())
	require.ErrorContains(t, err, "man: no such file")
}

// systemd knows each line of the units.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze")
	}
	for unit, options := range map[string][]string{"nicless.service": nil, "nicless.user.service": {"--user"}} {
		text, err := own.ReadFile("files/" + unit)
		require.NoError(t, err)
		dir := t.TempDir()
		file := filepath.Join(dir, "nicless.service")
		// systemd-analyze wants the command to exist, and its user to have a directory.
		verify := func(text string) string {
			text = strings.ReplaceAll(text, "=/usr/bin/nicless ", "=/bin/true ")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			cmd := exec.Command("systemd-analyze", append(options, "--man=no", "verify", file)...)
			cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			return string(out)
		}
		require.Contains(t, verify(strings.Replace(string(text), "NoNewPrivileges", "NoMore", 1)), "NoMore")
		require.Empty(t, verify(string(text)))
	}
}

// Scripts do nothing when a package is upgraded or taken back but tell which engines run; and no script
// fails where there is no systemd.
func TestScripts(t *testing.T) {
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		t.Skip("this system runs systemd: the scripts would change it")
	}
	for _, call := range []string{"postinst configure", "postinst configure 1.0", "postinst 1", "postinst 2",
		"postinst abort-upgrade 1.0", "prerm upgrade 1.0", "prerm remove", "prerm 0", "prerm 1", "postrm purge", "postrm 0"} {
		args := strings.Fields(call)
		out, err := exec.Command("sh", append([]string{filepath.Join("files", args[0])}, args[1:]...)...).CombinedOutput()
		require.NoError(t, err, "%s: %s", call, out)
		require.Empty(t, string(out), call)
	}
}
