package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/nicless/nicless/engine/internal/eventsocket"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// manyEvents is more events than a socket and the queue of its closers hold.
const manyEvents = 1000

// A channel that is not read before all its queues have fired gives an event of each, exactly one, whoever
// sends them. A queue that is destroyed meanwhile gives none.
func TestCompletionEventsWaitForRoom(t *testing.T) {
	for _, kin := range []bool{true, false} {
		t.Run(fmt.Sprint("kin ", kin), func(t *testing.T) {
			roomy(t)
			r := newRig(t, Config{})
			h := r.host("h")
			id, event := h.channel()
			out := h.c.Channels[id].Out
			out.Kin = kin
			if !kin {
				out.Seen = 0
			}
			shared := h.cq(control.CQ{LogSize: 4})
			cqs, ends := make(map[uint64]*poller), make(map[uint64]*end)
			for i := range uint64(manyEvents) {
				c := h.cq(control.CQ{LogSize: 1, Channel: id, Handle: i})
				p := h.qp(control.QP{LogSQ: 1, NoReceive: 1}, c, shared)
				p.up(p)
				c.arm(0, false)
				r.e.ObserveArm(r.e.CQs[c.num])
				p.post(ctrl(wqe.OpNop))
				cqs[i], ends[i] = c, p
			}
			r.settle()
			ch := h.c.Channels[id]
			require.NotZero(t, ch.Late)
			require.Equal(t, ch.Late, len(h.c.Arms.Held))
			late := h.c.Arms.Held[0]
			require.True(t, late.Armed)
			require.LessOrEqual(t, late.HeldUntil(), out.Room.Until())
			ends[late.Handle].destroy()
			h.call(control.OpDestroyCQ, &control.CQN{CQN: late.Num}, &control.Empty{})
			delete(cqs, late.Handle)
			r.until("each event is read", func() bool {
				r.settle()
				for handle, ok := event(); ok; handle, ok = event() {
					require.NotNil(t, cqs[handle], "event of %d: twice, or of a queue that is gone", handle)
					require.False(t, r.e.CQs[cqs[handle].num].Armed)
					delete(cqs, handle)
				}
				return len(cqs) == 0
			})
			require.Zero(t, ch.Late)
			require.Empty(t, h.c.Arms.Held)
			require.Zero(t, r.e.Arm.Held)
			require.Equal(t, uint64(manyEvents-1), h.c.Count[control.CounterEvents])
		})
	}
}

// Events about objects wait too, at most one for each object and kind. An object that is destroyed
// meanwhile gives none.
func TestObjectEventsWaitForRoom(t *testing.T) {
	roomy(t)
	r := newRig(t, Config{})
	h := r.host("h")
	events := h.events()
	c := h.cq(control.CQ{LogSize: 4})
	want := make(map[happening]bool)
	var ends []*end
	for range manyEvents {
		p := h.qp(control.QP{LogSQ: 1, NoReceive: 1}, c, c)
		p.up(p)
		ends = append(ends, p)
		want[happening{control.EventDrained, p.num}] = true
	}
	drain := func() {
		for _, p := range ends {
			p.toState(control.StateSQD)
			p.toState(control.StateRTS)
		}
	}
	drain()
	require.NotZero(t, h.c.Late.Len())
	drain()
	require.Equal(t, manyEvents, h.c.Late.Len(), "one of each that has drained again, and of each that waited")
	gone := ends[manyEvents-1]
	gone.destroy()
	require.Equal(t, manyEvents-1, h.c.Late.Len())
	_, next := visitEverything(r.e, true)
	require.LessOrEqual(t, next, clock.Cycles(time.Second), "the engine does not sleep for long")

	got := make(map[happening]int)
	r.until("each event is read", func() bool {
		r.settle()
		for _, ev := range happened(events) {
			got[ev]++
		}
		return h.c.Late.Len() == 0
	})
	for _, ev := range happened(events) {
		got[ev]++
	}
	delete(want, happening{control.EventDrained, gone.num})
	require.Len(t, got, len(want))
	for ev := range want {
		require.Contains(t, got, ev)
		require.LessOrEqual(t, got[ev], 2)
	}
	require.Empty(t, r.e.Arm.Late.Clients)

	drain = func() {
		for range 2 {
			for _, p := range ends[:manyEvents-1] {
				p.toState(control.StateSQD)
				p.toState(control.StateRTS)
			}
		}
	}
	drain()
	require.NotEmpty(t, r.e.Arm.Late.Clients)
	require.NoError(t, h.c.Close())
	require.Empty(t, r.e.Arm.Late.Clients)
}

// An event that finds room does not go before those that wait for it.
func TestEventsThatWaitComeFirst(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	id, event := h.channel()
	ch := h.c.Channels[id]
	late, next := h.cq(control.CQ{LogSize: 1, Channel: id, Handle: 1}), h.cq(control.CQ{LogSize: 1, Channel: id, Handle: 2})
	q, other := r.e.CQs[late.num], r.e.CQs[next.num]
	for r.e.Fire(q) { // until the socket is full
	}
	require.Equal(t, 1, ch.Late)
	_, ok := event()
	require.True(t, ok)
	ch.Out.Room = eventsocket.Pauses{} // the pause is over
	require.False(t, r.e.Fire(other))
	require.Equal(t, 2, ch.Late)
	q.Armed, other.Armed = true, true
	require.Equal(t, 1, r.e.ObserveHeld(q))
	require.Equal(t, 1, ch.Late)
	for _, ok = event(); ok; _, ok = event() {
	}
	ch.Out.Room = eventsocket.Pauses{}
	require.Equal(t, 1, r.e.ObserveHeld(other))
	require.Zero(t, ch.Late)
	handle, _ := event()
	require.EqualValues(t, 2, handle)
}

// Events that wait for room move with their client to another shard.
func TestEventsThatWaitMove(t *testing.T) {
	r := newShards(t, Config{})
	h := r.host("h")
	id, event := h.channel()
	events := h.events()
	c := h.cq(control.CQ{LogSize: 1, Channel: id, Handle: 1})
	p := h.qp(control.QP{LogSQ: 1, NoReceive: 1}, c, c)
	p.up(p)
	q, from := h.c.CQs[c.num], r.d.runner.Loops[h.c.Shard.Number]
	for from.Fire(q) { // until the socket is full
	}
	q.Armed = true
	for h.c.Late.Len() == 0 {
		p.toState(control.StateSQD)
		p.toState(control.StateRTS)
	}
	to := r.d.runner.Loops[1-from.Number]
	r.e.Do(func() { r.d.runner.Move(h.c.Client, &to.Shard) })
	require.Equal(t, 1, h.c.Channels[id].Late)
	require.Equal(t, object.LateCompletion, q.Late)
	require.Equal(t, []int{0, 0, 1, 1},
		[]int{from.Arm.Held, len(from.Arm.Late.Clients), to.Arm.Held, len(to.Arm.Late.Clients)})
	for _, ok := event(); ok; _, ok = event() {
	}
	require.NotEmpty(t, happened(events))
	r.until("both come", func() bool {
		r.settle()
		return q.Late == 0 && h.c.Late.Len() == 0
	})
	require.Equal(t, []happening{{control.EventDrained, p.num}}, happened(events))
	_, ok := event()
	require.True(t, ok)
}
