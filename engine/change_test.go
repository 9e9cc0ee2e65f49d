package engine

import (
	"testing"

	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A request that changes a key does not search for transfers that use the key. These transfers
// are checked again at the next visit to their queues. Other transfers continue.
func TestChangeOfAKeyIsSeenInTurn(t *testing.T) {
	s := newScene(t, Config{Slice: 512})
	src, dst := s.p.h.full(4096, 1), s.q.h.full(4096, 2)
	list := s.q.h.mkey(2)
	s.umr(s.q, unharmed, list, fill(list, mkeyAll, 4096, dst.klm(0, 2048), dst.klm(2048, 2048)))
	by, _ := pair(s.p.h, s.q.h)
	for range loop.RivalryTurns { // until only one client counts as working
		s.e.Step()
	}
	s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: list}, src.data(0, 4096))
	by.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 4096))
	for range 4 {
		s.e.Step()
	}
	s.e.InvalidateJobs(s.e.Keys.Find(list))
	require.Equal(t, []uint64{1920, 2048}, []uint64{s.p.q.Job.Moved, by.q.Job.Moved}, "nobody has been looked for")
	s.e.Step()
	require.Equal(t, []uint64{512 - 2*object.PieceCost - 2*object.PieceCost/4, 2560}, []uint64{s.p.q.Job.Moved, by.q.Job.Moved})
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
	k := s.e.Keys.Find(list)
	s.e.InvalidateJobs(s.e.Keys.Find(other))
	require.NotEqual(t, s.e.Epoch.Load(), k.Looked)
	s.e.Step()
	require.Equal(t, s.e.Epoch.Load(), k.Looked)
	require.Equal(t, uint64(448+512-object.PieceCost/4), s.p.q.Job.Moved, "it goes on")
	s.e.InvalidateJobs(k.List[0].Found)
	require.Equal(t, s.e.Epoch.Load(), s.e.LastChange(k), "a change of an entry is one of the list")
}

// If the key of an entry names other memory than before, the next use of the list detects this
// and notes a change of the list. So a transfer that has begun to use the list begins again.
func TestListIsJudgedAnewWhenItsEntryIsAnother(t *testing.T) {
	s := newScene(t, Config{})
	m := s.q.h.mkey(1)
	s.umr(s.q, unharmed, m, fill(m, mkeyAll, 64, s.far.klm(0, 64)))
	k := s.e.Keys.Find(m)
	require.True(t, s.e.Sound(k, 0))
	before := s.e.Epoch.Load()
	require.True(t, s.e.Sound(k, 0))
	require.Equal(t, before, s.e.Epoch.Load())
	other := *k.List[0].Found
	k.List[0].Found = &other
	require.True(t, s.e.Sound(k, 0))
	require.Equal(t, s.e.Epoch.Load(), k.Changed)
	require.Greater(t, s.e.Epoch.Load(), before)
}
