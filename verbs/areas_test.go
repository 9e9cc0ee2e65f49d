package verbs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two regions of a context can have the same addresses: of a process that has mapped new memory
// there, or of two processes. No request reaches other memory than the one that is meant.
func TestRegionsWithTheSameAddresses(t *testing.T) {
	const at = 0x7000_0000
	s := newServing(t)
	a, b := s.rig(t), s.rig(t)
	p := a.program()
	h, _, _ := b.request(opAdopt, 0, nil, duplicated(a, []*os.File{p.socket})...)
	require.Zero(t, h.error)
	x := a.p.contexts[p.ctx]
	x.mu.Lock()
	defer x.mu.Unlock()
	hold := func(e *extent, addr uint64) error {
		e.m.hold(e)
		return x.addUse(e, addr, pageSize)
	}
	old := a.share(at, 4*pageSize)
	require.NoError(t, hold(old, at))
	require.ErrorContains(t, hold(b.share(at, pageSize), at), "another process")
	require.NoError(t, hold(b.share(at+4*pageSize, pageSize), at+4*pageSize))

	fresh := a.share(at+pageSize, pageSize)
	require.NoError(t, hold(fresh, at+pageSize))
	require.ErrorContains(t, hold(old, at+pageSize), "other memory there")
	require.NoError(t, hold(old, at+2*pageSize), "what is not hidden")
	require.NoError(t, hold(fresh, at+pageSize))
	x.undoHolds([]*extent{fresh, fresh})
	require.NoError(t, hold(old, at+pageSize))
	require.Equal(t, 3, x.regions[old].users)
	require.Equal(t, 4, old.holders, "with the process itself")
}
