package sanitize

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

func TestKeyGone(t *testing.T) {
	t.Run("in flight", func(t *testing.T) {
		x := pair(t, Options{})
		i := x.post(0x51, write(1, 0, 2, 0, 64))
		x.deregister(2, keyOf(2))
		x.add(trace.Event{Kind: trace.KindFail, Queue: 0x51, Index: i, Count: 1, Value: 0x13})
		x.requireCodes("key-gone")
		require.Equal(t, "the key 0x201 is used after it was deregistered, while the WQE was in flight", x.reports[0].Text)
		require.EqualValues(t, 4712, x.reports[0].Accesses[1].PID)
	})
	t.Run("before", func(t *testing.T) {
		x := pair(t, Options{})
		x.deregister(1, keyOf(1))
		x.post(0x51, write(1, 0, 2, 0, 64))
		x.requireCodes("key-gone")
		require.Contains(t, x.reports[0].Text, "before the WQE was posted")
	})
	t.Run("of a receive", func(t *testing.T) {
		x := pair(t, Options{})
		b := entry(keyOf(2), memory(2), 128, false)
		x.postReceive(0x52, 2, 0, false, b)
		x.deregister(2, keyOf(2))
		i := x.post(0x51, send(1, 0, 64))
		x.add(trace.Event{Kind: trace.KindReceive, Queue: 0x52, Value: 0x52, Data: b})
		x.add(trace.Event{Kind: trace.KindFail, Queue: 0x51, Index: i, Count: 1, Value: 0x14})
		x.requireCodes("key-gone")
	})
	t.Run("after the bytes were moved", func(t *testing.T) {
		x := pair(t, Options{})
		x.do(0x51, write(1, 0, 2, 0, 64), firstCQ+1)
		x.deregister(2, keyOf(2))
		x.requireCodes()
	})
	t.Run("registered again", func(t *testing.T) {
		x := pair(t, Options{})
		x.deregister(2, keyOf(2))
		x.register(2, keyOf(2), memory(2), size)
		x.do(0x51, write(1, 0, 2, 0, 64), firstCQ+1)
		x.requireCodes()
	})
	t.Run("flushed", func(t *testing.T) {
		x := pair(t, Options{})
		x.postReceive(0x52, 2, 0, false, entry(keyOf(2), memory(2), 128, false))
		x.post(0x51, write(1, 0, 2, 0, 64))
		x.state(0x51, trace.RTS, trace.ERR)
		x.state(0x52, trace.RTS, trace.ERR)
		x.deregister(1, keyOf(1))
		x.deregister(2, keyOf(2))
		x.requireCodes()
	})
	t.Run("went with its process", func(t *testing.T) {
		x := pair(t, Options{})
		i := x.post(0x51, write(1, 0, 2, 0, 64))
		x.destroy(0x52)
		x.deregister(2, keyOf(2))
		x.leave(2)
		x.add(trace.Event{Kind: trace.KindFail, Queue: 0x51, Index: i, Count: 1, Value: 0x15})
		x.requireCodes()
	})
}

func TestNeverPolled(t *testing.T) {
	x := pair(t, Options{})
	x.execute(0x51, x.post(0x51, write(1, 0, 2, 0, 64)), 64, firstCQ+1)
	x.execute(0x51, x.post(0x51, write(1, 0, 2, 0, 64)), 64, firstCQ+1)
	x.destroy(0x51)
	x.destroyCQ(firstCQ+1, 0)
	x.destroyCQ(recvCQ+1, 0)
	x.requireCodes("never-polled")
	require.Equal(t, "a completion queue had 2 completions without an error, and none was ever taken", x.reports[0].Text)
}

// libmlx5 removes the completions of a queue pair that was destroyed, as if the program took them. An event
// says how many it had taken before.
func TestNeverPolledBeforeTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		before int    // taken before the queue pair is destroyed; -1: no event says it
		after  uint64 // and when the completion queue is
		want   []string
	}{
		"removed":                       {0, 2, []string{"never-polled"}},
		"left":                          {0, 0, []string{"never-polled"}},
		"taken":                         {1, 2, nil},
		"one of another queue is taken": {0, 3, nil},
		"not known":                     {-1, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := pair(t, Options{})
			x.queue(0x57, 1, 0x58)
			for range 2 {
				x.execute(0x51, x.post(0x51, write(1, 0, 2, 0, 64)), 64, firstCQ+1)
			}
			if c.before >= 0 {
				x.add(trace.Event{Kind: trace.KindPolled, Queue: firstCQ + 1, Value: uint64(c.before)})
			}
			x.destroy(0x51)
			x.execute(0x57, x.post(0x57, write(1, 0, 2, 0, 64)), 64, firstCQ+1)
			x.destroyCQ(firstCQ+1, c.after)
			x.requireCodes(c.want...)
		})
	}
}

// A program that ends with completions which it does not want is usual.
func TestPolledOnce(t *testing.T) {
	x := pair(t, Options{})
	x.do(0x51, write(1, 0, 2, 0, 64), firstCQ+1)
	x.execute(0x51, x.post(0x51, write(1, 0, 2, 0, 64)), 64, firstCQ+1)
	x.destroyCQ(firstCQ+1, 1)
	x.requireCodes()
}

