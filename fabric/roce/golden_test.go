//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// goldenHost returns a carrier that has all addresses of the recorded packets.
func goldenHost(t *testing.T) *host {
	addresses := []netip.Addr{
		netip.MustParseAddr("10.99.0.1"), netip.MustParseAddr("10.99.0.2"),
		netip.MustParseAddr("fd99::1"), netip.MustParseAddr("fd99::2"),
	}
	for _, a := range addresses {
		setAddress(t, true, "lo", netip.PrefixFrom(a, a.BitLen()).String())
	}
	for _, a := range addresses {
		await.Until(t, "the kernel takes packets for "+a.String(), func() bool { return isLocal(a) })
	}
	return startHost(t, Config{}, addresses...)
}

// split returns the headers and the payload of a recorded packet, without pad and ICRC.
func split(v vectors.Packet) (head, payload []byte) {
	bth := packet.ParseBTH((*[packet.BTHSize]byte)(v.Bytes))
	n := bth.Opcode.Info().HeaderSize
	return v.Bytes[:n], v.Bytes[n : len(v.Bytes)-packet.ICRCSize-int(bth.Pad)]
}

// Packets that were recorded between two devices come out of the ring when they are sent to the
// carrier's socket: without pad and ICRC, and a UD packet with the GRH that was on the wire.
func TestGoldenReceived(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	h := goldenHost(t)
	vectors.Packets(t, "roce", func(t *testing.T, v vectors.Packet) {
		h.t = t
		h.to(v.IP.Dst, v.IP.Src)
		from, err := sockaddr(v.IP.Src, v.UDP.SrcPort)
		require.NoError(t, err)
		to, err := sockaddr(v.IP.Dst, packet.Port)
		require.NoError(t, err)
		fd, err := newSocket(v.IP.Src)
		require.NoError(t, err)
		defer unix.Close(fd)
		require.NoError(t, unix.Bind(fd, from))
		if v.IP.Src.Is6() {
			require.NoError(t, unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_AUTOFLOWLABEL, 0))
		}
		require.NoError(t, unix.Sendto(fd, v.Bytes, 0, to))

		got := h.next()
		head, payload := split(v)
		assert.Equal(t, head, got.head)
		var fields struct {
			GRH string `json:"grh"`
		}
		require.NoError(t, json.Unmarshal(v.Fields, &fields))
		if fields.GRH != "" {
			require.Greater(t, len(got.payload), grhSize-1)
			assert.Equal(t, fields.GRH, hex.EncodeToString(got.payload[:grhSize]))
			got.payload = got.payload[grhSize:]
		}
		assert.Equal(t, payload, got.payload)
	})
	assert.Zero(t, h.Stats().Received.Dropped)
}

// Packets that the carrier sends have the form of the recorded ones: the same bytes from the BTH to
// the pad bytes, an IP header with DF and identification 0, and the right ICRC. So do packets
// that the kernel cuts out of one message, with their identifications.
func TestGoldenSent(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	h := goldenHost(t)
	wire, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(swap16(unix.ETH_P_ALL)))
	require.NoError(t, err)
	defer unix.Close(wire)
	require.NoError(t, unix.SetsockoptTimeval(wire, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}))
	var again []vectors.Packet
	vectors.Packets(t, "roce", func(t *testing.T, v vectors.Packet) {
		h.t = t
		h.to(v.IP.Dst, v.IP.Src)
		path, err := h.Hold(nic.Address{GID: gid(v.IP.Dst), From: gid(v.IP.Src)})
		require.NoError(t, err)
		head, payload := split(v)
		plain := append([]byte(nil), head...)
		plain[1] &^= 0x30 // the carrier sets the pad count
		h.send(path.Number, plain, payload)
		checkWire(t, v, sniff(t, wire), 0)
		h.next()
		again = append(again, v)
	})
	require.NotEmpty(t, again)
}

func swap16(v uint16) uint16 { return v>>8 | v<<8 }

// sniff returns the next IP packet to port 4791, as it is sent.
func sniff(t *testing.T, wire int) []byte {
	b := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(wire, b, 0)
		require.NoError(t, err)
		ll, ok := from.(*unix.SockaddrLinklayer)
		if !ok || ll.Pkttype != unix.PACKET_OUTGOING || n < 28 {
			continue
		}
		at := ipv4Header
		if b[0]>>4 == 6 {
			at = 40
		}
		if n > at+udpHeader && binary.BigEndian.Uint16(b[at+2:]) == packet.Port {
			return b[:n]
		}
	}
}

// checkWire compares an IP packet with a recorded one.
func checkWire(t *testing.T, v vectors.Packet, b []byte, id uint16) {
	t.Helper()
	at := ipv4Header
	want := append([]byte(nil), v.IPHeader...)
	if v.IP.Src.Is4() {
		want[4], want[5] = byte(id>>8), byte(id) // identification
		want[10], want[11] = b[10], b[11]        // checksum
	} else {
		at = 40
		copy(want[1:4], b[1:4]) // flow label
	}
	require.Equal(t, want, b[:at], "IP header")
	port := binary.BigEndian.Uint16(b[at:])
	require.GreaterOrEqual(t, port, uint16(firstSourcePort))
	packetBytes := b[at+udpHeader:]
	require.Len(t, packetBytes, len(v.Bytes))
	end := len(v.Bytes) - packet.ICRCSize
	require.Equal(t, []byte(v.Bytes[:end]), packetBytes[:end])
	flow := packet.MakeFlow(netip.AddrPortFrom(v.IP.Src, port), netip.AddrPortFrom(v.IP.Dst, packet.Port))
	require.Equal(t, flow.Sum(packetBytes[:end], nil, id), binary.LittleEndian.Uint32(packetBytes[end:]), "ICRC")
}
