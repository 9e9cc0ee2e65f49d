//go:build linux && (amd64 || arm64)

package linepacket

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/packetring"
)

// The bytes are those of the InfiniBand Architecture Specification, volume 1, chapters 9.2 and 9.3: a BTH,
// then a RETH or an AETH.
func TestPublish(t *testing.T) {
	const bth = "0a 40 ffff 00 abcdef 80 123456  0123456789abcdef 00fedcba "
	for name, row := range map[string]struct {
		send func(ring *packetring.Producer) bool
		want string
		n    int
	}{
		"a WRITE of one byte": {write(1), bth + "00000001  01", 1},
		"a WRITE of 7 bytes":  {write(7), bth + "00000007  01020304050607", 7},
		"a WRITE of 8 bytes":  {write(8), bth + "00000008  0102030405060708", 8},
		"a WRITE of 20 bytes": {write(20), bth + "00000014  0102030405060708090a0b0c0d0e0f1011121314", 20},
		"an acknowledgement": {func(ring *packetring.Producer) bool { return PublishACK(ring, 3, 0xabcdef, 0x123456, 0xff654321) },
			"11 40 ffff 00 abcdef 00 123456  1f 654321", 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := packetring.Geometry{Slots: 2}
			mem := make([]byte, g.Size()+64)
			p, err := packetring.NewProducer(mem, g, nil)
			require.NoError(t, err)
			c, err := packetring.NewConsumer(mem, g, nil)
			require.NoError(t, err)
			require.True(t, row.send(p))
			var k packetring.Packet
			ok, err := c.Next(&k)
			require.NoError(t, err)
			require.True(t, ok)
			require.EqualValues(t, 3, k.Path)
			require.Equal(t, strings.ReplaceAll(row.want, " ", ""), hex.EncodeToString(append(k.Head[:k.N:k.N], k.Payload...)))
			require.Len(t, k.Payload, row.n)
			require.True(t, row.send(p))
			require.False(t, row.send(p), "the ring is full")
		})
	}
}

// write returns a function that sends a WRITE of the first n of the bytes 1, 2, 3 and so on.
func write(n int) func(ring *packetring.Producer) bool {
	payload := make([]byte, n)
	for i := range payload {
		payload[i] = byte(i + 1)
	}
	return func(ring *packetring.Producer) bool {
		return PublishWrite(ring, 3, 0xabcdef, 0x123456, 0x00fedcba, 0x0123456789abcdef, payload)
	}
}
