package packet_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/packet"
)

// flowOf returns the flow of a recorded packet, and the identification that its IPv4 header has.
func flowOf(v vectors.Packet) (f packet.Flow, id uint16) {
	f = packet.MakeFlow(netip.AddrPortFrom(v.IP.Src, v.UDP.SrcPort), netip.AddrPortFrom(v.IP.Dst, v.UDP.DstPort))
	if v.IP.Src.Is4() {
		id = binary.BigEndian.Uint16(v.IPHeader[4:])
	}
	return f, id
}

// The ICRC of each recorded packet is right, and Seal makes the same ICRC. Check finds the
// identification that the IPv4 header has.
func TestGoldenICRC(t *testing.T) {
	vectors.Packets(t, "roce", func(t *testing.T, v vectors.Packet) {
		flow, id := flowOf(v)
		b := slices.Clone([]byte(v.Bytes))
		end := len(b) - packet.ICRCSize
		clear(b[end:])
		flow.Seal(b, id)
		assert.Equal(t, []byte(v.Bytes), b, "sealed")
		for _, cut := range []int{packet.BTHSize, end / 2, end} {
			cut = max(cut, packet.BTHSize)
			assert.Equal(t, binary.LittleEndian.Uint32(v.Bytes[end:]), flow.Sum(b[:cut], b[cut:end], id), "in parts")
		}

		want := 32
		if id != 0 {
			want = 16
		}
		checked, solved := flow.Check(v.Bytes, 0)
		assert.Equal(t, want, checked)
		assert.Equal(t, id, solved)

		away := packet.MakeFlow(netip.AddrPortFrom(v.IP.Src, v.UDP.SrcPort^0x8001), netip.AddrPortFrom(v.IP.Dst, v.UDP.DstPort))
		assert.NotEqual(t, flow, away)
		assert.Equal(t, away, flow.From(v.UDP.SrcPort^0x8001))
		assert.Equal(t, flow, away.From(v.UDP.SrcPort))
	})
}

// Each byte that the ICRC covers changes it. Of the damaged IPv4 packets, only those pass
// whose ICRC is right for another identification, with the DF flag or without: 2 of 65,536.
func TestGoldenICRCDamaged(t *testing.T) {
	damaged, passed := 0, 0
	vectors.Packets(t, "roce", func(t *testing.T, v vectors.Packet) {
		flow, _ := flowOf(v)
		b := slices.Clone([]byte(v.Bytes))
		for i := range b {
			b[i] ^= 0x81
			checked, _ := flow.Check(b, 0)
			b[i] ^= 0x81
			switch {
			case i == 4:
				require.NotZero(t, checked, "byte 4 of the BTH does not count")
			case checked == 32, checked == 16 && !v.IP.Src.Is4():
				t.Errorf("byte %d is changed, and the ICRC is right", i)
			case checked == 16:
				passed++
			}
			damaged++
		}
	})
	t.Logf("%d of %d passed", passed, damaged)
	require.Greater(t, damaged, 100_000)
	require.Less(t, passed, damaged/5000)
}

// plain computes the ICRC as the specification describes it, from a masked copy.
func plain(src, dst netip.AddrPort, id uint16, flags byte, body []byte) uint32 {
	be := binary.BigEndian
	b := slices.Repeat([]byte{0xff}, 8)
	udp := 8 + len(body) + packet.ICRCSize
	if src.Addr().Is4() {
		b = append(b, 0x45, 0xff)
		b = be.AppendUint16(b, uint16(20+udp))
		b = be.AppendUint16(b, id)
		b = append(b, flags, 0, 0xff, 17, 0xff, 0xff)
	} else {
		b = append(b, 0x6f, 0xff, 0xff, 0xff)
		b = be.AppendUint16(b, uint16(udp))
		b = append(b, 17, 0xff)
	}
	b = append(append(b, src.Addr().AsSlice()...), dst.Addr().AsSlice()...)
	for _, v := range []int{int(src.Port()), int(dst.Port()), udp, 0xffff} {
		b = be.AppendUint16(b, uint16(v))
	}
	b = append(b, body...)
	b[len(b)-len(body)+4] = 0xff
	return crc32.ChecksumIEEE(b)
}

