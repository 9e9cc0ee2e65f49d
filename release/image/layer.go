package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// A layer is what one layer of an image has: its files by their names, without a slash before them.
type layer struct {
	entries map[string]entry
	at      time.Time // of all files
}

type entry struct {
	header tar.Header
	text   []byte
}

func newLayer(at time.Time) *layer { return &layer{map[string]entry{}, at} }

// merged are the folders that are links into /usr, as in a system of Debian 12. Its packages still have
// files in them.
var merged = []string{"bin", "sbin", "lib", "lib64"}

// place returns the name that a file has in a layer.
func place(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if first, _, _ := strings.Cut(name, "/"); slices.Contains(merged, first) {
		return "usr/" + name
	}
	return name
}

// addEntry adds an entry of an archive.
func (l *layer) addEntry(h *tar.Header, r io.Reader) error {
	name := place(h.Name)
	if name == "" || unneeded(name) {
		return nil
	}
	header := tar.Header{Name: name, Typeflag: h.Typeflag, Mode: h.Mode, Linkname: h.Linkname,
		Uid: h.Uid, Gid: h.Gid}
	var text []byte
	switch h.Typeflag {
	case tar.TypeDir, tar.TypeSymlink:
	case tar.TypeLink:
		header.Linkname = place(h.Linkname)
	case tar.TypeReg:
		var err error
		if text, err = io.ReadAll(r); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s is an entry of type %q, which no layer has", h.Name, h.Typeflag)
	}
	if have, ok := l.entries[name]; ok && (have.header.Typeflag != tar.TypeDir || h.Typeflag != tar.TypeDir) {
		return fmt.Errorf("two packages have %s", name)
	}
	l.entries[name] = entry{header, text}
	return nil
}

func (l *layer) addFile(name string, text []byte, mode int64) {
	l.entries[name] = entry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode}, text}
}

func (l *layer) addLink(name, to string) {
	l.entries[name] = entry{tar.Header{Name: name, Typeflag: tar.TypeSymlink, Mode: 0o777, Linkname: to}, nil}
}

func (l *layer) addFolder(name string, mode int64) {
	l.entries[name] = entry{tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: mode}, nil}
}

// archive returns the layer as an archive. Folders come before what is in them, because names are sorted; the
// target of a hard link has to come before it as well, so these links are last.
func (l *layer) archive() ([]byte, error) {
	for name := range maps.Clone(l.entries) {
		for name = path.Dir(name); name != "."; name = path.Dir(name) {
			if _, ok := l.entries[name]; !ok {
				l.addFolder(name, 0o755)
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(l.entries), func(a, b string) int {
		return slices.Compare([]string{l.order(a), a}, []string{l.order(b), b})
	})
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		e := l.entries[name]
		h := e.header
		h.ModTime, h.Size, h.Format = l.at, int64(len(e.text)), tar.FormatPAX
		if h.Typeflag == tar.TypeDir {
			h.Name += "/"
		}
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.text); err != nil {
			return nil, err
		}
	}
	err := w.Close() // writes the end of the archive
	return b.Bytes(), err
}

// order says in which part of the archive an entry is.
func (l *layer) order(name string) string {
	if l.entries[name].header.Typeflag == tar.TypeLink {
		return "last"
	}
	return "first"
}

func (l *layer) build() (v1.Layer, error) {
	text, err := l.archive()
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(text)), nil
	})
}
