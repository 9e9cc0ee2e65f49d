package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A takeover has two queue pairs. The peer of the queue pair victim has ended. The queue pair
// stranger belongs to another client. It has been given the number of the ended peer, and its
// attributes name victim as its peer.
type takeover struct {
	*rig
	victim, stranger *end
	theirs, ours     *key // memory with all rights: theirs is the victim's, ours the stranger's
}

// histories are what the victim and its peer may have done before the peer ends.
var histories = map[string]func(r *rig, victim, peer *end){
	"nothing was sent": func(*rig, *end, *end) {},
	"the victim has sent": func(r *rig, victim, _ *end) {
		victim.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{})
		r.settle()
		victim.good()
	},
	"the peer has sent": func(r *rig, _, peer *end) {
		peer.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{})
		r.settle()
		peer.good()
	},
}

func newTakeover(r *rig, transport uint8, history func(r *rig, victim, peer *end)) *takeover {
	r.Helper()
	a, b, c := r.host("victim"), r.host("peer"), r.host("stranger")
	victim := a.qp(control.QP{Type: transport}, a.cq(control.CQ{LogSize: 6}), a.cq(control.CQ{LogSize: 6}))
	place, d := r.e.Numbers.QP.Place(), b.cq(control.CQ{LogSize: 6})
	peer := b.qp(control.QP{Type: transport}, d, d)
	victim.up(peer)
	peer.up(victim)
	history(r, victim, peer)
	require.NoError(r, b.c.Close())
	r.settle()
	t := &takeover{rig: r, victim: victim, theirs: a.full(256, 1), ours: c.full(256, 2)}
	t.stranger = c.next(r, place, peer.num, transport)
	t.stranger.up(victim)
	return t
}

// next makes a queue pair whose number comes from the given place in the order in which
// numbers are given out. It requires that this is the given number.
func (h *host) next(r *rig, place, number uint32, transport uint8) *end {
	r.Helper()
	r.e.Numbers.QP.SetPlace(place)
	c := h.cq(control.CQ{LogSize: 6})
	p := h.qp(control.QP{Type: transport}, c, h.cq(control.CQ{LogSize: 6}))
	require.Equal(r, number, p.num, "the number is to be given out again")
	return p
}

// ended requires that the peer did not answer p's work request. On RC the work request has an
// error completion. On UC it succeeds, because the requester cannot notice.
func (t *takeover) ended(p *end) {
	t.Helper()
	t.expire()
	want := unharmed
	if p.q.Transport == control.QPTypeRC {
		want = cqe.TransportRetry
	}
	require.Equal(t, want, p.scq.one().Syndrome)
}

// A stranger that is given the number of an ended peer is not connected in either direction,
// whatever the victim and its peer have done before.
func TestANumberIsNoConnection(t *testing.T) {
	for name, history := range histories {
		for _, transport := range []uint8{control.QPTypeRC, control.QPTypeUC} {
			for shards := 1; shards <= 3; shards += 2 {
				t.Run(fmt.Sprintf("%s/%s/%d", name, states.Transports[transport].Name, shards), func(t *testing.T) {
					var r *rig
					if shards == 1 {
						r = newRig(t, Config{})
					} else {
						r = newShards(t, Config{Cores: []int{0, 1, 2}})
						r.shuffle(uint64(transport))
					}
					newTakeover(r, transport, history).fails()
				})
			}
		}
	}
}

func (t *takeover) fails() {
	t.Helper()
	theirs, ours := slices.Clone(t.theirs.mem), slices.Clone(t.ours.mem)
	t.victim.recv(t.theirs.data(0, 64))
	t.victim.recv(t.theirs.data(0, 64))
	requests := map[string]func(){
		"SEND": func() { t.stranger.post(ctrl(wqe.OpSend), t.ours.data(0, 64)) },
		// Takes the slow path.
		"SEND twice": func() { t.stranger.post(ctrl(wqe.OpSend), t.ours.data(0, 4), t.ours.data(8, 4)) },
		"WRITE":      func() { t.stranger.post(ctrl(wqe.OpRDMAWrite), t.theirs.raddr(0), t.ours.data(0, 64)) },
		"WRITE_IMM":  func() { t.stranger.post(ctrl(wqe.OpRDMAWriteImm), t.theirs.raddr(0), t.ours.data(0, 64)) },
	}
	if t.victim.q.Transport == control.QPTypeRC {
		requests["READ"] = func() { t.stranger.post(ctrl(wqe.OpRDMARead), t.theirs.raddr(0), t.ours.data(0, 64)) }
		requests["FETCH_ADD"] = func() {
			t.stranger.post(ctrl(wqe.OpAtomicFA), t.theirs.raddr(0), wqe.Atomic{SwapAdd: 1}, t.ours.data(0, 8))
		}
	}
	for name, post := range requests {
		post()
		t.ended(t.stranger)
		t.same(theirs, t.theirs.mem, name+": the victim's memory")
		t.same(ours, t.ours.mem, name+": the stranger's memory")
		t.victim.rcq.none()
		require.Zero(t, t.victim.q.RQ.Done, "%s: the victim's receives", name)
		t.stranger.reset(t.victim)
	}
	require.Equal(t, control.StateRTS, t.victim.state())

	t.stranger.recv(t.ours.data(0, 64))
	t.victim.post(ctrl(wqe.OpSend), t.theirs.data(0, 64))
	t.ended(t.victim)
	t.same(ours, t.ours.mem, "the stranger's receive")
	t.stranger.rcq.none()
	require.Zero(t, t.stranger.q.RQ.Done)
	if t.victim.q.Transport == control.QPTypeRC {
		require.Equal(t, control.StateERR, t.victim.state())
	}
}

