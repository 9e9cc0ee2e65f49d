package main

import (
	"archive/tar"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// A root is a folder that commands run in, as in a container.
type root string

// unpack returns a root with the files of an image. It takes only so many layers, from the lowest on.
func unpack(t *testing.T, image string, layers int) root {
	t.Helper()
	i, err := tarball.ImageFromPath(image, nil)
	require.NoError(t, err)
	all, err := i.Layers()
	require.NoError(t, err)
	require.Len(t, all, 2)
	part, err := mutate.AppendLayers(empty.Image, all[:layers]...)
	require.NoError(t, err)
	files := mutate.Extract(part)
	defer files.Close()
	dir := t.TempDir()
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return root(dir)
		}
		require.NoError(t, err)
		unpackEntry(t, dir, h, r)
	}
}

func unpackEntry(t *testing.T, dir string, h *tar.Header, r io.Reader) {
	t.Helper()
	name := filepath.Join(dir, h.Name)
	switch h.Typeflag {
	case tar.TypeDir:
		require.NoError(t, os.MkdirAll(name, 0o755))
		require.NoError(t, os.Chmod(name, h.FileInfo().Mode()))
	case tar.TypeSymlink:
		require.NoError(t, os.Symlink(h.Linkname, name))
	case tar.TypeLink:
		require.NoError(t, os.Link(filepath.Join(dir, h.Linkname), name))
	case tar.TypeReg:
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(name, text, h.FileInfo().Mode().Perm()))
	default:
		t.Fatalf("%s has type %q", h.Name, h.Typeflag)
	}
}

// script runs a script of the shell beside the root, whose folder is $0, with this machine's programs and
// network, as root of a user namespace. The root has the machine's /proc and /dev.
func (r root) script(t *testing.T, script string, args ...string) string {
	t.Helper()
	const mounts = `mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" || exit; `
	all := append([]string{"-rm", "sh", "-c", mounts + script, string(r)}, args...)
	cmd := exec.CommandContext(t.Context(), "unshare", all...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v: %s", args, out)
	return string(out)
}

// run runs a command in the root, with its programs.
func (r root) run(t *testing.T, args ...string) string {
	t.Helper()
	return r.script(t, `exec chroot "$0" "$@"`, args...)
}

// dpkg runs this machine's dpkg for the root. Scripts of packages run in the root.
func (r root) dpkg(t *testing.T, args ...string) string {
	t.Helper()
	return r.script(t, `exec dpkg --root="$0" "$@"`, args...)
}

// knowPackages makes the files in which dpkg knows packages. It then knows none.
func (r root) knowPackages(t *testing.T) {
	t.Helper()
	dir := filepath.Join(string(r), "var/lib/dpkg")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "updates"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "info"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "status"), nil, 0o644))
}

// both starts ib_write_bw twice. A client that comes before its server fails at once, so it is repeated
// while the server runs.
const both = `
ib_write_bw -F -n 1000 -p PORT >/tmp/server.log 2>&1 & server=$!
until ib_write_bw -F -n 1000 -p PORT 127.0.0.1 >/tmp/client.log 2>&1; do
	kill -0 $server || { cat /tmp/server.log /tmp/client.log; exit 1; }
done
wait $server && cat /tmp/client.log`

// writes runs ib_write_bw in the root, by a command nicless there.
func (r root) writes(t *testing.T, command string) {
	t.Helper()
	out := r.run(t, command, "run", "--private", "--", "sh", "-c", strings.ReplaceAll(both, "PORT", freePort(t)))
	require.Regexp(t, `(?m)^ 65536 +1000 +[0-9.]+ +[0-9.]+`, out)
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
