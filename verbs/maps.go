//go:build linux && (amd64 || arm64)

package verbs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// maps is /proc/PID/maps: what a process has mapped. The open file stays bound to the address
// space that the process had when the file was opened. It never shows a program that the
// process executes later, or another process that gets the same number.
type maps struct {
	file *os.File
}

// openMaps opens the maps of a process. It returns nil if the kernel refuses access.
func openMaps(pid int32) *maps {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil
	}
	return &maps{f}
}

func (m *maps) close() {
	if m != nil {
		_ = m.file.Close()
	}
}

// A vma is one row of maps: a mapping.
type vma struct {
	start, end uint64
	perms      string // such as rw-p
	offset     uint64
	inode      uint64
	name       string
	huge       uint64 // size of its pages in bytes if they are private huge pages (hugetlb), else 0
}

// privateHuge is the name of private mappings of huge pages (MAP_PRIVATE | MAP_ANONYMOUS |
// MAP_HUGETLB), and of shared ones.
const privateHuge = "/anon_hugepage"

// hugePages stores in v.huge what it says. size is that of the pages in bytes.
func (v *vma) hugePages(size uint64) {
	if v.perms[3] == 'p' && strings.HasPrefix(v.name, privateHuge) {
		v.huge = size
	}
}

// longestRow is the most bytes that a row may have. It is enough for a name of PATH_MAX
// bytes, all of them escaped.
const longestRow = 32 << 10

// over calls the function each, once for every mapping that covers some of the n bytes from
// addr on, in order, until a call returns an error. A hole between the mappings is an error too.
func (m *maps) over(addr, n uint64, each func(vma) error) error {
	if addr+n < addr {
		return refuse(eFAULT, "%d bytes at %#x pass the end of the address space", n, addr)
	}
	for at := addr; at < addr+n; {
		v, err := m.at(at)
		switch {
		case err == nil:
		case errors.Is(err, unix.ENOENT):
			return hole(addr, n, at)
		case errors.Is(err, unix.ESRCH):
			return errGone
		default: // Linux before 6.11, which has no such query
			return m.read(addr, n, each)
		}
		if err := each(v); err != nil {
			return err
		}
		at = v.end
	}
	return nil
}

var errGone = refuse(eFAULT, "memory of the process: the process is gone")

func hole(addr, n, at uint64) error {
	return refuse(eFAULT, "%d bytes at %#x: nothing is mapped at %#x", n, addr, at)
}

// canSearch reports whether anyOf can be called: the kernel may be asked, and is Linux 6.11 or later.
func (m *maps) canSearch() bool {
	if m == nil {
		return false
	}
	_, err := m.next(0)
	return err == nil
}

// anyOf reports whether the process still maps some of the memory of an extent at the extent's addresses. If
// the process is gone, it maps nothing. If the kernel cannot say, the answer is that it may.
func (m *maps) anyOf(e *extent) bool {
	for at := e.addr; at < e.addr+e.size; {
		v, err := m.next(at)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH):
			return false
		case err != nil:
			return true
		case v.Start >= e.addr+e.size:
			return false
		case v.Inode == e.inode:
			return true
		}
		at = v.End
	}
	return false
}

// next asks the kernel for the first mapping that ends behind an address.
func (m *maps) next(addr uint64) (v procmem.VMA, err error) {
	err = unixsock.Control(m.file, func(fd int) error {
		v, err = procmem.NextVMA(uintptr(fd), addr)
		return err
	})
	return v, err
}

// rooms has the room for names of calls of at.
var rooms = sync.Pool{New: func() any { return new([unix.PathMax]byte) }}

// at asks the kernel for the mapping at one address (PROCMAP_QUERY).
func (m *maps) at(addr uint64) (v vma, err error) {
	room := rooms.Get().(*[unix.PathMax]byte)
	defer rooms.Put(room)
	var q procmem.VMA
	if err := unixsock.Control(m.file, func(fd int) error {
		q, err = procmem.QueryVMA(uintptr(fd), addr, room[:])
		return err
	}); err != nil {
		return v, err
	}
	perms := []byte("---p")
	for i, flag := range []uint64{procmem.VMARead, procmem.VMAWrite, procmem.VMAExec} {
		if q.Flags&flag != 0 {
			perms[i] = "rwx"[i]
		}
	}
	if q.Flags&procmem.VMAShared != 0 {
		perms[3] = 's'
	}
	v = vma{start: q.Start, end: q.End, perms: string(perms), offset: q.Offset, inode: q.Inode,
		name: string(q.Name)}
	v.hugePages(q.PageSize)
	return v, nil
}

