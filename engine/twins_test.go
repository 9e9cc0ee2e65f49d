package engine

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// Twins are two engines that are given the same bytes. One engine executes all the WQEs
// that it can by the fast path; the other never uses the fast path. Keys, numbers and
// addresses are the same in both, so all that clients can see must be the same, byte for
// byte.
type twins struct {
	testing.TB
	fast, slow *twin
}

// A twin is one of the two engines, with a client that posts and a client that it posts to.
type twin struct {
	*rig
	a, b              *host
	p, q              *end
	local, far, inbox *key
	events            [2]func() *control.Event
	inRegister        int // blocks that were executed from the BlueFlame register
}

// twinSize is the size of the region of a twin's client. There are thousands of twins, and all of their
// memory is cleared and compared.
const twinSize = 256 << 10

// newTwins makes both engines. prepare makes the queue pairs; nil means reliable
// connections.
func newTwins(t testing.TB, prepare func(a, b *host) (p, q *end)) *twins {
	t.Helper()
	if prepare == nil {
		prepare = kindOf(control.QPTypeRC)
	}
	return &twins{t, newTwin(t, false, prepare), newTwin(t, true, prepare)}
}

// kindOf prepares queue pairs of a transport with completion queues of 64 entries.
func kindOf(transport uint8) func(a, b *host) (p, q *end) {
	return withCQs(control.QP{Type: transport}, 6, 6)
}

// withCQs prepares queue pairs with completion queues of 2^logA and 2^logB entries. m is
// the poster's queue pair.
func withCQs(m control.QP, logA, logB uint8) func(a, b *host) (p, q *end) {
	return func(a, b *host) (p, q *end) {
		ca, cb := a.cq(control.CQ{LogSize: logA}), b.cq(control.CQ{LogSize: logB})
		return a.qp(m, ca, ca), b.qp(control.QP{Type: m.Type, UserIndex: uidx + 1}, cb, cb)
	}
}

func newTwin(t testing.TB, slow bool, prepare func(a, b *host) (p, q *end)) *twin {
	t.Helper()
	w := &twin{rig: newRepeatable(t, Config{})}
	w.e.Hooks.NoFastPath, w.e.Hooks.ExplainAll = slow, true
	size := regionSize
	regionSize = min(size, twinSize)
	w.a, w.b = w.host("a"), w.host("b")
	regionSize = size
	w.events = [2]func() *control.Event{w.a.events(), w.b.events()}
	w.local, w.far, w.inbox = w.a.full(8192, 1), w.b.full(8192, 2), w.b.full(8192, 3)
	w.p, w.q = prepare(w.a, w.b)
	w.p.up(w.q)
	if w.p != w.q {
		w.q.up(w.p)
	}
	// This makes p know its peer.
	if w.p.q.Transport != control.QPTypeUD {
		w.p.q.Conn.Peer = w.p.q.Client.Shard.BoundPeer(w.p.q)
	}
	return w
}

// both calls f for both twins.
func (t *twins) both(f func(w *twin)) {
	for _, w := range []*twin{t.fast, t.slow} {
		f(w)
	}
}

// fastPath lets both twins try their next WQEs by the fast path, and returns how many WQEs
// the fast twin took.
func (t *twins) fastPath() (taken int) {
	t.Helper()
	t.both(func(w *twin) {
		w.e.Fault.QP = w.p.q
		n, _ := w.e.FastPath(w.p.q, int(w.e.Pending(w.p.q)), w.e.Settings.Slice)
		w.e.Fault.QP = nil
		if w == t.fast {
			taken = n
		} else {
			require.Zero(t, n)
		}
	})
	return taken
}

// A sight is all that the clients of an engine can see, except the time.
type sight struct {
	memory  [2][]byte // all memory: buffers, rings, completions, records
	qps     []string
	cqs     []string
	srqs    []string
	counts  [2]object.Counts
	traffic [2]nic.PortCounts
	events  [2][]string // all events, including explanations with their words and bytes
}

