//go:build linux && (amd64 || arm64)

package engine

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// order makes the device of a host obey a rule of order until the end of the test. settle ends pauses. The
// times of other stalls do not go on.
func (r *rig) order(h *host, o fault.Order, seed uint64) *fault.Set {
	r.Helper()
	set, err := fault.NewSet(&fault.Rules{Seed: fault.Number(seed), Rules: []fault.Rule{{Name: "bad order", Order: o}}})
	require.NoError(r, err)
	rules := h.c.Device.SetFaults(set, nil)
	r.Cleanup(func() { h.c.Device.EndFaults(rules) })
	r.atRest = func() bool { return r.endPauses() > 0 }
	return set
}

// endPauses ends all pauses, and returns how many there were.
func (r *rig) endPauses() (n int) {
	for _, q := range r.stalled() {
		if q.Stall.Kind == object.Held {
			q.Stall.Deadline, n = 0, n+1
		}
	}
	return n
}

// An ordered is a connected pair of queue pairs with a rule of order, and memory of both.
type ordered struct {
	*scene
	from, to *key // 64 KiB each
	set      *fault.Set
}

func newOrdered(t *testing.T, o fault.Order, seed uint64, flags uint32) *ordered {
	s := &ordered{scene: newScene(t, Config{})}
	for _, l := range s.d.runner.Loops {
		holdClock(l)
		l.Hooks.ExplainAll = true
	}
	s.from = s.p.h.full(64<<10, 1)
	s.to = s.q.h.key(64<<10, control.AccessAll&^control.AccessZeroBased|flags)
	s.set = s.order(s.p.h, o, seed)
	return s
}

// send posts a WRITE of n bytes from the same place of s.from to a place of s.to.
func (s *ordered) send(off, n int) uint16 {
	return s.p.write(ctrl(wqe.OpRDMAWrite), s.to.raddr(off), s.from.data(off, n))
}

// states steps until the queue is at rest, and calls f after each step.
func (s *ordered) states(f func()) {
	for idle := 0; idle < 100; idle++ {
		if s.step() != 0 || s.endPauses() > 0 {
			idle = 0
		}
		f()
	}
}

// lines returns which of the first n lines of 64 bytes of s.to are there: '#', or not: '.'.
func (s *ordered) lines(n int) string {
	b := make([]byte, n)
	for i := range b {
		there, not, got := s.from.mem[i*64:][:64], make([]byte, 64), s.to.mem[i*64:][:64]
		switch {
		case slices.Equal(got, there):
			b[i] = '#'
		case slices.Equal(got, not):
			b[i] = '.'
		default:
			b[i] = '?'
		}
	}
	return string(b)
}

// The bytes of a WRITE appear cache line by cache line, in an order that depends on the seed alone. All are
// there before the completion.
func TestOrderOfOneMessage(t *testing.T) {
	run := func(seed uint64) (list []string) {
		s := newOrdered(t, fault.Weak, seed, 0)
		s.send(0, 4096)
		s.p.ring()
		s.states(func() {
			now := s.lines(64)
			if slices.Contains(list, "completion") {
				return
			}
			if len(list) == 0 || list[len(list)-1] != now {
				list = append(list, now)
			}
			if w := s.p.scq.all(); len(w) > 0 {
				require.Equal(t, cqe.StatusSuccess, w[0].Status)
				require.Equal(t, strings.Repeat("#", 64), now)
				list = append(list, "completion")
			}
		})
		return list
	}
	a, b, c := run(1), run(1), run(2)
	require.Equal(t, a, b)
	require.NotEqual(t, a, c)
	require.Len(t, a, 66) // nothing, 64 pieces, the completion
	require.Equal(t, "completion", a[65])
	for i, now := range a[:65] {
		require.NotContains(t, now, "?")
		require.Equal(t, i, strings.Count(now, "#"))
	}
	require.NotEqual(t, strings.Repeat("#", 32)+strings.Repeat(".", 32), a[32])
}