// Work that was unfinished when the peer ended does not continue with the stranger. Such work
// is a message that waits for a receive, or a transfer of which a part is done.
func TestWhatWaitsDoesNotGoToAStranger(t *testing.T) {
	for name, post := range map[string]func(s *scene){
		"SEND that waits": func(s *scene) { s.p.post(ctrl(wqe.OpSend), s.local.data(0, 64)) },
		"long WRITE":      func(s *scene) { s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 256)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Slice: 64})
			place := r.e.Numbers.QP.Place() + 1
			p, q := pair(r.host("victim"), r.host("peer"))
			s := &scene{rig: r, p: p, q: q, local: p.h.full(256, 1), far: q.h.full(256, 7)}
			post(s)
			r.step()
			r.step()
			require.True(t, p.q.Job != nil || p.q.Stall.Kind == object.NotReady, "nothing is under way")
			require.NoError(t, q.h.c.Close())
			c := r.host("stranger")
			box := c.full(64, 9)
			was := slices.Clone(box.mem)
			stranger := c.next(r, place, q.num, control.QPTypeRC)
			stranger.recv(box.data(0, 64))
			stranger.up(p)
			r.expire()
			require.Equal(t, cqe.TransportRetry, p.scq.one().Syndrome)
			stranger.rcq.none()
			r.same(was, box.mem, "the stranger's receive")
		})
	}
}

// To victim and stranger it is explained why their work fails, and neither explanation says
// anything about the other client.
func TestATakeoverIsExplained(t *testing.T) {
	r := newRig(t, Config{})
	x := newTakeover(r, control.QPTypeRC, histories["nothing was sent"])
	victim, stranger := x.victim.h.events(), x.stranger.h.events()
	x.stranger.post(ctrl(wqe.OpSend), x.ours.data(0, 8))
	x.ended(x.stranger)
	require.Equal(t, fmt.Sprintf("peer QP %#06x exists, but does not answer: it is not connected back to %#06x, or not yet; gave up after retry_cnt 2",
		x.victim.num, x.stranger.num), stranger().Text)
	x.victim.post(ctrl(wqe.OpSend), x.theirs.data(0, 8))
	x.ended(x.victim)
	ev := victim()
	require.Equal(t, codes.PeerGone.String(), strings.TrimRight(string(ev.Code[:]), "\x00"))
	require.Equal(t, fmt.Sprintf("peer QP %#06x, to which this queue pair was connected, has ended; one that has the number later is another; gave up after retry_cnt 2",
		x.stranger.num), ev.Text, "not a word of the stranger")
}

// A queue pair that goes to RTR before its peer exists is not connected, which is explained to its
// client at that time. A queue pair that gets the peer's number later is not the peer.
func TestConnectedBeforeThereIsAPeer(t *testing.T) {
	for _, transport := range []uint8{control.QPTypeRC, control.QPTypeUC} {
		r := newRig(t, Config{})
		h := r.host("h")
		next := h.events()
		p := h.qp(control.QP{Type: transport}, h.cq(control.CQ{LogSize: 4}), h.cq(control.CQ{LogSize: 4}))
		place := r.e.Numbers.QP.Place()
		late := r.e.Numbers.QP.At(place)
		p.modify(p.toInit())
		require.Nil(t, next())
		p.modify(p.toRTR(late))
		require.Contains(t, next().Text, fmt.Sprintf("peer QP %#06x did not exist in this engine when this queue pair went to RTR", late))
		p.modify(p.toRTS())

		q := h.next(r, place, late, transport)
		q.up(p)
		x := &takeover{rig: r, victim: p, stranger: q, theirs: h.full(256, 1), ours: h.full(256, 2)}
		q.post(ctrl(wqe.OpSend), x.ours.data(0, 8))
		x.ended(q)
		require.Contains(t, next().Text, fmt.Sprintf("peer QP %#06x is not connected back: it went to RTR before this queue pair existed, when %#06x was nobody's or another's", p.num, q.num))
		q.reset(p)
		x.fails()

		// After both have been reset, they are connected.
		p.reset(q)
		q.reset(p)
		p.rcq.all()
		p.recv(x.theirs.data(0, 8))
		q.post(ctrl(wqe.OpSend), x.ours.data(0, 8))
		r.settle()
		q.good()
		require.Equal(t, unharmed, p.rcq.one().Syndrome)
	}
}

