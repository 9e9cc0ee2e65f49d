package hostpath

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// memory hands out pieces of the heap, which the race detector can follow.
type memory struct {
	b []byte
}

func newMemory(t testing.TB, size int) *memory {
	t.Helper()
	r, err := shm.Heap(size)
	require.NoError(t, err)
	return &memory{r.Bytes()}
}

// take returns the next n bytes, at an address that is a multiple of 64.
func (m *memory) take(n int) []byte {
	b := m.b[:n:n]
	m.b = m.b[(n+63)&^63:]
	return b
}

// A bench is a QP, a CQ for both directions, and a device under the test's control.
type bench struct {
	sq    *SQ
	rq    *RQ
	cq    *CQ
	table *Table
	index uint32 // the QP's user index
	qp    *QP
	dev   *device

	record, cqRecord, uar []byte
}

const benchQPN = 0x4711

// newBench makes a send ring, a receive ring, and a CQ with room for the CQEs of both. size
// is the number of blocks of the one ring and of entries of the other. change may alter the
// configuration of the send queue.
func newBench(t testing.TB, size int, change func(*SQConfig)) *bench {
	t.Helper()
	m := newMemory(t, size*(64+64+2*64)+4096)
	b := &bench{table: new(Table), record: m.take(8), cqRecord: m.take(8), uar: m.take(1024)}
	sqRing, rqRing, cqRing := m.take(size*64), m.take(size*64), m.take(2*size*64)
	c := SQConfig{
		Ring: sqRing, Record: b.record, Register: b.uar[:doorbell.BFRegSize],
		QPN: benchQPN, MaxInline: wqe.MaxInline, MaxSGE: 60,
	}
	if change != nil {
		change(&c)
	}
	var err error
	b.sq, err = NewSQ(c)
	require.NoError(t, err)
	b.rq, err = NewRQ(RQConfig{Ring: rqRing, Stride: 64, Record: b.record})
	require.NoError(t, err)
	b.cq, err = NewCQ(CQConfig{
		Ring: cqRing, EntrySize: 64, Record: b.cqRecord, Register: b.uar[512:520],
		CQN: 0x86, Table: b.table,
	})
	require.NoError(t, err)
	b.index, err = b.table.Alloc()
	require.NoError(t, err)
	b.qp = &QP{SQ: &b.sq.SendRing, RQ: b.rq, QPN: benchQPN}
	b.table.Set(b.index, b.qp)
	b.dev = &device{
		ring: sqRing, record: shm.BE32At(b.record, 4*doorbell.SendWord), cq: cqRing, log: b.cq.log, ci: shm.BE32At(b.cqRecord, 0), index: b.index, qpn: benchQPN,
	}
	return b
}

// poll returns the completions that are there, at most 64.
func (b *bench) poll() []Completion {
	var c [64]Completion
	return c[:b.cq.Poll(c[:])]
}

// A device executes send WQEs, which means only that it completes them.
type device struct {
	ring, cq []byte
	record   *shm.BE32
	ci       *shm.BE32
	log      uint
	index    uint32
	qpn      uint32

	done   uint64       // blocks executed
	pi     uint64       // CQEs written
	broken cqe.Syndrome // if not 0, all further work is flushed
	failAt uint64       // if not 0, the WQE that begins at this count fails
}

// step executes the WQEs that the record announces, as far as the CQ has room, and returns
// how many it has executed.
func (d *device) step() (n int) {
	size := uint64(len(d.ring) / 64)
	pending, ok := doorbell.Pending(d.record.Observe(), uint16(d.done), int(size))
	if !ok {
		panic("record ran away")
	}
	for end := d.done + uint64(pending); d.done < end; n++ {
		if uint64(doorbell.InUse(d.pi, d.ci.Observe())) >= 1<<d.log {
			return n
		}
		c := wqe.ParseCtrl((*[16]byte)(d.ring[d.done%size*64:]))
		if c.Index != uint16(d.done) || c.QPN != d.qpn || c.DS == 0 {
			panic("not a WQE")
		}
		var e [64]byte
		o := cqe.MakeOpOwn(cqe.Req, 0, false, cqe.Owner(d.pi, d.log))
		switch {
		case d.broken != 0 || d.failAt != 0 && d.done == d.failAt:
			s := cqe.Flush
			if d.broken == 0 {
				s, d.broken = cqe.RemoteAccess, cqe.RemoteAccess
			}
			o = cqe.MakeOpOwn(cqe.ReqErr, 0, false, cqe.Owner(d.pi, d.log))
			cqe.PutErr(&e, d.qpn, d.index, uint8(c.Opcode), c.Index, s, 0x88, o)
			d.write(&e)
		case c.Flags&wqe.CEMask == wqe.CEAlways:
			cqe.PutReq(&e, d.qpn, d.index, uint8(c.Opcode), c.Index, 0, d.done, o)
			d.write(&e)
		}
		d.done += uint64(c.Blocks())
	}
	return n
}

// write publishes e as the next CQE, without any check.
func (d *device) write(e *[64]byte) {
	slot := cqe.Slot(d.pi, d.log) * 64
	shm.BlockAt(d.cq, slot).Publish(e)
	d.pi++
}

// recv publishes a receive completion.
func (d *device) recv(counter uint16, bytes uint32) {
	var e [64]byte
	cqe.PutResp(&e, d.qpn, d.index, 0, 0, counter, bytes, 0, cqe.MakeOpOwn(cqe.RespSend, 0, false, cqe.Owner(d.pi, d.log)))
	d.write(&e)
}

// ids lists the IDs of completions.
func ids(list []Completion) []uint64 {
	out := []uint64{}
	for _, c := range list {
		out = append(out, c.ID)
	}
	return out
}

// sge returns a list of one pointer. No test accesses the memory that it names.
func sge(length uint32) []SGE { return []SGE{{Addr: 0x1000, Length: length, LKey: 0x77}} }
