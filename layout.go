package nicless

import (
	"errors"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/wqe"
)

// A layouter is a device whose memory is in a file.
type layouter interface {
	// memory returns nil if the memory is in no file.
	memory() *fileMemory
}

func (c *client) fileMemory() (*fileMemory, error) {
	if d, ok := c.dev.(layouter); ok && d.memory() != nil {
		return d.memory(), nil
	}
	return nil, errors.New("its memory is in no file; open the context with Config.Memory")
}

// A finder collects places, and what is in no region.
type finder struct {
	f    *fileMemory
	lost error
}

func (x *finder) place(addr, n uint64) Place {
	p, ok := x.f.place(addr, n)
	if !ok {
		x.lost = ErrClosed
	}
	return p
}

func (x *finder) cq(q *CQ) RawCQLayout {
	return RawCQLayout{
		CQN: q.cqn, EntrySize: q.cfg.entrySize(),
		Ring: x.place(q.buf.addr, uint64(len(q.cq.Memory()))), Record: x.place(q.rec.addr, doorbell.RecordSize),
	}
}

// Layout says where the memory of the queue pair is in Config.Memory, for a poster that maps the
// file: it posts and polls as through QP.Raw, to whose rules it is bound. The layout contains no
// address, so it may be sent to other processes and machines (encoding/json). It is valid until
// the queue pair is closed. From the first call on, the engine of the context does not expect to
// be woken by its posters, and naps rather than sleeps.
func (q *QP) Layout() (RawLayout, error) {
	const what = "layout of QP"
	raw, err := q.Raw()
	if err != nil {
		return RawLayout{}, err
	}
	f, err := q.c.fileMemory()
	if err != nil {
		return RawLayout{}, wrap(what, err)
	}
	x := finder{f: f}
	l := RawLayout{
		QPN: raw.QPN, Receives: raw.Receives, Record: x.place(q.rec.addr, doorbell.RecordSize),
		Register: Place{Offset: f.uar.at + q.registerAt, Size: doorbell.BFRegSize},
		SendCQ:   x.cq(q.cqs[0]), RecvCQ: x.cq(q.cqs[1]),
	}
	sends, recvs := uint64(len(raw.Send)), uint64(len(raw.Recv))
	if recvs > 0 {
		l.Recv = x.place(q.rings.addr, recvs)
		recvs = max(recvs, wqe.BlockSize) // the send ring begins on a multiple of its blocks
	}
	l.Send = x.place(q.rings.addr+recvs, sends)
	return l, wrap(what, x.lost)
}

// Layout says where the memory is in Config.Memory, and how work requests name it.
func (m *MR) Layout() (MemoryLayout, error) {
	const what = "layout of memory"
	if m.pd == nil {
		return MemoryLayout{}, wrap(what, errZero)
	}
	if m.closed.Load() {
		return MemoryLayout{}, wrap(what, ErrClosed)
	}
	c := m.pd.ctx
	if err := c.err(); err != nil {
		return MemoryLayout{}, wrap(what, err)
	}
	f, err := c.fileMemory()
	if err != nil {
		return MemoryLayout{}, wrap(what, err)
	}
	p, ok := f.place(m.root().base+uint64(m.off), uint64(len(m.mem)))
	if !ok {
		return MemoryLayout{}, wrap(what, ErrClosed)
	}
	return MemoryLayout{Place: p, Addr: m.addr, Key: m.key}, nil
}
