//go:build linux && (amd64 || arm64)

package lab

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// WriteTo writes the files as an archive that the kernel unpacks when it starts: cpio's format
// "newc". Each entry is a head of 110 bytes (a magic number and 13 hexadecimal numbers of 8 digits),
// the name with a zero byte, and the contents; name and contents end at multiples of 4 bytes. The
// entry TRAILER!!! ends the archive. Source: Linux,
// Documentation/driver-api/early-userspace/buffer-format.rst.
func (f Files) WriteTo(w io.Writer) (int64, error) {
	out := archive{w: bufio.NewWriter(w)}
	dirs := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		for i, c := range name { // folders before what is in them
			if c == '/' && i > 0 && !dirs[name[:i]] {
				dirs[name[:i]] = true
				out.entry(name[:i], isFolder|0o755, nil)
			}
		}
		out.entry(name, isFile|uint32(f[name].Mode.Perm()), f[name].Data)
	}
	out.entry("TRAILER!!!", 0, nil)
	if out.err == nil {
		out.err = out.w.Flush()
	}
	return out.n, out.err
}

// WriteFile writes the archive into a file.
func (f Files) WriteFile(path string) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteTo(out)
	return errors.Join(err, out.Close())
}

// Types of entries, in the bits above the permissions.
const isFolder, isFile = 0o040000, 0o100000

// An archive counts entries and bytes, and keeps the first error.
type archive struct {
	w       *bufio.Writer
	entries int
	n       int64
	err     error
}

func (a *archive) entry(name string, mode uint32, data []byte) {
	a.entries++
	name = strings.TrimPrefix(path.Clean(name), "/")
	const links, zero = 1, 0
	// magic, number, mode, user, group, links, time, size, device and special device, length of name, sum
	a.printf("%s%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00", "070701", a.entries, mode, zero, zero, links, zero,
		len(data), zero, zero, zero, zero, len(name)+1, zero, name)
	a.align()
	a.printf("%s", data)
	a.align()
}

func (a *archive) printf(format string, args ...any) {
	if a.err == nil {
		n, err := fmt.Fprintf(a.w, format, args...)
		a.n, a.err = a.n+int64(n), err
	}
}

func (a *archive) align() { a.printf("%s", make([]byte, -a.n&3)) }

// A File is a regular file.
type File struct {
	Mode fs.FileMode // the permissions
	Data []byte
}
