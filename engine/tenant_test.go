package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/journal"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// One client must not keep the device from another.

// stuck is a log that is not read.
type stuck struct{ release chan struct{} }

func (s stuck) Enabled(context.Context, slog.Level) bool { return true }
func (s stuck) Handle(context.Context, slog.Record) error {
	<-s.release
	return nil
}
func (s stuck) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s stuck) WithGroup(string) slog.Handler      { return s }

func TestALogThatNobodyReadsStopsNobody(t *testing.T) {
	s := stuck{make(chan struct{})}
	defer close(s.release)
	r, p, q := duo(t, Config{Log: slog.New(s)})
	for range 3 * journal.Capacity {
		r.e.Journal.Log(slog.LevelWarn, "something is wrong")
	}
	p.post(ctrl(wqe.OpNop))
	q.raw(make([]byte, 64)) // ds 0, which the device explains
	for p.scq.ci == 0 {
		r.e.Step()
		_, _, _ = p.scq.next()
	}
	r.until("what does not fit is counted", func() bool { // the log's writer may have only just begun
		r.e.Journal.Log(slog.LevelWarn, "something is wrong")
		return r.e.Journal.Lost() > 0
	})
}

// A receive list may be as long as its entry.
func TestLongestReceiveList(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	c, d := a.cq(control.CQ{LogSize: 4}), b.cq(control.CQ{LogSize: 4})
	p, q := a.qp(control.QP{}, c, c), b.qp(control.QP{LogRQStride: object.MaxLogRQStride}, d, d)
	p.up(q)
	q.up(p)
	const pieces = 1 << object.MaxLogRQStride / wqe.DataSize
	source, target := a.full(pieces, 1), b.key(pieces, control.AccessLocalWrite)
	var list []wqe.Data
	for i := range pieces {
		list = append(list, target.data(pieces-1-i, 1))
	}
	q.recv(list...)
	p.post(ctrl(wqe.OpSend), source.data(0, pieces))
	r.settle()
	require.Equal(t, cqe.StatusSuccess, d.one().Status)
	for i, v := range source.mem {
		require.Equal(t, v, target.mem[pieces-1-i])
	}
	require.ErrorIs(t, b.try(control.OpCreateQP, &control.QP{PDN: b.pd, SendCQN: d.num, RecvCQN: d.num, LogRQStride: object.MaxLogRQStride + 1},
		&control.QPN{}, nil), &control.Error{Code: control.CodeInvalid})
}

// Regions and channels of clients behind a socket are charged, and the charges are
// refunded.
func TestChargesAreRefunded(t *testing.T) {
	r := newRig(t, Config{})
	c, err := r.d.nic().NewClient("x", 7, nic.Hosted{}, shm.Create, shm.CreateSealed)
	require.NoError(t, err)
	call := func(op control.Op, req control.Message, mem object.RequestMemory) (control.Message, error) {
		m, reply, err := c.Request(op, control.Append(nil, op, 0, 0, req)[control.HeaderSize:], mem)
		if reply.Events != nil {
			_ = reply.Events.Close()
		}
		return m, err
	}
	region := func(addr uint64) error {
		req := control.Append(nil, control.OpCreateRegion, 0, 0, &control.RegionSize{Size: 100})[control.HeaderSize:]
		mem, err := c.MakeMemory(req)
		if err != nil {
			return err
		}
		m, _, err := c.Request(control.OpCreateRegion, req, mem)
		require.NoError(t, err)
		require.NoError(t, mem.Region.Seal())
		_, err = call(control.OpPlaceRegion, &control.Placement{ID: m.(*control.RegionID).ID, Addr: addr}, object.RequestMemory{})
		return err
	}
	r.e.Ledger.SetLimit(quota.Mappings, 2*(object.ClientCharge[quota.Mappings]+1), "a test")
	require.NoError(t, region(0x1000))
	require.ErrorIs(t, region(0x2000), &control.Error{Code: control.CodeLimit})
	_, err = call(control.OpDropRegion, &control.RegionID{ID: 1}, object.RequestMemory{})
	require.NoError(t, err)
	require.NoError(t, region(0x2000))
	_, err = call(control.OpCreateChannel, &control.Empty{}, object.RequestMemory{})
	require.NoError(t, err)
	want := object.ClientCharge
	want[quota.Mappings]++
	want[quota.Descriptors]++
	want[quota.AddressSpace] += shm.PageSize
	want[quota.RegionBytes] += shm.PageSize
	want[quota.Memory] += object.RegionCost + object.SocketCost
	require.Equal(t, want, r.e.Ledger.Has(7))
	require.NoError(t, c.Close()) // this seals the UAR pages first, off this goroutine
	await.Until(t, "all charges are refunded", func() bool { return r.e.Ledger.Has(7) == quota.Charge{} })
}

