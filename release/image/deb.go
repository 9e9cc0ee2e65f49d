package image

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/blakesmith/ar"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// mostFile is the most bytes that a file of a package may have: a package is no reason to use up the memory.
const mostFile = 256 << 20

// addDeb adds the files of a package of Debian, as dpkg-deb -x would unpack them, and its control file,
// by which scanners know what is in an image.
func (l *layer) addDeb(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	found := 0
	for members := ar.NewReader(f); ; {
		h, err := members.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		name := strings.TrimSuffix(h.Name, "/")
		var use func(*tar.Header, io.Reader) error
		switch {
		case strings.HasPrefix(name, "data.tar"):
			use = l.addEntry
		case strings.HasPrefix(name, "control.tar"):
			use = l.addControl
		default:
			continue
		}
		found++
		if err := eachEntry(members, path.Ext(name), use); err != nil {
			return fmt.Errorf("%s: %s: %w", file, name, err)
		}
	}
	if found != 2 {
		return fmt.Errorf("%s is no package of Debian: it has %d of the members control.tar and data.tar", file, found)
	}
	return nil
}

// eachEntry reads a compressed archive.
func eachEntry(r io.Reader, compression string, use func(*tar.Header, io.Reader) error) (err error) {
	switch compression {
	case ".tar":
	case ".gz":
		r, err = gzip.NewReader(r)
	case ".xz":
		r, err = xz.NewReader(r)
	case ".zst":
		var z *zstd.Decoder
		z, err = zstd.NewReader(r)
		if err == nil {
			defer z.Close()
		}
		r = z
	default:
		err = fmt.Errorf("compression %s is not known", compression)
	}
	if err != nil {
		return err
	}
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Size > mostFile {
			return fmt.Errorf("%s has %d bytes, at most %d are possible", h.Name, h.Size, mostFile)
		}
		if err := use(h, t); err != nil {
			return err
		}
	}
}

// addControl adds the control file of a package, where images without dpkg have it.
func (l *layer) addControl(h *tar.Header, r io.Reader) error {
	if path.Clean(h.Name) != "control" {
		return nil
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "Package: "); ok {
			l.addFile("var/lib/dpkg/status.d/"+strings.TrimSpace(name), text, 0o644)
			return nil
		}
	}
	return errors.New("the control file names no package")
}

// unneeded reports whether a file of a package is left out: documentation that nobody reads in a
// container. Licences stay.
func unneeded(name string) bool {
	for _, folder := range []string{"man", "info", "locale", "lintian", "bug", "bash-completion"} {
		if strings.HasPrefix(name, "usr/share/"+folder+"/") {
			return true
		}
	}
	return strings.HasPrefix(name, "usr/share/doc/") && path.Base(name) != "copyright"
}