// Events that were not recorded for a sanitizer do not tell what was polled.
func TestNotRecorded(t *testing.T) {
	x := pair(t, Options{})
	x.execute(0x51, x.post(0x51, write(1, 0, 2, 0, 64)), 64, firstCQ+1)
	x.add(trace.Event{Kind: trace.KindCQ, Queue: firstCQ + 1, Index: trace.KeyGone, Data: trace.CQSetup{}.Append(nil)})
	x.requireCodes()
	require.False(t, x.s.Result().Recorded)

	// Without a WQE there is nothing that could be missing.
	require.True(t, pair(t, Options{}).s.Result().Recorded)

	// Nor does an event before the completion.
	x = pair(t, Options{})
	x.add(trace.Event{Kind: trace.KindPolled, Queue: firstCQ + 1})
	x.execute(0x51, x.post(0x51, write(1, 0, 2, 0, 64)), 64, firstCQ+1)
	x.add(trace.Event{Kind: trace.KindCQ, Queue: firstCQ + 1, Index: trace.KeyGone, Data: trace.CQSetup{}.Append(nil)})
	x.requireCodes()
}

func TestReceivesNeverConsumed(t *testing.T) {
	x := pair(t, Options{Notes: true})
	b := entry(keyOf(2), memory(2), 128, false)
	x.postReceive(0x52, 2, 0, false, b)
	x.postReceive(0x52, 2, 1, false, b)
	x.postReceive(0x51, 1, 0, false, entry(keyOf(1), memory(1), 128, false))
	i := x.post(0x52, send(2, 4096, 64))
	x.deliver(0x52, i, 64, 0x51, 0x51, 0, entry(keyOf(1), memory(1), 128, false), false)
	x.destroy(0x51)
	x.destroy(0x52)
	x.requireCodes("receives-never-consumed (note)")
	require.EqualValues(t, 0x52, x.reports[0].Accesses[0].QP)
}

func TestDestroyedInFlight(t *testing.T) {
	x := pair(t, Options{Notes: true})
	x.post(0x51, write(1, 0, 2, 0, 64))
	x.destroy(0x51)
	x.requireCodes("destroyed-in-flight")
	require.Equal(t, "a queue pair was destroyed in RTS with a WQE in flight: nobody knows whether it was executed", x.reports[0].Text)

	x = pair(t, Options{Notes: true})
	x.post(0x51, write(1, 0, 2, 0, 64))
	x.post(0x51, write(1, 0, 2, 0, 64))
	x.leaveQueue(0x51)
	x.leave(1)
	x.requireCodes("destroyed-in-flight (note)")
	require.Equal(t, "a program has ended with 2 WQEs in flight: nobody knows whether they were executed", x.reports[0].Text)
}

// Over a link the device copies the WQEs of a visit when it has sent their packets. An unreliable one has its
// completion by then.
func TestRecordedAfterItsCompletion(t *testing.T) {
	x := newScript(t, Options{Notes: true})
	x.client(1, 4711)
	x.queueOn(0x51, 1, 0, trace.UC, 0, 1)
	for range 3 {
		m := send(1, 0, 64)
		i := x.post(0x51, m)
		var b [cqe.Size]byte
		cqe.PutReq(&b, 0x51, 0, 0, i, 0, 0, cqe.MakeOpOwn(cqe.Req, 0, false, 0))
		x.cqe(firstCQ+1, b[:])
		x.next[0x51] = i
		x.post(0x51, m)
		x.poll(firstCQ + 1)
	}
	x.state(0x51, trace.RTS, trace.RST)
	x.state(0x51, trace.RST, trace.RTS)
	x.next[0x51] = 0 // indices begin anew, so this one has not ended
	x.post(0x51, send(1, 0, 64))
	x.destroy(0x51)
	x.requireCodes("destroyed-in-flight")
}

func TestDestroyedInOrder(t *testing.T) {
	for name, before := range map[string]func(x *script, i uint16){
		"executed":    func(x *script, i uint16) { x.execute(0x51, i, 64, firstCQ+1) },
		"in ERR":      func(x *script, _ uint16) { x.state(0x51, trace.RTS, trace.ERR) },
		"no peer":     func(x *script, _ uint16) { x.destroy(0x52) },
		"after reset": func(x *script, _ uint16) { x.state(0x51, trace.RTS, trace.RST); x.poll(firstCQ + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			x := pair(t, Options{})
			i := x.post(0x51, write(1, 0, 2, 0, 64))
			before(x, i)
			if name == "executed" || name == "no peer" {
				x.destroy(0x51)
			} else {
				x.add(trace.Event{Kind: trace.KindQueueGone, Queue: 0x51})
			}
			x.register(1, 0x9001, memory(1), 4096)
			x.requireCodes()
		})
	}
}

// Lost events may have said how what was in flight has ended.
func TestLost(t *testing.T) {
	x := three(t, Options{})
	x.post(0x51, write(1, 0, 2, 0, 64))
	x.add(trace.Event{Kind: trace.KindLost, Value: 7})
	x.post(0x53, write(3, 0, 2, 0, 64))
	x.destroyCQ(firstCQ+1, 0)
	x.destroy(0x51)
	x.requireCodes("events-lost (note)")
	require.Contains(t, x.reports[0].Text, "7 events are lost")
}

// A client that connects has no name yet. Reports have the one that it gives.
func TestClientIsNamedLater(t *testing.T) {
	x := newScript(t, Options{})
	x.add(trace.Event{Kind: trace.KindClient, Queue: 1, Value: 4711, Data: []byte("pid 4711 uid 0")})
	x.client(1, 4711)
	require.Equal(t, "pid 4711 (put)", x.s.nameOf(x.s.clients[1].process))
}
