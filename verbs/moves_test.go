package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Pages of the heap are not moved back while the kernel copies to them for another region.
func TestGiveBackLater(t *testing.T) {
	r := newRig(t)
	m, other := r.p.memory, ownRange{0x1000_2000, 4 * pageSize}
	m.noteUnused(&extent{addr: 0x1000_0000, size: 4 * pageSize, heap: true})
	m.noteUnused(&extent{addr: 0x2000_0000, size: pageSize, heap: true})
	m.addCopied(other)
	back := func() (all []uint64) {
		c := &call{p: r.p}
		c.giveBack()
		for _, o := range c.outs {
			require.EqualValues(t, outBack, o.kind)
			all = append(all, o.value)
		}
		return all
	}
	require.Equal(t, []uint64{0x2000_0000}, back())
	require.Empty(t, back())
	m.removeCopied(other)
	require.Equal(t, []uint64{0x1000_0000}, back())
	require.Empty(t, m.unused)
}
