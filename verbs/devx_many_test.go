package verbs

import (
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// manyObjects is more than the engine's socket for events holds.
const manyObjects = 1000

// cookies reads a channel without entries until each object's event has come, exactly one.
func (m *maker) cookies(channel uint64) {
	m.Helper()
	got := make(map[uint64]bool)
	await.Until(m, "an event of each object", func() bool {
		for b := m.read(channel, 72); b != nil; b = m.read(channel, 72) {
			require.False(m, got[le.Uint64(b)], "cookie %d was read twice", le.Uint64(b))
			got[le.Uint64(b)] = true
		}
		return len(got) == manyObjects
	})
}

// However many CQs complete together, and however late the server reads what the engine says of it, the
// program gets an event of each.
func TestManyQueuesCompleteTogether(t *testing.T) {
	m := newMaker(t)
	x, brief := m.context(), m.channel(1)
	ring, _ := m.umem(1 << 20)
	entries, _ := m.umem(1 << 20)
	records, _ := m.umem(1 << 20)
	for i := range manyObjects {
		h, cqn := m.made(m.cqCommand(devx.CQLogSize, 1, devx.CQUmem, entries, devx.CQUmemOffset, i*128,
			devx.CQRecordUmem, records, devx.CQRecord, i*16), devx.NewCQN)
		p, qpn := m.made(m.qpCommand(cqn, devx.QPUmem, ring, devx.QPUmemOffset, i*64, devx.QPLogSQ, 0,
			devx.QPRecordUmem, records, devx.QPRecord, i*16+8), devx.NewQPN)
		m.connect(p, qpn, 3)
		require.Zero(t, m.subscribe(brief, h, []uint16{eventCompletion}, withCookie(uint64(i))))
		u, r := x.umems[ring], x.umems[records]
		b := wqe.Start(u.extent.at(u.addr+uint64(i*64), 64), 0)
		_, err := b.Finish(wqe.Ctrl{Opcode: wqe.OpNop, QPN: qpn, Flags: 8})
		require.NoError(t, err)
		shm.BE32At(r.extent.at(r.addr+uint64(i*16), 8), 4).Publish(0) // armed, before the post or after it
	}
	x.subs.mu.Lock() // the server's reader waits
	r, e := x.umems[records], x.umems[entries]
	for i := range uint64(manyObjects) {
		shm.BE32At(r.extent.at(r.addr+i*16+8, 8), 4).Publish(1)
	}
	for i := range uint64(manyObjects) {
		tail := shm.BE32At(e.extent.at(e.addr+i*128, 64), 60)
		await.Until(t, "each has completed", func() bool { return tail.Observe()&0xff == 0 })
	}
	x.subs.mu.Unlock()
	m.cookies(brief)
}

// Many queue pairs fail together when the CQ that they share overruns.
func TestManyQueuePairsFailTogether(t *testing.T) {
	m := newMaker(t)
	x, brief := m.context(), m.channel(1)
	ring, _ := m.umem(1 << 20)
	_, cqn := m.made(m.cqCommand(devx.CQLogSize, 1), devx.NewCQN)
	_, rmpn := m.made(m.rmpCommand(), devx.NewRMPN)
	var numbers []uint32
	for i := range manyObjects {
		record := 256 + 8*min(i, 1) // the first one is to post, and the others are not
		h, qpn := m.made(m.qpCommand(cqn, devx.QPUmem, ring, devx.QPUmemOffset, i*256, devx.QPLogSQ, 2,
			devx.QPRecord, record, devx.QPReceiveCQ, cqn, devx.QPRQType, devx.RQShared, devx.QPSRQ, rmpn), devx.NewQPN)
		m.connect(h, qpn, 3)
		require.Zero(t, m.subscribe(brief, h, []uint16{eventLastWQE}, withCookie(uint64(i))))
		numbers = append(numbers, qpn)
	}
	x.subs.mu.Lock() // the server's reader waits
	u, r := x.umems[ring], x.umems[m.records]
	sq := u.extent.at(u.addr, 256)
	for i := range uint16(4) {
		b := wqe.Start(sq, i)
		_, err := b.Finish(wqe.Ctrl{Opcode: wqe.OpNop, QPN: numbers[0], Flags: 8})
		require.NoError(t, err)
	}
	shm.BE32At(r.extent.at(r.addr+256, 8), 4).Publish(4)
	for _, n := range numbers {
		await.Until(t, "each is in error", func() bool {
			a, _, err := x.request(control.OpQueryQP, &control.QPN{QPN: n})
			require.NoError(t, err)
			return a.(*control.QPAttr).State == control.StateERR
		})
	}
	x.subs.mu.Unlock()
	m.cookies(brief)
}

// An event that waits for room outlives its object, as in the kernel, and is charged until it is read or
// its channel is closed. So a program that never reads is bounded by its limit.
func TestEventsThatOutliveTheirObjects(t *testing.T) {
	m := newMaker(t)
	x, brief := m.context(), m.channel(1)
	_, cqn := m.made(m.cqCommand(), devx.NewCQN)
	f := x.channelOf(x.subs.channels, cookieFrom(t, m.files[brief]))
	before := x.cost
	// charged waits until what is charged is what waits, and returns how many events do. Those for which the
	// socket had room after all are refunded by a goroutine.
	charged := func() (waiting int) {
		await.Until(t, "what waits is charged", func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.subs.mu.Lock()
			defer x.subs.mu.Unlock()
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, d := range f.waiting {
				require.Nil(t, d.once.object, "it keeps a queue pair")
			}
			waiting = len(f.waiting)
			return x.subs.count == waiting && x.cost.Memory == before.Memory+waiting*subscriptionCost.Memory
		})
		return waiting
	}
	fail := func() {
		for i := range uint64(manyObjects) {
			h, qpn := m.made(m.qpCommand(cqn), devx.NewQPN)
			require.Zero(t, m.subscribe(brief, h, []uint16{eventLastWQE}, withCookie(i)))
			x.translate(&control.Event{Kind: control.EventLastWQE, Number: qpn})
			require.Zero(t, m.destroy(h))
		}
		require.NotZero(t, charged())
	}
	fail()
	m.cookies(brief)
	require.Zero(t, charged())

	fail()
	require.NoError(t, m.files[brief].Close())
	await.Until(t, "all is refunded", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.cost == before.Minus(f.cost())
	})
}