// A report names the bytes that became visible too early, and those that they passed. It is true: both are
// seen in memory. The requester and the owner of the memory get it.
func TestReportOfOneMessage(t *testing.T) {
	s := newOrdered(t, fault.Weak, 3, 0)
	mine, theirs := s.p.h.events(), s.q.h.events()
	s.send(0, 4096)
	s.p.ring()
	var seen []string
	s.states(func() { seen = append(seen, s.lines(64)) })
	text := mine().Text
	m := regexp.MustCompile(`^injected by rule "bad order" \(order of bytes: weak\): bytes (\d+)\.\.4095 of RDMA_WRITE 0 became ` +
		`visible before its bytes (\d+)\.\.(\d+): bytes of one message have no order before its completion$`).FindStringSubmatch(text)
	require.NotNil(t, m, text)
	require.Equal(t, fmt.Sprintf("request of QP %#06x: ", s.p.num)+text, theirs().Text)
	late, err := strconv.Atoi(m[2])
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(seen, func(now string) bool { return now[63] == '#' && now[late/64] == '.' }))
	require.EqualValues(t, 1, s.set.Acted(0))
}

// between returns whether bytes of the second of two WRITEs of 512 bytes were seen while some of the first
// were not there. post posts what is between them.
func between(t *testing.T, o fault.Order, seed uint64, flags uint32, post func(s *ordered), c wqe.Ctrl) (passed bool) {
	s := newOrdered(t, o, seed, flags)
	s.send(0, 512)
	if post != nil {
		post(s)
	}
	s.p.write(c, s.to.raddr(512), s.from.data(512, 512))
	s.q.recv(s.far.data(0, 64))
	s.p.ring()
	s.states(func() {
		now := s.lines(16)
		passed = passed || strings.Contains(now[:8], ".") && strings.Contains(now[8:], "#")
	})
	require.Equal(t, strings.Repeat("#", 16), s.lines(16))
	for _, w := range s.p.scq.all() {
		require.Equal(t, cqe.StatusSuccess, w.Status)
	}
	return passed
}

// Fences, and WQEs between two WRITEs, keep the second one from passing the first one.
func TestBarriersOfOrder(t *testing.T) {
	const relaxed = control.AccessRelaxedOrdering
	strong := ctrl(wqe.OpRDMAWrite)
	strong.Flags |= wqe.FenceStrong
	reads := ctrl(wqe.OpRDMAWrite)
	reads.Flags |= wqe.FenceReads
	send := func(s *ordered) { s.p.write(ctrl(wqe.OpSend), s.local.data(0, 64)) }
	add := func(s *ordered) {
		s.p.write(ctrl(wqe.OpAtomicFA), s.far.raddr(0), wqe.Atomic{SwapAdd: 1}, s.local.data(0, 8))
	}
	for _, row := range []struct {
		name   string
		order  fault.Order
		flags  uint32
		post   func(s *ordered)
		ctrl   wqe.Ctrl
		passes bool
	}{
		{"weak", fault.Weak, 0, nil, ctrl(wqe.OpRDMAWrite), false},
		{"weak, relaxed ordering", fault.Weak, relaxed, nil, ctrl(wqe.OpRDMAWrite), true},
		{"weakest", fault.Weakest, 0, nil, ctrl(wqe.OpRDMAWrite), true},
		{"weakest, a fence for reads", fault.Weakest, 0, nil, reads, true},
		{"weakest, a strong fence", fault.Weakest, 0, nil, strong, false},
		{"weak, relaxed ordering, a strong fence", fault.Weak, relaxed, nil, strong, false},
		{"weakest, a SEND between them", fault.Weakest, relaxed, send, ctrl(wqe.OpRDMAWrite), false},
		{"weakest, an atomic between them", fault.Weakest, relaxed, add, ctrl(wqe.OpRDMAWrite), false},
		{"weakest, an immediate", fault.Weakest, relaxed, nil, ctrl(wqe.OpRDMAWriteImm), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			passed := false
			for seed := range uint64(10) {
				passed = between(t, row.order, seed, row.flags, row.post, row.ctrl) || passed
			}
			require.Equal(t, row.passes, passed)
		})
	}
}

