package verbs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The line about a program that has opened no device names the places where it looked in vain.
func TestLooks(t *testing.T) {
	r := newRig(t)
	require.Empty(t, r.p.looked())
	for place, says := range map[uint32]string{atPCI: "/sys/class/infiniband/nicless0/device", atNetdev: "/sys/class/infiniband/nicless0/ports/1/gid_attrs/ndevs"} {
		h, _, _ := r.request(opLook, 0, u32s(place, 0))
		require.Zero(t, h.error)
		require.Contains(t, r.p.looked(), says)
	}
	require.Equal(t, 2, strings.Count(r.p.looked(), "; it "))
	h, _, _ := r.request(opLook, 0, u32s(atNetdev+1, 0))
	require.Equal(t, int32(eINVAL), h.error)
}

// A program whose peer was refused something sees only that no connection came about, or that it ended. The
// line about it names the engine of the peer, also after a queue pair is connected.
func TestFailureMayBeThePeers(t *testing.T) {
	h := history{last: "QP.CREATE", did: map[string]bool{"WRITE.ALLOC_PD": true, "CQ.CREATE": true, "QP.CREATE": true}}
	for _, ready := range []bool{false, true} {
		h.ready = ready
		require.Contains(t, h.explain(), "the engine of the peer may have refused a call there")
	}
}
