package hostpath

import (
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// The types in this file say where the memory of queues is in memory that several programs map
// at different addresses. They hold numbers from another program, which may be wrong, so each
// method In checks them all.

// A Place is a range of bytes of memory that programs share.
type Place struct {
	Offset uint64 `json:"offset"`
	Size   uint64 `json:"size"`
}

// In returns the bytes. mem is all of the memory, as this program has mapped it.
func (p Place) In(mem []byte) ([]byte, error) {
	if p.Offset > uint64(len(mem)) || p.Size > uint64(len(mem))-p.Offset {
		return nil, fmt.Errorf("hostpath: %d bytes at offset %d; the memory has %d", p.Size, p.Offset, len(mem))
	}
	return mem[p.Offset:][:p.Size:p.Size], nil
}

// A RawLayout says where the memory of a Raw is. Recv has no bytes if receives come from an SRQ.
type RawLayout struct {
	QPN      uint32      `json:"qpn"`
	Send     Place       `json:"send"`
	Recv     Place       `json:"recv"`
	Receives int         `json:"receives"`
	Record   Place       `json:"record"`
	Register Place       `json:"register"`
	SendCQ   RawCQLayout `json:"send_cq"`
	RecvCQ   RawCQLayout `json:"recv_cq"`
}

// A RawCQLayout says where the memory of a RawCQ is.
type RawCQLayout struct {
	CQN       uint32 `json:"cqn"`
	Ring      Place  `json:"ring"`
	EntrySize int    `json:"entry_size"`
	Record    Place  `json:"record"`
}

// A MemoryLayout says where registered memory is, and how work requests name it.
type MemoryLayout struct {
	Place
	Addr uint64 `json:"addr"` // of the first byte, in work requests
	Key  uint32 `json:"key"`
}

// In returns the queue pair's memory in mem, which begins where the offsets begin. An error
// says which part is not there, or has a size that no queue has.
func (l *RawLayout) In(mem []byte) (r Raw, err error) {
	r = Raw{QPN: l.QPN, Receives: l.Receives}
	if l.QPN > ring.Mask24 {
		return Raw{}, fmt.Errorf("hostpath: layout of QP %#x; 24 bits are possible", l.QPN)
	}
	r.Send, err = part(mem, "send ring", l.Send, wqe.BlockSize, wqe.BlockSize, doorbell.MaxRing)
	if err != nil {
		return Raw{}, l.wrong(err)
	}
	if l.Recv.Size > 0 {
		if l.Receives < 1 || uint64(l.Receives) > l.Recv.Size/wqe.DataSize {
			return Raw{}, l.wrong(fmt.Errorf("hostpath: receive ring of %d entries in %d bytes", l.Receives, l.Recv.Size))
		}
		stride := l.Recv.Size / uint64(l.Receives)
		r.Recv, err = part(mem, "receive ring", l.Recv, wqe.DataSize, stride, doorbell.MaxRing)
		if err != nil {
			return Raw{}, l.wrong(err)
		}
	} else {
		r.Receives = 0
	}
	r.Record, err = exact(mem, "doorbell record", l.Record, doorbell.RecordSize)
	if err != nil {
		return Raw{}, l.wrong(err)
	}
	r.Register, err = exact(mem, "register", l.Register, doorbell.BFRegSize)
	if err != nil {
		return Raw{}, l.wrong(err)
	}
	r.SendCQ, err = l.SendCQ.In(mem)
	if err != nil {
		return Raw{}, l.wrong(err)
	}
	r.RecvCQ, err = l.RecvCQ.In(mem)
	if err != nil {
		return Raw{}, l.wrong(err)
	}
	return r, nil
}

func (l *RawLayout) wrong(err error) error { return fmt.Errorf("layout of QP %#06x: %w", l.QPN, err) }

// In returns the completion queue's memory in mem.
func (l *RawCQLayout) In(mem []byte) (r RawCQ, err error) {
	if l.EntrySize != cqe.Size && l.EntrySize != cqe.Size128 {
		return RawCQ{}, fmt.Errorf("hostpath: CQ %#06x: entries of %d bytes; %d and %d are possible", l.CQN, l.EntrySize, cqe.Size, cqe.Size128)
	}
	r = RawCQ{EntrySize: l.EntrySize}
	r.Ring, err = part(mem, "CQ", l.Ring, cqe.Size, uint64(l.EntrySize), maxCQ)
	if err != nil {
		return RawCQ{}, err
	}
	r.Record, err = exact(mem, "record of a CQ", l.Record, doorbell.RecordSize)
	if err != nil {
		return RawCQ{}, err
	}
	return r, nil
}

// In returns the registered memory in mem, as accel.NewBuffer takes it.
func (l *MemoryLayout) In(mem []byte) (Mapped, error) {
	b, err := l.Place.In(mem)
	return Mapped{b, l.Addr, l.Key}, err
}

// Mapped is registered memory in a mapping of this program.
type Mapped struct {
	mem  []byte
	addr uint64
	key  uint32
}

// Bytes returns the memory.
func (m Mapped) Bytes() []byte { return m.mem }

// Addr returns the address by which work requests name the first byte. It is no address in
// this program.
func (m Mapped) Addr() uint64 { return m.addr }

// LKey returns the key. Peers use the same key.
func (m Mapped) LKey() uint32 { return m.key }

// part returns a ring. Its number of entries is a power of two, at most the given number.
func part(mem []byte, what string, p Place, align, entry, most uint64) ([]byte, error) {
	b, err := p.In(mem)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case p.Size%entry != 0:
		return nil, fmt.Errorf("hostpath: %s of %d bytes, with entries of %d", what, p.Size, entry)
	}
	if _, err := ring.Log2("hostpath: entries of "+what, p.Size/entry, most); err != nil {
		return nil, err
	}
	if !shm.Aligned(b[:align]) {
		return nil, fmt.Errorf("hostpath: %s at offset %d; a multiple of %d is possible", what, p.Offset, align)
	}
	return b, nil
}

// exact returns memory of one size.
func exact(mem []byte, what string, p Place, size uint64) ([]byte, error) {
	if p.Size != size {
		return nil, fmt.Errorf("hostpath: %s of %d bytes; %d are needed", what, p.Size, size)
	}
	return part(mem, what, p, 8, size, 1)
}