// Of two WQEs, the report names both, and why they had no order.
func TestReportOfTwoMessages(t *testing.T) {
	for o, why := range map[fault.Order]string{fault.Weak: "no fence, and the key allows relaxed ordering",
		fault.Weakest: "nothing orders them before their completions"} {
		s := newOrdered(t, o, 1, control.AccessRelaxedOrdering)
		next := s.p.h.events()
		a, b := s.send(0, 64), s.send(64, 640)
		s.p.ring()
		s.settle()
		want := regexp.MustCompile(fmt.Sprintf(`bytes \d+\.\.\d+ of RDMA_WRITE %d became visible before bytes 0\.\.63 of RDMA_WRITE %d: %s$`, b, a, why))
		for text := ""; !want.MatchString(text); {
			ev := next()
			require.NotNil(t, ev)
			text = ev.Text
		}
	}
}

// A WRITE without a fence may send what its buffer had before an earlier READ has come; one with a fence
// sends what the READ has brought.
func TestAFenceOrdersAReadBeforeAWrite(t *testing.T) {
	run := func(seed uint64, flags uint8) bool {
		s := newOrdered(t, fault.Weakest, seed, 0)
		mid := s.p.h.key(1024, control.AccessLocalWrite)
		copy(s.to.mem[2048:], pattern(1024, 9))
		s.p.write(ctrl(wqe.OpRDMARead), s.to.raddr(2048), mid.data(0, 1024))
		c := ctrl(wqe.OpRDMAWrite)
		c.Flags |= flags
		s.p.write(c, s.to.raddr(0), mid.data(0, 1024))
		s.p.ring()
		s.settle()
		require.Len(t, s.p.scq.all(), 2)
		return slices.Equal(s.to.mem[:1024], pattern(1024, 9))
	}
	right := 0
	for seed := range uint64(10) {
		require.True(t, run(seed, wqe.FenceReads))
		require.True(t, run(seed, wqe.FenceVerbs))
		if run(seed, 0) {
			right++
		}
	}
	require.Less(t, right, 5)
}

// If a WQE of a window has a mistake, those before it complete, it fails, and those behind it are flushed.
// Nothing of those is written.
func TestMistakeInAWindow(t *testing.T) {
	for seed := range uint64(20) {
		s := newOrdered(t, fault.Weakest, seed, control.AccessRelaxedOrdering)
		a := s.send(0, 256)
		b := s.send(256, 256)
		bad := s.p.write(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: s.to.addr, RKey: s.to.key ^ 1}, s.from.data(0, 64))
		c := s.send(512, 256)
		s.p.ring()
		s.settle()
		var got []string
		for _, w := range s.p.scq.all() {
			got = append(got, fmt.Sprint(w.Counter, " ", cqe.Syndrome(w.Syndrome)))
		}
		require.Equal(t, []string{fmt.Sprint(a, " ", cqe.Syndrome(0)), fmt.Sprint(b, " ", cqe.Syndrome(0)),
			fmt.Sprint(bad, " ", cqe.RemoteAccess), fmt.Sprint(c, " ", cqe.Flush)}, got)
		require.Equal(t, "########....", s.lines(12))
	}
}

// When a key goes, nothing more is written by it. The WQE that has it fails when those before it are done.
func TestKeyGoesInAWindow(t *testing.T) {
	for seed := range uint64(20) {
		s := newOrdered(t, fault.Weakest, seed, 0)
		other := s.q.h.key(4096, control.AccessAll&^control.AccessZeroBased)
		a := s.send(0, 2048)
		b := s.p.write(ctrl(wqe.OpRDMAWrite), other.raddr(0), s.from.data(0, 2048))
		s.p.ring()
		for range 5 + 3*seed {
			s.step()
			s.endPauses()
		}
		require.NotNil(t, s.p.q.Job)
		s.q.h.call(control.OpDeregMR, &control.Key{Key: other.key}, &control.Empty{})
		was := slices.Clone(other.mem)
		s.settle()
		require.Equal(t, was, other.mem)
		list := s.p.scq.all()
		require.Len(t, list, 2)
		require.Equal(t, []uint16{a, b}, []uint16{list[0].Counter, list[1].Counter})
		require.Equal(t, cqe.StatusSuccess, list[0].Status)
		require.Equal(t, cqe.RemoteAccess, cqe.Syndrome(list[1].Syndrome))
		require.Equal(t, strings.Repeat("#", 32), s.lines(32))
	}
}

