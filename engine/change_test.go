package engine

import (
	"testing"

	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A request that changes a key does not search for transfers that use the key. These transfers
// are judged again at the next visit to their queues. Other transfers continue.
func TestChangeOfAKeyIsSeenInTurn(t *testing.T) {
	s := newScene(t, Config{Slice: 512})
	src, dst := s.p.h.full(4096, 1), s.q.h.full(4096, 2)
	list := s.q.h.mkey(2)
	s.umr(s.q, unharmed, list, fill(list, mkeyAll, 4096, dst.klm(0, 2048), dst.klm(2048, 2048)))
	by, _ := pair(s.p.h, s.q.h)
	for range rivalryTurns { // until only one client counts as working
		s.e.Step()
	}
	s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: list}, src.data(0, 4096))
	by.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 4096))
	for range 4 {
		s.e.Step()
	}
	s.e.invalidateJobs(s.e.keys.find(list))
	require.Equal(t, []uint64{1920, 2048}, []uint64{s.p.q.job.moved, by.q.job.moved}, "nobody has been looked for")
	s.e.Step()
	require.Equal(t, []uint64{512 - 2*pieceCost - 2*pieceCost/4, 2560}, []uint64{s.p.q.job.moved, by.q.job.moved})
	s.settle()
	s.p.good()
	by.good()
}

// The entries of a list are checked only once in each epoch, no matter how many transfers use
// the list and how many pieces they have.
func TestEntriesAreLookedAtOnceForEachChange(t *testing.T) {
	s := newScene(t, Config{Slice: 512})
	src, dst := s.p.h.full(4096, 1), s.q.h.full(4096, 2)
	list, other := s.q.h.mkey(1), s.q.h.mkey(1)
	s.umr(s.q, unharmed, list, fill(list, mkeyAll, 4096, dst.klm(0, 4096)))
	s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: list}, src.data(0, 4096))
	s.e.Step()
	k := s.e.keys.find(list)
	s.e.invalidateJobs(s.e.keys.find(other))
	require.NotEqual(t, s.e.epoch.Load(), k.looked)
	s.e.Step()
	require.Equal(t, s.e.epoch.Load(), k.looked)
	require.Equal(t, uint64(448+512-pieceCost/4), s.p.q.job.moved, "it goes on")
	s.e.invalidateJobs(k.list[0].found)
	require.Equal(t, s.e.epoch.Load(), s.e.lastChange(k), "a change of an entry is one of the list")
}

// If the key of an entry names other memory than before, the next use of the list detects this
// and notes a change of the list. So a transfer that has begun to use the list begins again.
func TestListIsJudgedAnewWhenItsEntryIsAnother(t *testing.T) {
	s := newScene(t, Config{})
	m := s.q.h.mkey(1)
	s.umr(s.q, unharmed, m, fill(m, mkeyAll, 64, s.far.klm(0, 64)))
	k := s.e.keys.find(m)
	require.True(t, s.e.sound(k, 0))
	before := s.e.epoch.Load()
	require.True(t, s.e.sound(k, 0))
	require.Equal(t, before, s.e.epoch.Load())
	other := *k.list[0].found
	k.list[0].found = &other
	require.True(t, s.e.sound(k, 0))
	require.Equal(t, s.e.epoch.Load(), k.changed)
	require.Greater(t, s.e.epoch.Load(), before)
}
