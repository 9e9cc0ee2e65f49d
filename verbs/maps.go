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

// longestRow is room for a name of PATH_MAX bytes, all of them escaped.
const longestRow = 32 << 10

// over goes through what lies over n bytes from addr on, in order. It is an error
// if there is a hole, and what each returns ends it. The rows are not kept: a
// process can have tens of thousands, each with a name of thousands of bytes.
func (m *maps) over(addr, n uint64, each func(vma) error) error {
	at, end := addr, addr+n
	if end < addr {
		return refuse(eFAULT, "%d bytes at %#x pass the end of the address space", n, addr)
	}
	text := bufio.NewReaderSize(io.NewSectionReader(m.file, 0, math.MaxInt64), longestRow)
	for first := true; at < end; first = false {
		line, err := text.ReadSlice('\n')
		switch {
		case first && errors.Is(err, io.EOF):
			return refuse(eFAULT, "memory of the process: it is gone")
		case errors.Is(err, io.EOF):
			return refuse(eFAULT, "%d bytes at %#x: nothing is mapped at %#x", n, addr, at)
		case err != nil:
			return refuse(eFAULT, "memory of the process: %v", err)
		}
		v, ok := parseVMA(bytes.TrimSuffix(line, []byte{'\n'}))
		switch {
		case !ok || v.end <= at:
			continue
		case v.start > at:
			return refuse(eFAULT, "%d bytes at %#x: nothing is mapped at %#x", n, addr, at)
		}
		if err := each(v); err != nil {
			return err
		}
		at = v.end
	}
	return nil
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