// When the XSRQ goes that a WQE of a window names, nothing more is written by it, and the WQE fails.
func TestXSRQGoesInAWindow(t *testing.T) {
	for seed := range uint64(20) {
		r := newRig(t, Config{})
		a, b := r.host("a"), r.host("b")
		x := newXRC(a, b)
		other := b.xsrq(control.XSRQ{XRCDN: x.domain}, x.cq)
		from, to := a.full(4096, 1), b.key(4096, control.AccessAll&^control.AccessZeroBased)
		r.order(a, fault.Weakest, seed)
		x.p.write(ctrl(wqe.OpRDMAWrite), x.to(), to.raddr(0), from.data(0, 2048))
		x.p.write(ctrl(wqe.OpRDMAWrite), wqe.XRC{SRQN: other.num}, to.raddr(2048), from.data(2048, 2048))
		x.p.ring()
		for range 5 + 3*seed {
			r.step()
			r.endPauses()
		}
		require.NotNil(t, x.p.q.Job)
		require.NotNil(t, x.p.q.Job.Next)
		b.call(control.OpDestroySRQ, &control.SRQN{SRQN: other.num}, &control.Empty{})
		was := slices.Clone(to.mem[2048:])
		r.settle()
		require.Equal(t, was, to.mem[2048:])
		require.Equal(t, from.mem[:2048], to.mem[:2048])
		list := x.p.scq.all()
		require.Len(t, list, 2)
		require.Equal(t, cqe.StatusSuccess, list[0].Status)
		require.NotEqual(t, cqe.StatusSuccess, list[1].Status)
	}
}

// A reset, an error, the end of the rules and the end of the peer or of the client end a window. Later WQEs
// are executed as usual, and no job is left.
func TestEndsOfAWindow(t *testing.T) {
	for name, end := range map[string]func(s *ordered){
		"error":          func(s *ordered) { s.p.toState(control.StateERR) },
		"reset":          func(s *ordered) { s.p.toState(control.StateRST) },
		"peer in error":  func(s *ordered) { s.q.toState(control.StateERR) },
		"peer destroyed": func(s *ordered) { s.q.destroy() },
		"client gone":    func(s *ordered) { s.p.h.c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				s := newOrdered(t, fault.Weakest, seed, 0)
				s.send(0, 4096)
				s.send(4096, 4096)
				s.p.ring()
				for range 5 + 10*seed {
					s.step()
					s.endPauses()
				}
				q := s.p.q
				require.NotNil(t, q.Job)
				require.NotNil(t, q.Job.Next)
				require.Equal(t, 1, s.p.h.c.Device.Windows.Taken())
				end(s)
				was := slices.Clone(s.to.mem)
				s.settle()
				require.Equal(t, was, s.to.mem)
				require.Nil(t, q.Job)
				require.Zero(t, s.p.h.c.Device.Windows.Taken())
				require.False(t, q.Faults != nil && q.Faults.Ordering())
			}
		})
	}
}

// Windows keep no jobs when they are over, beside the one that each queue pair may have.
func TestOrderKeepsNoJobs(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	local, far := a.full(4<<10, 1), b.full(4<<10, 7)
	r.order(a, fault.Weakest, 1)
	const queues = 20
	for range queues {
		p, _ := pair(a, b)
		for range 8 {
			p.write(ctrl(wqe.OpRDMAWrite), far.raddr(0), local.data(0, 1024))
		}
		p.ring()
	}
	most := 0
	for range 300 {
		r.step()
		r.endPauses()
		most = max(most, a.c.Device.Windows.Taken())
	}
	require.Equal(t, queues, most)
	r.settle()
	require.Zero(t, a.c.Device.Windows.Taken())
	require.LessOrEqual(t, len(r.e.Scratch.Spare), queues)
}

