package verbs

import (
	"testing"

	"github.com/nicless/nicless/verbs/internal/nldev"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The counters of a port have their names, values and numbers. Without counters, and for one that is not
// there, the errno is the kernel's.
func TestNetlinkCounters(t *testing.T) {
	none := newServing(t)
	none.netlink.counters = nil
	r := none.rig(t)
	index, port := nlAttr32(1, 0), nlAttr32(3, 1)
	const ofQP, ofMR = 19, 40
	bare := r.netlink(4)
	_, errno := bare.get(nldev.CmdStatGet, index, port)
	require.Equal(t, eINVAL, errno)
	_, errno = bare.get(nldev.CmdStatGetStatus, index, port)
	require.Equal(t, eINVAL, errno)

	s := newServing(t)
	s.netlink.counters = func(d *device) []nldev.Counter {
		return []nldev.Counter{{Name: "rx_write_requests", Value: 1<<40 + uint64(d.index)}, {Name: "out_of_buffer", Value: 7}}
	}
	counted := s.rig(t)
	n := counted.netlink(5)
	a, errno := n.get(nldev.CmdStatGet, index, port)
	require.Zero(t, errno)
	require.Equal(t, uint32(1), a.u32(3))
	items := a.nested(t, 80)[0].nested(t, 81)
	require.Len(t, items, 2)
	require.Equal(t, "rx_write_requests", items[0].text(82))
	require.Equal(t, uint64(1<<40), items[0].u64(83))
	require.Equal(t, "out_of_buffer", items[1].text(82))
	a, errno = n.get(nldev.CmdStatGetStatus, index, port)
	require.Zero(t, errno)
	items = a.nested(t, 80)[0].nested(t, 81)
	require.Equal(t, uint32(1), items[1].u32(94))
	require.NotContains(t, items[1], 95, "it is not optional")

	a, errno = n.get(nldev.CmdStatGet, index, port, nlAttr32(74, 2), nlAttr32(75, ofQP))
	require.Zero(t, errno)
	require.Zero(t, a.u32(74), "queue pairs have no counters of their own")
	for want, attrs := range map[unix.Errno][]byte{eINVAL: nlAttr32(75, ofMR), eNOENT: append(nlAttr32(75, ofQP), nlAttr32(79, 3)...)} {
		_, errno = n.get(nldev.CmdStatGet, index, port, attrs)
		require.Equal(t, want, errno)
	}
	n.send(nldev.CmdStatGet, nlFlagsDump, index, nlAttr32(75, ofQP))
	require.Len(t, n.answer(), 1)
	counted.program().smallMR()
	mrs := n.table(nldev.CmdStatGet, 40, 41, nlAttr32(75, ofMR))
	require.Len(t, mrs, 1)
	require.Contains(t, mrs[0], 62)
}