// see waits until the engine has nothing to do, and returns all that can be seen then. When the
// device has last looked at a consumer index cannot be seen: it looks earlier for a series.
func (w *twin) see() (s sight) {
	w.Helper()
	w.settle()
	for i, h := range []*host{w.a, w.b} {
		for _, c := range h.pollers {
			c.expandSessions()
		}
		for _, c := range sorted(h.c.CQs) {
			eraseTime(c)
			s.cqs = append(s.cqs, fmt.Sprintf("CQ %#x of %d: next %d, dead %t, held %#x, events %d, armed %t, solicited %t, last solicited %d",
				c.Num, i, c.Next, c.Dead, c.Held, c.Sent, c.Armed, c.Solicited, c.LastSolicited))
		}
		for _, q := range sorted(h.c.QPs) {
			s.qps = append(s.qps, fmt.Sprintf("QP %#x of %d: %+v, sent %d, WQEs %d, bytes %d, enabled %d, received %d, failed %t, stall %d with %d left, tries left %d, suspicion %+v, fault %v",
				q.Num, i, q.Attr, q.SQ.Done, q.SQ.WQEs, q.SQ.Moved, q.SQ.Enabled, q.RQ.Done, q.Failed, q.Stall.Kind, q.Stall.Left, triesLeft(q), withoutTimes(q.Suspicion), q.Faulted))
		}
		for _, r := range sorted(h.c.SRQs) {
			s.srqs = append(s.srqs, fmt.Sprintf("SRQ %#x of %d: head %d, taken %d, back %v, limit %d", r.Num, i, r.Head, r.Taken, r.Returned, r.Limit))
		}
		s.memory[i] = h.mem.Bytes()[:h.used]
		s.counts[i] = h.c.Count
		s.traffic[i] = traffic.Sum(&h.c.Traffic)
		if h.c.Linked > 0 {
			n := &s.traffic[i]
			n[nic.SentPackets], n[nic.GotPackets] = 0, 0 // acknowledgements can be fewer
		}
		for ev := w.events[i](); ev != nil; ev = w.events[i]() {
			s.events[i] = append(s.events[i], fmt.Sprintf("%+v", *ev))
		}
	}
	return s
}

// withoutTimes returns what has been explained, without the time at which something was suspected.
func withoutTimes(s object.Suspicion) object.Suspicion {
	s.Suspected, s.Since = 0, 0
	return s
}

// eraseTime clears the timestamps of completions, which differ between any two engines.
func eraseTime(q *object.CQ) {
	for slot := range min(q.Next, 1<<q.Log) {
		b := (*[cqe.Size]byte)(q.Entry(slot))
		switch cqe.OpOwn(b[cqe.Size-1]).Opcode() {
		case cqe.ReqErr, cqe.RespErr:
		default:
			clear(b[cqe.OffTimestamp:][:8])
		}
	}
}

func sorted[V any](m map[uint32]V) (list []V) {
	for _, n := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[n])
	}
	return list
}

// differ returns the differences between two sights, one line each.
func differ(fast, slow sight) (diffs []string) {
	say := func(format string, args ...any) { diffs = append(diffs, fmt.Sprintf(format, args...)) }
	for i := range 2 {
		if !bytes.Equal(fast.memory[i], slow.memory[i]) {
			at := 0
			for fast.memory[i][at] == slow.memory[i][at] {
				at++
			}
			line := at &^ 63
			say("memory of client %d, from %#x on:\nfast % x\nslow % x", i, line, fast.memory[i][line:line+64], slow.memory[i][line:line+64])
		}
		if fast.counts[i] != slow.counts[i] {
			say("counters of client %d:\nfast %v\nslow %v", i, fast.counts[i], slow.counts[i])
		}
		if fast.traffic[i] != slow.traffic[i] {
			say("packets and requests of client %d:\nfast %v\nslow %v", i, fast.traffic[i], slow.traffic[i])
		}
		if !slices.Equal(fast.events[i], slow.events[i]) {
			say("events of client %d:\nfast %q\nslow %q", i, fast.events[i], slow.events[i])
		}
	}
	for _, l := range [][2][]string{{fast.qps, slow.qps}, {fast.cqs, slow.cqs}, {fast.srqs, slow.srqs}} {
		if !slices.Equal(l[0], l[1]) {
			say("objects:\nfast %q\nslow %q", l[0], l[1])
		}
	}
	return diffs
}

// compare fails the test if the twins differ.
func (t *twins) compare() {
	t.Helper()
	for _, d := range differ(t.fast.see(), t.slow.see()) {
		t.Error(d)
	}
}

// triesLeft returns how many RNR retries the next WQE of q has left if it has waited already,
// and -1 otherwise. The retries of an earlier WQE have no effect: one engine may have executed that
// WQE from the BlueFlame register, before the other engine's WQE waited.
func triesLeft(q *object.QP) int {
	if q.RNRIndex != q.SQ.Done+1 {
		return -1
	}
	return int(q.RNRLeft)
}