// read does the same as over, but takes the mappings from the text of the file. It keeps no
// rows, because a process can have tens of thousands of them, each with a name of thousands of
// bytes. Because the text does not have the size of huge pages, the default size is assumed.
func (m *maps) read(addr, n uint64, each func(vma) error) error {
	at, end := addr, addr+n
	text := bufio.NewReaderSize(io.NewSectionReader(m.file, 0, math.MaxInt64), longestRow)
	for first := true; at < end; first = false {
		line, err := text.ReadSlice('\n')
		switch {
		case first && errors.Is(err, io.EOF):
			return errGone
		case errors.Is(err, io.EOF):
			return hole(addr, n, at)
		case err != nil:
			return refuse(eFAULT, "memory of the process: %v", err)
		}
		v, ok := parseVMA(bytes.TrimSuffix(line, []byte{'\n'}))
		switch {
		case !ok || v.end <= at:
			continue
		case v.start > at:
			return hole(addr, n, at)
		}
		if err := each(v); err != nil {
			return err
		}
		at = v.end
	}
	return nil
}

// has reports whether the process has mapped a file with a name, in whichever directory.
func (m *maps) has(name string) bool {
	if m == nil {
		return false
	}
	suffix := []byte("/" + name)
	text := bufio.NewReaderSize(io.NewSectionReader(m.file, 0, math.MaxInt64), longestRow)
	for {
		line, err := text.ReadSlice('\n')
		if err != nil {
			return false
		}
		if bytes.HasSuffix(bytes.TrimSuffix(line, []byte{'\n'}), suffix) {
			return true
		}
	}
}

// parseVMA parses a row such as
//
//	7f6c10000000-7f6c10021000 rw-p 00000000 00:00 0    [stack]
func parseVMA(line []byte) (v vma, ok bool) {
	f := bytes.SplitN(line, []byte{' '}, 6)
	if len(f) < 5 {
		return v, false
	}
	lo, hi, ok := bytes.Cut(f[0], []byte{'-'})
	if !ok {
		return v, false
	}
	var errs [4]error
	v.start, errs[0] = strconv.ParseUint(string(lo), 16, 64)
	v.end, errs[1] = strconv.ParseUint(string(hi), 16, 64)
	v.offset, errs[2] = strconv.ParseUint(string(f[2]), 16, 64)
	v.inode, errs[3] = strconv.ParseUint(string(f[4]), 10, 64)
	v.perms = string(f[1])
	if len(f) == 6 {
		v.name = string(bytes.TrimLeft(f[5], " "))
	}
	if errs != [4]error{} || len(v.perms) != 4 {
		return v, false
	}
	v.hugePages(usualHugePage)
	return v, true
}

// usualHugePage is the usual size of huge pages, in bytes.
const usualHugePage = 2 << 20

// maxHuge bounds the huge pages that are moved for one queue, in bytes.
const maxHuge = 64 << 20

// wholePages returns the n bytes from addr on, which are whole pages, and what else is in their
// huge pages: of a huge page the kernel replaces nothing but the whole.
func (m *maps) wholePages(addr, n uint64) (lo, size uint64, err error) {
	page := uint64(pageSize)
	if err := m.over(addr, n, func(v vma) error { page = max(page, v.huge); return nil }); err != nil {
		return 0, 0, err
	}
	lo = addr &^ (page - 1)
	size = (addr + n - lo + page - 1) &^ (page - 1)
	if page > pageSize && size > maxHuge {
		return 0, 0, refuse(eFAULT, "they are in huge pages of %d bytes, which would have to be moved; at most %d bytes of these are", page, maxHuge)
	}
	return lo, size, nil
}