// A client with many objects is closed in portions, and other clients wait for one portion
// only.
func TestAClientGoesInPortions(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	cq := a.cq(control.CQ{LogSize: 4})
	for range object.Portion + 10 {
		p := a.qp(control.QP{}, cq, cq)
		p.modify(p.toInit())
	}
	_, more := a.c.DestroySome()
	require.True(t, more)
	require.Len(t, a.c.QPs, 10)
	require.Len(t, r.e.Running, 10)
	regions, more := a.c.DestroySome()
	require.False(t, more)
	require.Len(t, regions, 1)
	require.Empty(t, r.e.Running)
}

// When a queue pair has gone, a stranger may be given its number. The stranger does not
// become the peer of the queue pair that named this number.
func TestANumberIsNotAPeer(t *testing.T) {
	r, p, q := duo(t, Config{})
	p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{})
	r.settle()
	require.Equal(t, cqe.StatusSuccess, p.scq.one().Status)
	q.destroy()
	stranger := r.host("stranger")
	c := stranger.cq(control.CQ{LogSize: 4})
	s := stranger.qp(control.QP{}, c, c)
	delete(r.e.QPs, s.num)
	s.num, s.q.Num = q.num, q.num
	r.e.QPs[q.num] = s.q
	stranger.c.QPs[q.num] = s.q
	s.up(p)
	p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{})
	r.expire()
	r.failed(p.scq.one(), cqe.TransportRetry, 1)
}

// No queue pair can be made on a completion queue that has overrun.
func TestNothingOnADeadCQ(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c, d := a.cq(control.CQ{LogSize: 0}), a.cq(control.CQ{LogSize: 4})
	p := a.qp(control.QP{}, c, d)
	p.up(p)
	p.post(ctrl(wqe.OpNop))
	p.post(ctrl(wqe.OpNop))
	r.settle()
	require.Equal(t, control.StateERR, p.state())
	state := &control.Error{Code: control.CodeState}
	p.toState(control.StateRST)
	require.ErrorIs(t, p.tryModify(p.toInit()), state)
	err := a.try(control.OpCreateQP, &control.QP{PDN: a.pd, SendCQN: c.num, RecvCQN: d.num, NoReceive: 1, SQ: a.base, DBRec: a.base}, &control.QPN{}, nil)
	require.ErrorIs(t, err, state)
	require.False(t, errors.Is(err, &control.Error{Code: control.CodeNotFound}))
}

// The first unit of a receive is its signature, if the queue pair was made with signatures.
func TestReceiveWithSignature(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	c, d := a.cq(control.CQ{LogSize: 4}), b.cq(control.CQ{LogSize: 4})
	p, q := a.qp(control.QP{}, c, c), b.qp(control.QP{SignatureOn: 1}, d, d)
	p.up(q)
	q.up(p)
	source, target := a.full(8, 1), b.key(8, control.AccessLocalWrite)
	q.recv(wqe.Data{LKey: 0xdead, Addr: 0xbeef, ByteCount: 7}, target.data(0, 8))
	p.post(ctrl(wqe.OpSend), source.data(0, 8))
	r.settle()
	require.Equal(t, cqe.StatusSuccess, d.one().Status)
	r.same(source.mem, target.mem, "message")
}
