package rights

import (
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

func TestRightsAreNamed(t *testing.T) {
	for access, want := range map[uint32]string{
		0:                        "none",
		control.AccessLocalWrite: "local write",
		control.AccessLocalWrite | control.AccessRemoteRead: "local write+remote read",
		control.AccessRemoteAtomic | 0x80:                   "remote atomic+0x80",
		control.AccessAll:                                   "local write+remote write+remote read+remote atomic+bind+zero-based",
	} {
		require.Equal(t, want, Names(access))
	}
	for bit := uint32(1); bit <= control.AccessAll; bit <<= 1 {
		require.NotContains(t, Names(bit), "0x", "every right of the protocol has a name")
	}
	require.EqualError(t, Unknown("memory region", 0x41),
		"memory region: access local write+0x40; known rights are local write, remote write, remote read, remote atomic, bind, zero-based")
}
