//go:build linux && (amd64 || arm64)

package roce

import (
	"testing"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/stretchr/testify/require"
)

// A batch of packets of one length ends where a message is full: with a shorter message at its end, it would
// need three messages for what two hold.
func TestBatchEndsWithFullMessage(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	for _, row := range []struct{ size, first, second int }{
		{4096, 30, 10}, // 15 packets in a message
		{2048, 62, 8},
		{16, 128, 2}, // 64, as many as the kernel takes
	} {
		h := newHost(t, Config{})
		stopped(t, h)
		require.NoError(t, h.AddAddress(addr[0]))
		path := h.to(addr[0], addr[1])
		for i := range row.first + row.second {
			h.send(path.Number, head(writeMiddle, uint32(i)), content(row.size, 1))
		}
		s := h.sender
		s.take()
		s.make(0)
		require.Equal(t, row.first, s.n, "%d bytes", row.size)
		require.Equal(t, 2, s.made, "%d bytes", row.size)
		require.Equal(t, row.first/2, s.runs[1].n, "%d bytes", row.size)
		require.True(t, s.flush())
		s.n = 0
		s.take()
		require.Equal(t, row.second, s.n, "%d bytes", row.size)
		require.NoError(t, h.Close())
	}
}
