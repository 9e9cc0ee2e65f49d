//go:build linux && (amd64 || arm64)

package verbs

import (
	"os"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// The offset of an mmap says which memory of a context the program maps. libmlx5 takes the
// offset of a UAR page from the answer to MLX5_UAR.ALLOC. It makes every other offset from a
// command of enum mlx5_ib_mmap_cmd and an index (get_command and get_index in mlx5.h of
// rdma-core): the index is in bits 0 to 7 of the page number, and the command is in the bits
// above.
const (
	mmapCommandShift = pageShift + 8
	pageShift        = 12
	commandBits      = 1<<64 - 1<<mmapCommandShift // bits of an offset that have the command

	uarOffset = 16 << mmapCommandShift // offset of UAR page 0; greater than the offset of any command
)

// mmap serves NV_MMAP: an mmap of a context.
func (p *process) mmap(h wireHeader, b []byte, _ []nic.File) ([]byte, []*os.File, error) {
	m, ok := parseMap(b)
	if !ok {
		return nil, nil, errWire
	}
	x, err := p.context(h)
	if err != nil {
		return nil, nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return nil, nil, refuse(eIO, "the context has ended")
	}
	var file *os.File
	var at mappedAnswer
	command := m.offset >> mmapCommandShift
	switch {
	case m.offset%pageSize != 0:
		return nil, nil, refuse(eINVAL, "mmap: offset %#x is not a multiple of %d", m.offset, pageSize)
	case m.offset >= uarOffset:
		file, at, err = x.mapUAR(p, m)
	case command == abi.MLX5MmapGetContiguousPages:
		file, at, err = p.mapRing(x, m)
	case command == abi.MLX5MmapDeviceMem:
		file, at, err = x.mapDM(p, m)
	case command == abi.MLX5MmapClockInfo && m.length == pageSize:
		file = p.s.clock.page.File()
	default:
		err = refuse(eINVAL, "mmap: %d bytes at offset %#x (command %d): this device has no such memory", m.length, m.offset, command)
	}
	if err != nil {
		return nil, nil, err
	}
	return p.mapped(h, file, at)
}

// mapped returns the answer to a mapping request. file is the memory to map, nil if the
// shim has it already.
func (p *process) mapped(h wireHeader, file *os.File, at mappedAnswer) (answer []byte, give []*os.File,
	err error) {
	if file != nil {
		if give, err = duplicates([]*os.File{file}); err != nil {
			return nil, nil, refuse(eNOMEM, "mmap: %v", err)
		}
	}
	return at.append(appendAnswer(nil, h, 0, 0)), give, nil
}

// alloc serves NV_ALLOC: memory that is shared from the start (include/nicless/alloc.h).
// The process holds the memory until it frees it by NV_FREE.
func (p *process) alloc(h wireHeader, b []byte, _ []nic.File) ([]byte, []*os.File, error) {
	m, ok := parseMap(b)
	if !ok {
		return nil, nil, errWire
	}
	e, err := p.memory.make("alloc", m.addr, m.length)
	if err != nil {
		return nil, nil, err
	}
	e.holders = 1
	if err := p.memory.add(e); err != nil {
		p.memory.discard(e)
		return nil, nil, err
	}
	e.allocated = true
	return p.mapped(h, e.mem.File(), mappedAnswer{})
}

// free serves NV_FREE: it ends the process's hold of memory that alloc made.
func (p *process) free(h wireHeader, b []byte, _ []nic.File) ([]byte, []*os.File, error) {
	m, ok := parseMap(b)
	if !ok {
		return nil, nil, errWire
	}
	e := p.memory.allocated(m.addr, m.length)
	if e == nil {
		return nil, nil, refuse(eINVAL, "free: %d bytes at %#x were not allocated here", m.length, m.addr)
	}
	e.allocated = false
	p.memory.endHold(e)
	return le.AppendUint64(appendAnswer(nil, h, 0, 0), 0), nil, nil
}
