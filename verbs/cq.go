package verbs

import (
	"math/bits"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A cq is a completion queue.
type cq struct {
	*object
	number  uint32
	channel *channel
	events  counted
}

// completionVectors is how many a program may choose from; they mean nothing.
const completionVectors = 2

// createCQIn is what is needed of libmlx5's request: buf u64, dbrec u64, cqe_size
// u32, compressed u8, format u8, flags u16, uar_page u16.
const createCQIn = 24

const (
	cqFlagUAR      = 1 << 1 // the page is named
	cqFlagRealTime = 1 << 2

	cqIgnoreOverrun = 1 << 1 // of the core's flags; bit 0, time stamps, is always so
)

// ring returns log2 of the entries and of the bytes of each.
func ring(x *uctx, cqe, size uint32) (log, logCQE uint8, err error) {
	most := uint32(1)<<x.limits.MaxLogCQ - 1
	switch {
	case cqe == 0 || cqe > most:
		return 0, 0, refuse(eINVAL, "CQ of %d entries; 1 to %d are possible", cqe, most)
	case size != 64 && size != 128:
		return 0, 0, refuse(eINVAL, "CQ with entries of %d bytes; 64 and 128 are possible", size)
	}
	return uint8(bits.Len32(cqe)), uint8(bits.Len32(size) - 1), nil
}

func createCQ(c *call) error {
	x := c.x
	d := make([]byte, 32)
	copy(d, c.bytes(uhwIn))
	flags := le.Uint16(d[22:])
	log, logCQE, err := ring(x, c.value32(1), le.Uint32(d[16:]))
	switch {
	case err != nil:
		return err
	case c.value32(4) >= completionVectors:
		return refuse(eINVAL, "completion vector %d; there are %d", c.value32(4), completionVectors)
	case d[20] != 0 || flags&cqFlagRealTime != 0:
		return refuse(eOPNOTSUPP, "compressed entries %d, flags %#x: neither compression nor real time is possible", d[20], flags)
	case c.value(5)&^(cqIgnoreOverrun|1) != 0:
		return refuse(eOPNOTSUPP, "flags %#x; bits 0 and 1 are known", c.value(5))
	}
	req := &control.CQ{Buf: le.Uint64(d), DBRec: le.Uint64(d[8:]), Handle: c.value(2), LogSize: log, LogCQE: logCQE}
	if c.value(5)&cqIgnoreOverrun != 0 {
		req.Flags = control.CQIgnoreOverrun
	}
	var page uint32 // of the context's, where none is named
	if flags&cqFlagUAR != 0 {
		page = uint32(le.Uint16(d[24:]))
	}
	if req.UAR, err = x.uarPage(page); err != nil {
		return err
	}
	async, err := c.async(7)
	if err != nil && err != errAgain {
		return err
	}
	ch, err := c.channel(3)
	if err != nil && err != errAgain {
		return err
	}
	defer ch.drop()
	held, err := c.areas(area{"CQ buffer", req.Buf, 1 << (log + logCQE), 64}, area{"CQ doorbell record", req.DBRec, 8, 8})
	if err != nil {
		return err
	}
	if ch != nil {
		req.Channel = ch.id
	}
	if err := held[1].zero(req.DBRec); err != nil {
		x.putBack(held)
		return err
	}
	if err := x.may(); err != nil {
		x.putBack(held)
		return err
	}
	m, _, err := x.ask(control.OpCreateCQ, req)
	if err != nil {
		x.putBack(held)
		x.mayNot()
		return err
	}
	q := &cq{number: m.(*control.CQN).CQN, channel: ch, events: counted{async: async, element: c.value(2)}}
	if ch != nil {
		ch.use()
	}
	q.object = x.add(kindCQ, q, func() error { return x.destroyCQ(q) }, held)
	x.numbers[numberOf(kindCQ, q.number)] = q
	c.putHandle(0, q.object)
	c.put32(6, 1<<log-1)
	c.put32(uhwOut, q.number)
	return nil
}

// zero clears a doorbell record: what the library has stored there may have been
// lost while its page was remapped. If nobody has touched the page yet, there may be no
// memory for it.
func (e *extent) zero(addr uint64) error {
	rec := e.at(addr, 8)
	if err := e.mem.Populate(rec); err != nil {
		return refuse(eNOMEM, "doorbell record at %#x: %v", addr, err)
	}
	shm.BE32At(rec, 0).Publish(0)
	shm.BE32At(rec, 4).Publish(0)
	return nil
}

func (x *uctx) destroyCQ(q *cq) error {
	if err := x.tell(control.OpDestroyCQ, &control.CQN{CQN: q.number}); err != nil {
		return err
	}
	if q.channel != nil {
		q.channel.leave()
	}
	delete(x.numbers, numberOf(kindCQ, q.number))
	return nil
}

// destroyCQ answers how many events the program has read of both kinds: it waits
// until it has acknowledged them.
func destroyCQ(c *call) error {
	q := c.doomed().self.(*cq)
	if q.users > 0 {
		return refuse(eBUSY, "CQ %d: still used by %d queues", q.handle, q.users)
	}
	var completions uint32
	if q.channel != nil {
		completions = c.x.client.Retract(q.number, q.channel.reader)
	}
	if err := c.destroyOnly(); err != nil {
		return err
	}
	c.put32(1, completions, q.events.retract(c.x))
	return nil
}

// resizeCQ: response u64, handle u32, cqe u32; buf u64, cqe_size u16.
func resizeCQ(c *call, req []byte) error {
	x := c.x
	q, err := lookup[*cq](c, "cq", le.Uint32(req[8:]), kindCQ)
	if err != nil {
		return err
	}
	d := c.bytes(uhwIn)
	log, logCQE, err := ring(x, le.Uint32(req[12:]), uint32(le.Uint16(d[8:])))
	if err != nil {
		return err
	}
	buf := le.Uint64(d)
	held, err := c.areas(area{"CQ buffer", buf, 1 << (log + logCQE), 64})
	if err != nil {
		return err
	}
	x.settle()
	if err := x.tell(control.OpResizeCQ, &control.ResizeCQ{CQN: q.number, LogSize: log, LogCQE: logCQE, Buf: buf}); err != nil {
		x.putBack(held)
		return err
	}
	x.release(q.extents[:1])
	q.extents = []*extent{held[0], q.extents[1]}
	c.put32(1, 1<<log-1, 0)
	return nil
}
