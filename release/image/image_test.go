package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/stretchr/testify/require"
)

// writeDeb makes a package of Debian, of files with their texts. A text that begins with > is a link.
func writeDeb(t *testing.T, dir, name, compression string, texts map[string]string) {
	t.Helper()
	info := &nfpm.Info{Name: name, Arch: "amd64", Version: "1.0", Maintainer: "nobody <nobody@localhost>",
		Description: name, MTime: time.Unix(1, 0), Overridables: nfpm.Overridables{Deb: nfpm.Deb{Compression: compression}}}
	for to, text := range texts {
		c := &files.Content{Destination: to, FileInfo: &files.ContentFileInfo{MTime: time.Unix(1, 0)}}
		if text[0] == '>' {
			c.Source, c.Type = text[1:], files.TypeSymlink
		} else {
			c.Source = filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(c.Source, []byte(text), 0o755))
		}
		info.Contents = append(info.Contents, c)
	}
	info = nfpm.WithDefaults(info)
	require.NoError(t, nfpm.PrepareForPackager(info, "deb"))
	packager, err := nfpm.Get("deb")
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, packager.Package(info, &b))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".deb"), b.Bytes(), 0o600))
}

func example(t *testing.T) Image {
	t.Helper()
	packages, tree := t.TempDir(), t.TempDir()
	writeDeb(t, packages, "libc", "xz", map[string]string{
		"/lib64/ld.so": ">/lib/libc.so", "/lib/libc.so": "library", "/usr/lib/other.so": "other",
		"/usr/share/man/man1/a.1": "page", "/usr/share/doc/libc/NEWS": "news", "/usr/share/doc/libc/copyright": "licence"})
	writeDeb(t, packages, "shell", "zstd", map[string]string{"/bin/dash": "shell", "/bin/sh": ">dash"})
	writeDeb(t, packages, "tool", "gzip", map[string]string{"/usr/bin/tool": "tool"})
	require.NoError(t, os.WriteFile(filepath.Join(tree, "nicless"), []byte("command"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(tree, "LICENSES"), []byte("all"), 0o600))
	return Image{Packages: packages, Tree: tree, Version: "v1.2.3", Arch: "amd64", Time: time.Unix(1790000000, 0)}
}

func TestImage(t *testing.T) {
	i := example(t)
	file, again := filepath.Join(t.TempDir(), "a.tar"), filepath.Join(t.TempDir(), "b.tar")
	require.NoError(t, i.Write(file))
	require.NoError(t, i.Write(again))
	one, err := os.ReadFile(file)
	require.NoError(t, err)
	two, err := os.ReadFile(again)
	require.NoError(t, err)
	require.True(t, bytes.Equal(one, two), "the same bytes twice")

	built, err := tarball.ImageFromPath(file, nil)
	require.NoError(t, err)
	config, err := built.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, "amd64", config.Architecture)
	require.Equal(t, "65532:65532", config.Config.User)
	require.Equal(t, []string{"nicless"}, config.Config.Entrypoint)
	require.Len(t, config.RootFS.DiffIDs, 2)

	layers, err := built.Layers()
	require.NoError(t, err)
	for _, l := range layers {
		r, err := l.Uncompressed()
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.True(t, bytes.HasSuffix(text, make([]byte, 1024)), "the archive has an end, which GNU tar wants")
	}

	have := map[string]string{}
	seen := map[string]bool{".": true}
	flat := mutate.Extract(built)
	defer flat.Close()
	for r := tar.NewReader(flat); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Equal(t, i.Time.Unix(), h.ModTime.Unix(), h.Name)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		name := filepath.Clean(h.Name)
		seen[name] = true
		if h.Typeflag != tar.TypeDir {
			have[name] = h.Linkname + string(text)
		}
		if name == "tmp" {
			require.Equal(t, os.ModeDir|os.ModeSticky|0o777, h.FileInfo().Mode())
		}
	}
	for name := range have {
		require.True(t, seen[filepath.Dir(name)], "%s has its folder", name)
	}
	for name, want := range map[string]string{
		"lib": "usr/lib", "bin": "usr/bin", "sbin": "usr/sbin", "lib64": "usr/lib64",
		"usr/lib64/ld.so": "/lib/libc.so", "usr/lib/libc.so": "library", "usr/lib/other.so": "other",
		"usr/bin/dash": "shell", "usr/bin/sh": "dash", "usr/bin/tool": "tool", "usr/bin/nicless": "command",
		"usr/share/doc/libc/copyright": "licence", "usr/share/doc/nicless/copyright": "all",
	} {
		require.Equal(t, want, have[name], name)
	}
	for _, name := range []string{"libc", "shell", "tool"} {
		require.Contains(t, have["var/lib/dpkg/status.d/"+name], "Package: "+name+"\n")
	}
	require.NotContains(t, have, "usr/share/man/man1/a.1")
	require.NotContains(t, have, "usr/share/doc/libc/NEWS")
}

func TestBadPackages(t *testing.T) {
	i := example(t)
	out := filepath.Join(t.TempDir(), "a.tar")
	bad := func(want string) {
		t.Helper()
		require.ErrorContains(t, i.Write(out), want)
		require.NoFileExists(t, out)
	}
	writeDeb(t, i.Packages, "twice", "gzip", map[string]string{"/usr/bin/sh": "another shell"})
	bad("two packages have usr/bin/sh") // one in /bin, which is the same folder
	require.NoError(t, os.WriteFile(filepath.Join(i.Packages, "twice.deb"), []byte("!<arch>\n"), 0o600))
	bad("twice.deb is no package of Debian: it has 0 of the members")
	text, err := os.ReadFile(filepath.Join(i.Packages, "tool.deb"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(i.Packages, "twice.deb"), text[:len(text)-40], 0o600))
	bad("twice.deb: data.tar.gz: ")
	require.NoError(t, os.Remove(filepath.Join(i.Packages, "twice.deb")))
	require.NoError(t, os.Remove(filepath.Join(i.Tree, "LICENSES")))
	bad("LICENSES: no such file")
	i.Packages = t.TempDir()
	bad("has no packages (*.deb): scripts/image-packages fetches them")
}
