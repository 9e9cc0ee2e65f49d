//go:build linux

package procmem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// A VMA is a range of a process's addresses that is mapped as one (a virtual memory area).
type VMA struct {
	Start, End uint64
	Flags      uint64 // VMARead and so on
	Offset     uint64 // offset in the file
	Inode      uint64 // inode of the file; 0: no file
	PageSize   uint64 // size of its pages in bytes
	Name       []byte // name of the file, or a name such as [stack]; in the caller's buffer
}

// Flags of a VMA.
const (
	VMARead   = 0x1
	VMAWrite  = 0x2
	VMAExec   = 0x4
	VMAShared = 0x8
)

// procmapQuery is struct procmap_query of Linux 6.11, linux/fs.h.
type procmapQuery struct {
	size                  uint64
	flags                 uint64
	addr                  uint64
	start, end            uint64
	vmaFlags              uint64
	pageSize              uint64
	offset                uint64
	inode                 uint64
	devMajor, devMinor    uint32
	nameSize, buildIDSize uint32
	nameAddr, buildIDAddr uint64
}

// procmapQueryCall is _IOWR('f', 17, struct procmap_query).
const procmapQueryCall = 3<<30 | unsafe.Sizeof(procmapQuery{})<<16 | 'f'<<8 | 17

// coveringOrNext is PROCMAP_QUERY_COVERING_OR_NEXT_VMA.
const coveringOrNext = 0x10

// NextVMA returns the VMA that holds addr, or the first one above if there is none, without its name. maps
// is the descriptor of an open /proc/PID/maps. The errors are ENOENT if nothing is mapped from addr on, and
// ENOTTY from a kernel before 6.11.
func NextVMA(maps uintptr, addr uint64) (VMA, error) { return query(maps, addr, coveringOrNext, nil) }

// QueryVMA returns the VMA that holds addr. maps is the descriptor of an open /proc/PID/maps.
// QueryVMA writes the VMA's name to buf. The errors are ENOENT if nothing is mapped at addr,
// ENOTTY from a kernel before 6.11, and ENAMETOOLONG if the name is longer than buf.
func QueryVMA(maps uintptr, addr uint64, buf []byte) (VMA, error) { return query(maps, addr, 0, buf) }

func query(maps uintptr, addr, flags uint64, buf []byte) (v VMA, err error) {
	name := VecOf(buf)
	q := procmapQuery{size: uint64(unsafe.Sizeof(procmapQuery{})), flags: flags, addr: addr,
		nameSize: uint32(name.Len)}
	if name.Len > 0 {
		q.nameAddr = name.Addr
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, maps, procmapQueryCall, uintptr(unsafe.Pointer(&q)))
	if errno != 0 {
		return v, errno
	}
	v = VMA{Start: q.start, End: q.end, Flags: q.vmaFlags, Offset: q.offset, Inode: q.inode,
		PageSize: q.pageSize}
	if n := int(q.nameSize); n > 0 && n <= len(buf) {
		v.Name = buf[:n-1] // it ends in a zero
	}
	return v, nil
}
