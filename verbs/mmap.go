package verbs

import (
	"os"
)

// What a program may map of a context is told apart by the offset: libmlx5 makes
// most of them of a command and an index, and takes those of registers as
// MLX5_UAR.ALLOC gives them.
const (
	uarOffset = 0x1000000 // of page 0

	mapContiguous = 1
	mapClockInfo  = 7

	maxContiguous = 1 << 30 // bytes
)

// mmap serves NV_MMAP.
func (p *process) mmap(h wireHeader, b []byte, _ []*os.File) ([]byte, []*os.File, error) {
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
	switch command := m.offset >> 20; {
	case m.offset%pageSize != 0:
		return nil, nil, refuse(eINVAL, "mmap: offset %#x is not a multiple of %d", m.offset, pageSize)
	case m.offset >= uarOffset:
		file, at, err = x.mapUAR(p, m)
	case command == mapContiguous:
		file, err = p.mapContiguous(m)
	case command == mapClockInfo && m.length == pageSize:
		file = p.s.clock.page.File()
	default:
		err = refuse(eINVAL, "mmap: %d bytes at offset %#x (command %d): this device has no such memory", m.length, m.offset, command)
	}
	if err != nil {
		return nil, nil, err
	}
	return p.mapped(h, file, at)
}

// mapped answers memory; no file: the shim has it.
func (p *process) mapped(h wireHeader, file *os.File, at mappedAnswer) (answer []byte, give []*os.File, err error) {
	if file != nil {
		if give, err = duplicates([]*os.File{file}); err != nil {
			return nil, nil, refuse(eNOMEM, "mmap: %v", err)
		}
	}
	return at.append(appendAnswer(nil, h, 0, 0)), give, nil
}

// mapContiguous makes memory for a ring. It is the process' as long as the ring
// has a queue.
func (p *process) mapContiguous(m mapRequest) (*os.File, error) {
	if m.length > maxContiguous {
		return nil, refuse(eNOMEM, "mmap: a ring of %d bytes; at most %d are possible", m.length, maxContiguous)
	}
	e, err := p.memory.make("ring", m.addr, m.length)
	if err != nil {
		return nil, err
	}
	e.waits = true
	if err := p.memory.add(e); err != nil {
		p.memory.discard(e)
		return nil, err
	}
	return e.mem.File(), nil
}

// alloc serves NV_ALLOC: memory that is shared from birth, and the process' until
// it says that it is not.
func (p *process) alloc(h wireHeader, b []byte, _ []*os.File) ([]byte, []*os.File, error) {
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

// free serves NV_FREE.
func (p *process) free(h wireHeader, b []byte, _ []*os.File) ([]byte, []*os.File, error) {
	m, ok := parseMap(b)
	if !ok {
		return nil, nil, errWire
	}
	e := p.memory.allocated(m.addr, m.length)
	if e == nil {
		return nil, nil, refuse(eINVAL, "free: %d bytes at %#x were not allocated here", m.length, m.addr)
	}
	e.allocated = false
	p.memory.letGo(e)
	return le.AppendUint64(appendAnswer(nil, h, 0, 0), 0), nil, nil
}
