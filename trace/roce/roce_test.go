package roce

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/internal/tracetest"
	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

// made returns the packets of events.
func made(t *testing.T, events []trace.Event) (list []Packet) { return madeBy(t, &Maker{}, events) }

func madeBy(t *testing.T, m *Maker, events []trace.Event) (list []Packet) {
	m.Emit = func(p *Packet) error {
		q := *p
		q.Data = slices.Clone(p.Data)
		list = append(list, q)
		return nil
	}
	for i := range events {
		require.NoError(t, m.Event(&events[i], tracetest.Clock))
	}
	return list
}

// bth returns the BTH of a packet, and the bytes from there on.
func bth(p Packet) (packet.BTH, []byte) {
	at := ipv4Size + udpSize
	if p.Data[0]>>4 == 6 {
		at = ipv6Size + udpSize
	}
	return packet.ParseBTH((*[packet.BTHSize]byte)(p.Data[at:])), p.Data[at:]
}

func named(tree field.Tree, name string) any {
	i := slices.IndexFunc(tree, func(f field.Field) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return tree[i].Value
}

// Packets that are whole have all headers and the ICRC right, and the length of others is that of the whole.
func TestPacketsOfSample(t *testing.T) {
	whole := 0
	for _, p := range made(t, tracetest.Sample(t)) {
		require.LessOrEqual(t, len(p.Data), p.Length)
		h, _ := bth(p)
		require.True(t, h.Opcode.Info().Known, h.Opcode)
		require.NotEmpty(t, p.Comment)
		if len(p.Data) < p.Length {
			continue
		}
		whole++
		tree, err := packet.DescribeIP(p.Data)
		require.NoError(t, err, p.Comment)
		require.Equal(t, true, named(tree, "icrc_right"), p.Comment)
	}
	require.Greater(t, whole, 20)
}

// With Fill all packets are whole, and those that are whole anyway are the same.
func TestFill(t *testing.T) {
	filled := madeBy(t, &Maker{Fill: true}, tracetest.Sample(t))
	cut := made(t, tracetest.Sample(t))
	require.Len(t, filled, len(cut))
	for i, p := range filled {
		require.Len(t, p.Data, p.Length)
		require.Equal(t, cut[i].Length, p.Length)
		require.True(t, bytes.HasPrefix(p.Data, cut[i].Data))
		tree, err := packet.DescribeIP(p.Data)
		require.NoError(t, err, p.Comment)
		require.Equal(t, true, named(tree, "icrc_right"), p.Comment)
	}
}

// Which packets the WQEs become, in order.
func TestOperations(t *testing.T) {
	var got []string
	for _, p := range made(t, tracetest.Sample(t)) {
		h, _ := bth(p)
		s := fmt.Sprintf("%v to 0x%x", h.Opcode, h.DestQP)
		if n := len(got); n > 0 && strings.HasPrefix(got[n-1], s) {
			times := 1
			fmt.Sscanf(strings.TrimPrefix(got[n-1], s), " x%d", &times)
			got[n-1] = fmt.Sprintf("%s x%d", s, times+1)
			continue
		}
		got = append(got, s)
	}
	ack := "RC_ACKNOWLEDGE to 0x51"
	write := []string{"RC_WRITE_ONLY to 0x52", ack}
	require.Equal(t, slices.Concat(write, []string{
		"RC_SEND_FIRST to 0x52", "RC_SEND_LAST to 0x52", ack, // 1500 bytes
		"RC_SEND_FIRST to 0x52", "RC_SEND_LAST to 0x52", ack, // 1543 bytes
		"RC_SEND_ONLY_IMM to 0x52", ack,
		"RC_SEND_ONLY_INVALIDATE to 0x52", ack,
		"RC_WRITE_FIRST to 0x52", "RC_WRITE_MIDDLE to 0x52 x2", "RC_WRITE_LAST_IMM to 0x52", ack,
		"RC_READ_REQUEST to 0x52", "RC_READ_RESPONSE_ONLY to 0x51",
		"RC_READ_REQUEST to 0x52", "RC_READ_RESPONSE_FIRST to 0x51", "RC_READ_RESPONSE_MIDDLE to 0x51 x1022",
		"RC_READ_RESPONSE_LAST to 0x51",
		"RC_FETCH_ADD to 0x52", "RC_ATOMIC_ACKNOWLEDGE to 0x51",
		"RC_COMPARE_SWAP to 0x52", "RC_ATOMIC_ACKNOWLEDGE to 0x51",
		"RC_MASKED_FETCH_ADD to 0x52", "RC_ATOMIC_ACKNOWLEDGE to 0x51"},
		write, write, write, // three of one doorbell
		write, write, write, // a series
		write, // in two fetches
		write, // of 63 units
		[]string{
			"UC_SEND_ONLY_IMM to 0x54",
			"UC_WRITE_FIRST to 0x54", "UC_WRITE_MIDDLE to 0x54 x2", "UC_WRITE_LAST_IMM to 0x54",
			"UD_SEND_ONLY_IMM to 0x1",
			"RC_SEND_FIRST to 0x52", ack, // RNR NAK
			"RC_SEND_FIRST to 0x52", "RC_SEND_LAST to 0x52", ack,
			"RC_WRITE_ONLY to 0x14", "RC_WRITE_FIRST to 0x14", "RC_ACKNOWLEDGE to 0x56", // of a link
			"UD_SEND_ONLY to 0x99",
			"RC_WRITE_ONLY to 0x52", ack, // NAK
		}), got)
}

// The numbers go on over messages, READs take one for each answer, and answers have those of requests.
func TestNumbers(t *testing.T) {
	next, msn := uint32(0x510), uint32(0)
	refused := 0
	for _, p := range made(t, tracetest.Sample(t)) {
		h, b := bth(p)
		info := h.Opcode.Info()
		switch {
		case p.Link || h.Opcode.Service() != packet.RC:
		case info.Request:
			require.Equal(t, next, h.PSN, p.Comment)
			next++
		case h.Opcode.Operation() == packet.Acknowledge:
			require.Equal(t, next-1, h.PSN, p.Comment)
			a := packet.ParseAETH((*[packet.AETHSize]byte)(b[info.OffAETH:]))
			if a.ACK() {
				msn++
			} else {
				next-- // the requester sends it again, or nothing more
				refused++
			}
			require.Equal(t, msn, a.MSN)
		default: // READ responses, of which the request has counted the first, and those of atomics
			require.Contains(t, []uint32{next - 1, next}, h.PSN, p.Comment)
			next = h.PSN + 1
			if info.Last {
				msn++
			}
		}
	}
	require.Equal(t, 2, refused)
}

// The header of a message has what the WQE says.
func TestHeaders(t *testing.T) {
	find := func(comment string) []byte {
		for _, p := range made(t, tracetest.Sample(t)) {
			if strings.Contains(p.Comment, comment) {
				_, b := bth(p)
				return b
			}
		}
		t.Fatalf("no packet of %q", comment)
		return nil
	}
	b := find("RDMA_WRITE raddr 0x500a00")
	require.Equal(t, packet.RETH{Addr: 0x500a00, RKey: 0x3300, Length: 44}, packet.ParseRETH((*[16]byte)(b[12:])))
	require.Equal(t, vectors.Bytes(t, "send_wqe", "write_inline_44")[36:80], b[28:72], "the inline bytes")
	b = find("RDMA_WRITE_IMM (packet 4 of 4)")
	require.EqualValues(t, 0xdeadbeef, packet.ParseImmDt((*[4]byte)(b[12:])))
	b = find("ATOMIC_CS")
	require.Equal(t, packet.AtomicETH{Addr: 0x7a0000000018, RKey: 0x6700, SwapAdd: 0x123456789abcdef,
		Compare: 0xfedcba9876543210}, packet.ParseAtomicETH((*[28]byte)(b[12:])))
	b = find("ATOMIC_MASKED_FA")
	require.Equal(t, packet.RETH{Addr: 0x7a0000000038, RKey: 0x6700, Length: 8}, packet.ParseRETH((*[16]byte)(b[12:])))
	require.Equal(t, vectors.Bytes(t, "send_wqe", "masked_fa_8_two_fields")[32:48], b[28:44], "the operands")
	b = find("SEND_IMM to qp 0x1 ")
	require.Equal(t, packet.DETH{QKey: 0x80010000, SrcQP: 0x55}, packet.ParseDETH((*[8]byte)(b[12:])))
	b = find("SEND_INVAL")
	require.Equal(t, packet.IETH{RKey: 0xabcd}, packet.ParseIETH((*[4]byte)(b[12:])))
}

// A queue pair without GIDs has the link-local address of the device, as packets of IPv6.
func TestAddresses(t *testing.T) {
	v4, v6 := [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: 1}, [16]byte{0: 0xfd, 15: 1}
	for _, c := range []struct {
		from, to [16]byte
		want     [2]string
	}{
		{v4, v4, [2]string{"10.0.0.1", "10.0.0.1"}},
		{v6, v6, [2]string{"fd00::1", "fd00::1"}},
		{[16]byte{}, [16]byte{}, [2]string{"fe80::250:56ff:fe00:1", "::"}},
		{v4, [16]byte{}, [2]string{"10.0.0.1", "0.0.0.0"}},
		{v4, v6, [2]string{"10.0.0.1", "0.0.0.0"}},
		{[16]byte{}, v4, [2]string{"0.0.0.0", "10.0.0.1"}},
		{[16]byte{}, v6, [2]string{"fe80::250:56ff:fe00:1", "fd00::1"}},
	} {
		r := makeRoute(c.from, c.to, 0x0250_56ff_fe00_0001, 3, 4)
		require.Equal(t, c.want, [2]string{r.src.Addr().String(), r.dst.Addr().String()})
		require.EqualValues(t, packet.Port, r.dst.Port())
		require.GreaterOrEqual(t, r.src.Port(), uint16(0xc000))
	}
}

// The IP and UDP headers are those that were recorded on a network, but for the identification.
func TestHeaderIsLikeRecorded(t *testing.T) {
	tested := 0
	vectors.Packets(t, "roce", func(t *testing.T, v vectors.Packet) {
		v4 := v.IPHeader[0]>>4 == 4
		numbered := v4 && (v.IPHeader[4] != 0 || v.IPHeader[5] != 0)
		if numbered || v.IPHeader[1] != 0 {
			return
		}
		r := route{netip.AddrPortFrom(v.IP.Src, v.UDP.SrcPort), netip.AddrPortFrom(v.IP.Dst, v.UDP.DstPort)}
		got := r.header(nil, len(v.Bytes))
		got = seal(append(got, v.Bytes[:len(v.Bytes)-packet.ICRCSize]...), r)
		if !v4 {
			require.Equal(t, []byte(v.IPHeader[4:40]), got[4:40], "all but the flow label")
		} else {
			require.Equal(t, []byte(v.IPHeader), got[:20])
		}
		require.Equal(t, []byte(v.Bytes), got[r.headerSize():])
		tested++
	})
	require.Greater(t, tested, 5)
}

func TestErrorOfEmit(t *testing.T) {
	full := errors.New("no space left on device")
	m := Maker{Emit: func(*Packet) error { return full }}
	var err error
	for _, e := range tracetest.Sample(t) {
		if err = m.Event(&e, tracetest.Clock); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, full)
}

// Whatever events say, packets have a possible length.
func FuzzMaker(f *testing.F) {
	for _, e := range tracetest.Sample(f) {
		f.Add(uint8(e.Kind), e.Index, e.Count, e.Value, e.Data, uint16(trace.RC), uint32(1024), uint32(0))
	}
	f.Fuzz(func(t *testing.T, kind uint8, index, count uint16, value uint64, data []byte, transport uint16, mtu, port uint32) {
		packets := 0
		enough := errors.New("enough")
		m := Maker{Emit: func(p *Packet) error {
			require.LessOrEqual(t, len(p.Data), p.Length)
			require.LessOrEqual(t, p.Length, ipv6Size+udpSize+longest+8)
			packets++
			if packets > 1000 {
				return enough
			}
			return nil
		}}
		info := trace.QueueInfo{Peer: 2, MTU: mtu, Port: port}
		e := trace.Event{Kind: trace.KindQueue, Queue: 1, Count: transport, Data: info.Append(nil)}
		require.NoError(t, m.Event(&e, tracetest.Clock))
		for _, k := range []trace.Kind{trace.KindFetch, trace.Kind(kind), trace.KindExecute} {
			e := trace.Event{Kind: k, Queue: 1, Index: index, Count: count, Value: value, Data: data}
			if err := m.Event(&e, tracetest.Clock); err != nil {
				require.ErrorIs(t, err, enough)
			}
		}
	})
}

// Links through memory have packets of up to 65,535 bytes of payload.
func TestLongPacketsOfLinks(t *testing.T) {
	for _, n := range []int{9000, 65535} {
		x := tracetest.New(t)
		x.Queue(0x56, 1, 0x14, trace.RC, 1)
		x.Packet(trace.KindSent, 0x56, 0x14, "rc_send_only_1", 300)
		x.Events[1].Value = uint64(packet.BTHSize + n)
		padded := (packet.BTHSize+n+3)&^3 + packet.ICRCSize
		for _, fill := range []bool{false, true} {
			list := madeBy(t, &Maker{Fill: fill}, x.Events)
			require.Len(t, list, 1)
			require.Equal(t, ipv4Size+udpSize+padded, list[0].Length)
			require.Equal(t, fill, len(list[0].Data) == list[0].Length)
			h, _ := bth(list[0])
			require.Equal(t, "RC_SEND_ONLY", h.Opcode.String())
			want := uint16(padded + udpSize)
			if n > 65000 {
				want = 0
			}
			require.Equal(t, want, binary.BigEndian.Uint16(list[0].Data[ipv4Size+4:]), "length of UDP")
		}
	}
}