// Flow agrees with the plain computation for every length, and solves for every
// identification, with and without the DF flag.
func TestICRCModel(t *testing.T) {
	const df = 0x40
	rnd := rand.New(rand.NewPCG(4791, 1))
	addr := func(n int) netip.Addr {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		a, _ := netip.AddrFromSlice(b)
		return a
	}
	for n := packet.BTHSize + packet.ICRCSize; n <= packet.MaxPacket; n += 4 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		end := n - packet.ICRCSize
		for _, size := range []int{4, 16} {
			src := netip.AddrPortFrom(addr(size), uint16(rnd.Uint32()))
			dst := netip.AddrPortFrom(addr(size), uint16(rnd.Uint32()))
			flow := packet.MakeFlow(src, dst)
			id := uint16(rnd.Uint32())
			if size == 16 {
				id = 0
			}
			require.Equal(t, plain(src, dst, id, df, b[:end]), flow.Sum(b[:end], nil, id), "%d bytes", n)
			binary.LittleEndian.PutUint32(b[end:], plain(src, dst, 0, df, b[:end]))
			checked, solved := flow.Check(b, 0)
			require.Equal(t, []int{32, 0}, []int{checked, int(solved)}, "%d bytes", n)
			if size == 16 {
				checked, solved = flow.Check(b, 1)
				require.Equal(t, []int{32, 0}, []int{checked, int(solved)}, "%d bytes, a guess", n)
				continue
			}
			for _, flags := range []byte{0, df} {
				binary.LittleEndian.PutUint32(b[end:], plain(src, dst, id, flags, b[:end]))
				checked, solved = flow.Check(b, 0)
				require.Equal(t, []int{16, int(id)}, []int{checked, int(solved)}, "%d bytes, flags %#x", n, flags)
			}
			binary.LittleEndian.PutUint32(b[end:], plain(src, dst, id, 0x20, b[:end]))
			checked, _ = flow.Check(b, 0)
			require.Zero(t, checked, "a fragment")
		}
	}
}

func TestICRCEveryIdentification(t *testing.T) {
	flow := packet.MakeFlow(netip.MustParseAddrPort("10.99.0.1:49492"), netip.MustParseAddrPort("[::ffff:10.99.0.2]:4791"))
	b := make([]byte, 1040)
	for id := 1; id < 1<<16; id++ {
		flow.Seal(b, uint16(id))
		checked, solved := flow.Check(b, 0)
		require.Equal(t, []int{16, id}, []int{checked, int(solved)})
		checked, solved = flow.Check(b, uint16(id))
		require.Equal(t, []int{32, id}, []int{checked, int(solved)}, "a right guess")
		checked, solved = flow.Check(b, uint16(id)^0x1234)
		require.Equal(t, []int{16, id}, []int{checked, int(solved)}, "a wrong guess")
	}
}

// Lengths that no packet has are refused, never read past.
func TestICRCLengths(t *testing.T) {
	flow := packet.MakeFlow(netip.MustParseAddrPort("[fd99::1]:49492"), netip.MustParseAddrPort("[fd99::2]:4791"))
	b := make([]byte, packet.MaxPacket+8)
	for n := range b {
		checked, _ := flow.Check(b[:n:n], 0)
		require.Zero(t, checked, "%d bytes", n)
	}
	require.Panics(t, func() { flow.Sum(b[:12], b[:1], 0) })
	require.Panics(t, func() { flow.Sum(b[:12], b[:packet.MaxMTU+packet.MaxHeaders], 0) })
	require.Panics(t, func() { flow.Sum(b[:8], b[:8], 0) })
	for _, a := range [][2]string{{"10.99.0.1:1", "[fd99::1]:4791"}, {"[fd99::1]:1", "10.99.0.1:4791"}} {
		require.Panics(t, func() { packet.MakeFlow(netip.MustParseAddrPort(a[0]), netip.MustParseAddrPort(a[1])) })
	}
	require.Panics(t, func() { packet.MakeFlow(netip.AddrPort{}, netip.AddrPort{}) })
}

func TestICRCAllocatesNothing(t *testing.T) {
	flow := packet.MakeFlow(netip.MustParseAddrPort("10.99.0.1:49492"), netip.MustParseAddrPort("10.99.0.2:4791"))
	b := make([]byte, 1040)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		flow.From(50000).Seal(b, 5)
		if checked, id := flow.From(50000).Check(b, 0); checked != 16 || id != 5 {
			panic("not solved")
		}
	}))
}

func BenchmarkICRC(b *testing.B) {
	flow := packet.MakeFlow(netip.MustParseAddrPort("10.99.0.1:49492"), netip.MustParseAddrPort("10.99.0.2:4791"))
	for _, payload := range []int{0, 4, 28, 64, 1024, 1040, 4096} {
		p := make([]byte, packet.BTHSize+payload+packet.ICRCSize)
		for _, row := range []struct {
			name string
			id   uint16
			run  func()
		}{
			{"seal", 0, func() { flow.Seal(p, 0) }},
			{"check", 0, func() { flow.Check(p, 0) }},
			{"solve", 5, func() { flow.Check(p, 0) }},
		} {
			b.Run(fmt.Sprintf("%s/payload=%d", row.name, payload), func(b *testing.B) {
				flow.Seal(p, row.id)
				b.SetBytes(int64(payload))
				for b.Loop() {
					row.run()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/packet")
			})
		}
	}
}
