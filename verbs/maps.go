package verbs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
)

// maps is what a process has mapped, as the kernel tells it. The descriptor stays
// bound to the memory that the process had when it was opened: what executes
// another program, or takes the number of a dead one, is not meant.
type maps struct {
	file *os.File
}

// openMaps returns nil where the kernel does not let us look.
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

// A vma is one row: memory of one kind.
type vma struct {
	start, end uint64
	perms      string // such as rw-p
	offset     uint64
	inode      uint64
	name       string
}

// over returns what lies over n bytes from addr on, in order, or an error when
// there is a hole.
func (m *maps) over(addr, n uint64) (rows []vma, err error) {
	text, err := m.read()
	if err != nil {
		return nil, refuse(eFAULT, "memory of the process: %v", err)
	}
	at, end := addr, addr+n
	if end < addr {
		return nil, refuse(eFAULT, "%d bytes at %#x pass the end of the address space", n, addr)
	}
	for len(text) > 0 && at < end {
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		text = rest
		v, ok := parseVMA(line)
		switch {
		case !ok || v.end <= at:
		case v.start > at:
			return nil, refuse(eFAULT, "%d bytes at %#x: nothing is mapped at %#x", n, addr, at)
		default:
			rows = append(rows, v)
			at = v.end
		}
	}
	if at < end {
		return nil, refuse(eFAULT, "%d bytes at %#x: nothing is mapped at %#x", n, addr, at)
	}
	return rows, nil
}

// maxMaps is how much text is read: the rows of some 600,000 mappings.
const maxMaps = 64 << 20

func (m *maps) read() ([]byte, error) {
	b, err := io.ReadAll(io.NewSectionReader(m.file, 0, maxMaps))
	if err == nil && len(b) == 0 {
		return nil, fmt.Errorf("it is gone")
	}
	return b, err
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
	return v, errs == [4]error{} && len(v.perms) == 4
}