// The two ends of a connection may go through their states in any order. Either end may be
// reset and connected again, even to a third queue pair in between. Whether two queue pairs
// are connected depends only on which queue pair each of them names at RTR.
func TestConnectedInAnyOrder(t *testing.T) {
	r := newRig(t, Config{})
	p, q := duoOf(r)
	talk := func(from, to *end) {
		t.Helper()
		from.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{})
		r.settle()
		from.good()
		require.Zero(t, len(r.stalled()))
	}
	silence := func(from *end) {
		t.Helper()
		from.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{})
		r.expire()
		require.Equal(t, cqe.TransportRetry, from.scq.one().Syndrome)
	}
	rst := func(ends ...*end) {
		for _, x := range ends {
			x.toState(control.StateRST)
			x.sent, x.received = 0, 0
			clear(x.rec)
		}
	}
	ends := []*end{p, q}
	other := []*end{q, p}
	steps := []func(i int){
		func(i int) { ends[i].modify(ends[i].toInit()) },
		func(i int) { ends[i].modify(ends[i].toRTR(other[i].num)) },
		func(i int) { ends[i].modify(ends[i].toRTS()) },
	}
	for order := range 1 << 6 { // bit n says which end takes step n
		var done [2]int
		rst(p, q)
		for n := range 6 {
			if i := order >> n & 1; done[i] < 3 {
				steps[done[i]](i)
				done[i]++
			}
		}
		if done != [2]int{3, 3} {
			continue
		}
		talk(p, q)
		talk(q, p)
	}

	p.reset(q) // resets only one end
	talk(p, q)
	talk(q, p)
	third, _ := duoOf(r)
	p.reset(third)
	silence(q)
	silence(p)
	p.reset(third)
	third.reset(p)
	talk(p, third)
	p.reset(q)
	silence(third)
	q.reset(p)
	talk(p, q)
	talk(q, p)
	p.reset(p)
	talk(p, p)
	q.toState(control.StateERR)
	q.scq.all()
	p.reset(q)
	q.reset(p)
	talk(p, q)
	talk(q, p)
}

// duoOf returns a connected pair of queue pairs of two new clients.
func duoOf(r *rig) (p, q *end) { return pair(r.host("p"), r.host("q")) }

// A window of type 2 belongs to the queue pair that bound it, and not to another queue pair of
// the same protection domain that gets the number later.
func TestAWindowEndsWithItsQueuePair(t *testing.T) {
	s := newScene(t, Config{})
	place := s.e.Numbers.QP.Place() - 1 // the place of idle's number
	h := s.q.h
	w := h.window(2)
	s.umr(s.idle, unharmed, w, s.idle.bind(2, uint8(w), s.far, 0, 64, mkeyWrite))
	s.idle.destroy()
	heir := h.next(s.rig, place, s.idle.num, control.QPTypeRC)
	heir.up(s.idle1)
	s.idle1.reset(heir)
	next, was := h.events(), slices.Clone(s.far.mem)
	s.idle1.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: s.far.addr, RKey: w}, []byte("written!"))
	s.settle()
	require.Equal(t, cqe.RemoteAccess, s.idle1.scq.one().Syndrome)
	s.same(was, s.far.mem, "memory of the window")
	for ev := next(); ; ev = next() {
		require.NotNil(t, ev, "the owner is told")
		if ev.Kind == control.EventExplanation {
			require.Contains(t, ev.Text, "is a window of QP")
			break
		}
	}
	heir.reset(s.idle1)
	s.idle1.reset(heir)
	heir.recv()
	c := ctrl(wqe.OpSendInval)
	c.Imm = w
	s.idle1.post(c)
	s.expire()
	require.Equal(t, cqe.RemoteInvalidRequest, heir.rcq.one().Syndrome)
	require.Equal(t, cqe.TransportRetry, s.idle1.scq.one().Syndrome)
}