// If the rule ends while bytes are on the way, they are moved in their order, and all arrive.
func TestEndOfAnOrderRule(t *testing.T) {
	s := newOrdered(t, fault.Weakest, 1, 0)
	s.send(0, 4096)
	s.send(4096, 4096)
	s.p.ring()
	for range 20 {
		s.step()
		s.endPauses()
	}
	require.NotNil(t, s.p.q.Job.Next)
	for _, f := range s.p.h.c.Device.Faults {
		s.p.h.c.Device.EndFaults(f)
	}
	require.Nil(t, s.p.q.Faults)
	require.Zero(t, s.p.h.c.Device.Windows.Taken())
	s.settle()
	require.Len(t, s.p.scq.all(), 2)
	require.Equal(t, strings.Repeat("#", 128), s.lines(128))
	require.Nil(t, s.p.q.Job)
}

// In SQD, the WQEs of a window that has begun are finished. Then the queue has drained.
func TestDrainOfAWindow(t *testing.T) {
	s := newOrdered(t, fault.Weakest, 1, 0)
	s.send(0, 4096)
	s.send(4096, 4096)
	s.p.ring()
	for range 20 {
		s.step()
		s.endPauses()
	}
	require.NotNil(t, s.p.q.Job.Next)
	s.p.toState(control.StateSQD)
	s.settle()
	require.Len(t, s.p.scq.all(), 2)
	require.Equal(t, strings.Repeat("#", 128), s.lines(128))
}

// A long message moves its pieces slice by slice, and has no more of them.
func TestOrderOfALongMessage(t *testing.T) {
	s := newScene(t, Config{Slice: 4096})
	from, to := s.p.h.full(512<<10, 3), s.q.h.full(512<<10, 4)
	s.order(s.p.h, fault.Weak, 1)
	s.p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 512<<10))
	s.settle()
	require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
	require.Equal(t, from.mem, to.mem)
}

// Over links the rule does nothing, and says so once.
func TestOrderOverALink(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		next := s.p.h.events()
		s.order(s.p.h, fault.Weak, 1)
		s.put()
		s.put()
		s.settle()
		require.Len(t, s.p.scq.all(), 2)
		if s.p.q.Wire != nil {
			require.Contains(t, next().Text, "does nothing here")
		}
	})
}

// Random programs end the same under a rule of order: completions, states, and every byte of memory. With
// Weakest, or relaxed ordering, they need fences behind READs. The programs without fences find what weak
// leaves in order.
func TestProgramsUnderOrder(t *testing.T) {
	require.NoError(t, flag.Set("rapid.checks", strconv.Itoa(max(howMany()/3, 1))))
	for name, with := range map[string]struct {
		world
		order fault.Order
	}{
		"weak":                   {world{}, fault.Weak},
		"weak, relaxed ordering": {world{fences: true, relaxed: control.AccessRelaxedOrdering}, fault.Weak},
		"weakest":                {world{fences: true}, fault.Weakest},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				w := newWorldOf(t, rt, with.world)
				w.rig.order(w.hosts[0], with.order, rapid.Uint64().Draw(rt, "seed"))
				rt.Repeat(map[string]func(*rapid.T){
					"post":       w.post,
					"receive":    w.receive,
					"expire":     w.expire,
					"reconnect":  w.reconnect,
					"fail":       w.fail,
					"register":   w.register,
					"deregister": w.deregister,
					"move":       w.move,
					"destroy":    w.destroySRQ,
					"":           w.check,
				})
			})
		})
	}
}

// If the rules of one client go, the order of the other's rules acts.
func TestTwoOrders(t *testing.T) {
	s := newOrdered(t, fault.Weak, 1, 0)
	other := s.order(s.p.h, fault.Weakest, 1)
	d := s.p.h.c.Device
	for want := 1; want >= 0; want-- {
		s.send(0, 4096)
		s.p.ring()
		s.settle()
		s.p.scq.one()
		require.EqualValues(t, 1, s.set.Acted(0))
		require.EqualValues(t, 1-want, other.Acted(0))
		if want == 1 {
			d.EndFaults(d.Faults[0])
		}
	}
}
