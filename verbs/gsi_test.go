//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/verbs/internal/cm"
	"github.com/stretchr/testify/require"
)

// Recorded packets of Linux's connection manager are understood, and the same datagrams get the
// same headers here, apart from fields that are not compared.
func TestRecordedGSIPackets(t *testing.T) {
	seen := 0
	vectors.Packets(t, "roce", func(t *testing.T, p vectors.Packet) {
		if !strings.HasPrefix(p.Name, "cm_") {
			return
		}
		var fields struct {
			GRH string `json:"grh"`
		}
		require.NoError(t, json.Unmarshal(p.Fields, &fields))
		grh, err := hex.DecodeString(fields.GRH)
		require.NoError(t, err)
		mad := p.Bytes[gsiHead:][:cm.MADSize]
		from, to, got, err := parseGSI(append(append(append([]byte{}, p.Bytes[:gsiHead]...), grh...), mad...))
		require.NoError(t, err)
		require.Equal(t, [][gidSize]byte{p.IP.Src.As16(), p.IP.Dst.As16()}, [][gidSize]byte{from, to})
		require.Equal(t, []byte(mad), got)

		var head [gsiHead]byte
		var ours [grhSize]byte
		psn := packet.ParseBTH((*[packet.BTHSize]byte)(p.Bytes)).PSN
		putGSI(&head, &ours, psn, from, to)
		require.Equal(t, byte(1<<6), head[1], "MigReq, which ConnectX wants")
		require.Equal(t, byte(1<<7), p.Bytes[8], "Soft-RoCE asks for an acknowledgement of datagrams")
		head[1], head[8] = p.Bytes[1], p.Bytes[8]
		require.Equal(t, []byte(p.Bytes[:gsiHead]), head[:])
		copy(ours[24:26], grh[24:26]) // identification
		copy(ours[30:32], grh[30:32]) // checksum
		require.Equal(t, grh, ours[:])
		seen++
	})
	require.GreaterOrEqual(t, seen, 9)
}

// Datagrams that are written are read again, for both versions of IP, and no others.
func TestGSIPackets(t *testing.T) {
	for _, ips := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "fe80::2"}, {"192.0.2.1", "2001:db8::2"}} {
		src, dst := netip.MustParseAddr(ips[0]), netip.MustParseAddr(ips[1])
		good := gsiBytes(src.As16(), dst.As16(), make([]byte, cm.MADSize))
		from, to, _, err := parseGSI(good)
		require.NoError(t, err)
		require.Equal(t, []netip.Addr{src, dst}, []netip.Addr{netip.AddrFrom16(from).Unmap(), netip.AddrFrom16(to).Unmap()})
		if src.Is4() && dst.Is4() {
			require.Zero(t, ipChecksum(good[gsiHead+20:][:20]), "the sum over a header with its checksum")
		}
		for _, bad := range []struct{ at, v int }{{0, 4}, {1, 0x10}, {1, 1}, {2, 1}, {7, 2}, {12, 0}, {gsiHead, 0x70}} {
			b := append([]byte{}, good...)
			b[bad.at] = byte(bad.v)
			_, _, _, err := parseGSI(b)
			require.Error(t, err, "byte %d", bad.at)
		}
		for _, n := range []int{0, 11, gsiHead, gsiPacket - 1} {
			_, _, _, err := parseGSI(good[:n])
			require.Error(t, err)
		}
		_, _, _, err = parseGSI(append(good, 0))
		require.Error(t, err)
	}
}

// gsiBytes returns a whole packet for queue pair 1.
func gsiBytes(from, to [gidSize]byte, mad []byte) []byte {
	var head [gsiHead]byte
	var grh [grhSize]byte
	putGSI(&head, &grh, 1, from, to)
	return append(append(head[:], grh[:]...), mad...)
}

func FuzzGSI(f *testing.F) {
	a := netip.MustParseAddr("192.0.2.1").As16()
	f.Add(gsiBytes(a, a, make([]byte, cm.MADSize)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, mad, err := parseGSI(b); err == nil {
			require.Len(t, mad, cm.MADSize)
		} else {
			require.Nil(t, mad)
		}
	})
}
