package engine

import (
	"fmt"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/internal/shm"
	cost "github.com/nicless/nicless/model"
	"github.com/nicless/nicless/model/traffic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// doorbell lets the traffic go on by one doorbell. watch is called twice, with what the device is
// expected to do while it is idle, and then when there is news, and with a function that does a step.
func (s *stage) doorbell(watch func(what string, list []cost.Access, step func())) {
	list, err := s.source.Next()
	require.NoError(s, err)
	if s.row.wqe != nil {
		list[0].WQE = s.row.wqe(s)
	}
	before := len(s.x.Trace().Accesses)
	require.NoError(s, s.x.Expand(list...), s.row.name)
	idle, news := split(s.x.Trace().Accesses[before:])
	steps := func() {
		for range 8 { // enough for all that is announced
			s.e.Sched.Turn = 0 // in every 32nd step the device does more
			s.e.Step()
			if s.p.q.SQ.Done == uint64(s.p.sent) {
				break
			}
		}
	}
	for _, r := range list {
		if r.Receive != nil {
			s.postReceive(r.Receive)
		}
	}
	watch("idle", idle, func() {
		if s.row.form.Events {
			// The step in which the device looks whether CQs are armed.
			s.e.Sched.Turn = completion.ArmRoundSteps - 1
			// In the same step, the next queue pair after this is diagnosed.
			s.e.Diagnosed = int(s.q.q.Sched.RunningIndex)
			s.e.Step()
			return
		}
		steps()
	})

	for _, r := range list {
		copyIn(s.p.sq, int(s.p.sent)*wqe.BlockSize, r.WQE)
		s.p.sent += uint16(len(r.WQE) / wqe.BlockSize)
	}
	flame := s.row.form.BlueFlame
	if flame {
		s.publishFlame(list)
	}
	if !flame || !s.fromRegister(news) {
		s.p.ring()
	}
	watch("news", news, steps)
	s.p.ring()
	if s.row.form.Rested {
		s.settle()
	}
	for _, c := range []*poller{s.p.scq, s.q.rcq} {
		for _, w := range c.all() {
			require.Equal(s, unharmed, w.Syndrome, "%s: %v", s.row.name, w)
		}
	}
	require.Equal(s, uint64(s.p.sent), s.p.q.SQ.Done, s.row.name)
}

// split divides the accesses for a doorbell into those before and after the posting.
func split(list []cost.Access) (idle, news []cost.Access) {
	for i, a := range list {
		if a.Who == cost.Host && a.Kind == cost.WQE {
			return list[:i], list[i:]
		}
	}
	return list, nil
}

// fromRegister reports whether the device is expected to execute a WQE from the register.
func (s *stage) fromRegister(news []cost.Access) bool {
	for _, a := range news {
		if a.Who == cost.Dev && a.Kind == cost.WQE {
			return false
		}
	}
	return true
}

func copyIn(ring []byte, at int, b []byte) {
	for len(b) > 0 {
		at %= len(ring)
		n := copy(ring[at:], b)
		at, b = at+n, b[n:]
	}
}

// publishFlame writes the register as hostpath.SQ does.
func (s *stage) publishFlame(list []traffic.Request) {
	half := s.p.q.SQ.BlueFlame.Half[s.p.half&1]
	s.p.half++
	if b := list[0].WQE; len(list) == 1 && len(b) == wqe.BlockSize {
		half.PublishHead((*[wqe.BlockSize]byte)(b))
		return
	}
	half.PublishFirst(uint64(doorbell.MakeRing(s.p.sent, s.p.num)))
}

// cut returns the bytes of a WQE, which is not posted.
func (s *stage) cut(c wqe.Ctrl, segments ...any) []byte {
	index := s.p.sent
	s.p.write(c, segments...)
	b := make([]byte, int(s.p.sent-index)*wqe.BlockSize)
	wqe.Unwrap(b, s.p.sq, index)
	s.p.sent = index
	return b
}

func (s *stage) postReceive(entry []byte) {
	if s.srq == nil {
		copy(s.q.rq[int(s.q.received)*s.q.stride%len(s.q.rq):], entry)
		s.q.received++
		shm.BE32At(s.q.rec, 0).Publish(uint32(s.q.received))
		return
	}
	at := int(s.srq.posted) * s.srq.stride % len(s.srq.ring)
	copy(s.srq.ring[at+wqe.SRQNextSize:], entry[wqe.SRQNextSize:])
	s.srq.post(1)
}

// deviceWindows is how many times run has something watched.
const deviceWindows = 2

// watch has a step watched. In the same step the device also visits the other queue pair.
func (s *stage) watch(what string, list []cost.Access, step func()) {
	want := expected(list, cost.Dev)
	if what == "news" {
		want = append(want, touch{Region: traffic.PeerRecord, N: 1})
	}
	s.watchFor(what, want, step)
}

func (s *stage) watchFor(what string, want []touch, f func()) {
	w := watching{Name: fmt.Sprintf("%s, %s", s.row.name, what), Regions: s.regions, Want: want}
	for _, r := range []*shm.Region{s.a.mem, s.b.mem, s.a.c.UAR, s.b.c.UAR} {
		w.Watched = append(w.Watched, extent{r.Addr(), uint64(r.Size())})
	}
	s.c.watched(w, f)
}
