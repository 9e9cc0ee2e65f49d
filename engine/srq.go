//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/engine/internal/numbers"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// An srq is the device's side of a shared receive queue: a linked list in client memory.
// Each entry names the next one. The doorbell record says how many entries are ready.
type srq struct {
	num     uint32
	client  *client
	pd      *pd
	ring    []byte
	mask    uint16 // entries - 1
	stride  uint   // log2 of the bytes of one entry
	record  *shm.BE32
	regions [2]*region // those that hold the ring and the record

	head  uint16   // entry to take next
	taken uint64   // entries taken off the list so far
	back  []uint16 // entries put back because their transfers did not complete
	limit uint32   // an event is due when fewer entries than this are ready; 0: no event
	users int      // number of QPs that use the queue

	// These fields are of an XSRQ only.
	xrcd *xrcd
	cq   *cq // completion queue of its receives
	uidx uint32
	gone bool // destroyed; pointers to it may remain
}

func (c *caller) createSRQ(m *control.SRQ, _ requestMemory, _ *control.Reply) (control.Message, error) {
	s, err := c.newSRQ(m)
	if err != nil {
		return nil, err
	}
	return &control.SRQN{SRQN: s.num}, nil
}

func (c *caller) newSRQ(m *control.SRQ) (*srq, error) {
	switch {
	case m.LogSize > maxLogRQ:
		return nil, control.Errorf(control.CodeInvalid, "SRQ: 2^%d entries; at most 2^%d are possible", m.LogSize, maxLogRQ)
	case m.LogStride < 5 || m.LogStride > maxLogRQStride:
		return nil, control.Errorf(control.CodeInvalid, "SRQ: entries of 2^%d bytes; 2^5 to 2^%d are possible", m.LogStride, maxLogRQStride)
	case m.Ring%64 != 0 || m.DBRec%4 != 0:
		return nil, control.Errorf(control.CodeInvalid, "SRQ: ring at %#x, record at %#x; multiples of 64 and 4 are needed", m.Ring, m.DBRec)
	case m.Limit > 1<<m.LogSize:
		return nil, control.Errorf(control.CodeInvalid, "SRQ: limit %d of 2^%d entries", m.Limit, m.LogSize)
	}
	p, ok := c.pds[m.PDN]
	if !ok {
		return nil, notFound("PD", m.PDN)
	}
	ringRegion, ring, err := c.at("shared receive queue", m.Ring, 1<<(m.LogSize+m.LogStride))
	if err != nil {
		return nil, err
	}
	recRegion, rec, err := c.at("SRQ doorbell record", m.DBRec, 4)
	if err != nil {
		return nil, err
	}
	s := &srq{
		client: c.client, pd: p, ring: ring, mask: 1<<m.LogSize - 1, stride: uint(m.LogStride),
		record: shm.BE32At(rec, 0), regions: [2]*region{ringRegion, recRegion}, limit: m.Limit,
	}
	if _, err := c.take("shared receive queues", len(c.srqs), c.e.cfg.limits.QPs, s.cost()); err != nil {
		return nil, err
	}
	s.num = numbers.Next(c.e.numbers.srq, c.e.srqs)
	c.e.srqs[s.num], c.srqs[s.num] = s, s
	countUser(1, ringRegion, recRegion)
	p.users++
	return s, nil
}

func (c *caller) modifySRQ(m *control.SRQLimit, _ requestMemory, _ *control.Reply) (control.Message, error) {
	s, ok := c.srqs[m.SRQN]
	switch {
	case !ok:
		return nil, notFound("SRQ", m.SRQN)
	case m.Limit > uint32(s.mask)+1:
		return nil, control.Errorf(control.CodeInvalid, "SRQ %#06x: limit %d of %d entries", s.num, m.Limit, uint32(s.mask)+1)
	}
	s.limit = m.Limit
	c.shard.observeLimit(s) // fewer entries may be ready already, and perhaps no transfer will come and check the limit
	return &control.Empty{}, nil
}

func (c *caller) querySRQ(m *control.SRQN, _ requestMemory, _ *control.Reply) (control.Message, error) {
	s, ok := c.srqs[m.SRQN]
	if !ok {
		return nil, notFound("SRQ", m.SRQN)
	}
	return &control.SRQLimit{SRQN: s.num, Limit: s.limit}, nil
}

func (c *caller) destroySRQ(m *control.SRQN, _ requestMemory, _ *control.Reply) (control.Message, error) {
	s, ok := c.srqs[m.SRQN]
	switch {
	case !ok:
		return nil, notFound("SRQ", m.SRQN)
	case s.users > 0:
		return nil, busy("SRQ", m.SRQN, s.users, "queue pair", "queue pairs")
	}
	delete(c.srqs, m.SRQN)
	c.removeSRQ(s)
	return &control.Empty{}, nil
}

func (c *caller) removeSRQ(s *srq) {
	sh := c.loop()
	delete(sh.srqs, s.num)
	s.client.refund(s.cost())
	s.pd.users--
	s.leaveDomain()
	countUser(-1, s.regions[:]...)
}

// ready returns how many entries are posted and not taken. A record that announces more
// entries than the queue has is the client's mistake, and counts as announcing none.
//
// Observe: SRQ record. Published by hostpath.SRQ.Ring.
func (s *srq) ready() uint16 {
	n := uint16(s.record.Observe()) - uint16(s.taken)
	if n > s.mask+1 {
		n = 0
	}
	return n + uint16(len(s.back))
}

// take takes the next entry and copies it to dst. The next entry is one that was put back
// or, if there is none, the head of the list. The head's link is read from the copy,
// because the client may change the entry once it is consumed.
func (s *srq) take(dst []byte) (index uint16) {
	if n := len(s.back); n > 0 {
		index, s.back = s.back[n-1], s.back[:n-1]
		copy(dst, s.entry(index))
		return index
	}
	index = s.head
	copy(dst, s.entry(index))
	s.head = wqe.ParseSRQNext((*[wqe.SRQNextSize]byte)(dst)).Next & s.mask
	s.taken++
	return index
}

func (s *srq) entry(index uint16) []byte {
	return s.ring[int(index)<<s.stride:][:1<<s.stride]
}

// putBack puts back an entry whose transfer did not complete. Room for such entries is
// allocated only here, because most queues never need it.
func (s *srq) putBack(index uint16) {
	if len(s.back) <= int(s.mask) {
		s.back = append(s.back, index)
	}
}
