package packet_test

import (
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/packet"
)

// generic returns JSON as maps.
func generic(t *testing.T, v any) (m map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &m))
	return m
}

// whole returns a recorded packet with its IP header.
func whole(v vectors.Packet) []byte { return slices.Concat(v.IPHeader, v.UDPHeader, v.Bytes) }

// A recorded packet is described by the fields of its vector. With the IP header, the fields
// of the headers are there too, and the ICRC is right.
func TestGoldenDescribe(t *testing.T) {
	vectors.Packets(t, "roce", func(t *testing.T, v vectors.Packet) {
		require.False(t, packet.IsIP(v.Bytes))
		tree, err := packet.Describe(v.Bytes)
		require.NoError(t, err)
		requireCovered(t, tree, len(v.Bytes))
		want := generic(t, v.Fields)
		withGRH := generic(t, v.Fields)
		delete(want, "grh")
		assert.Equal(t, want, generic(t, tree))

		b := whole(v)
		require.True(t, packet.IsIP(b))
		tree, err = packet.DescribeIP(b)
		require.NoError(t, err)
		requireCovered(t, tree, len(b))
		got := generic(t, tree)
		ip, udp := got["ip"].(map[string]any), got["udp"].(map[string]any)
		assert.Equal(t, v.IP.Src.String(), ip["src"])
		assert.Equal(t, v.IP.Dst.String(), ip["dst"])
		assert.EqualValues(t, v.UDP.SrcPort, udp["sport"])
		assert.EqualValues(t, v.UDP.DstPort, udp["dport"])
		assert.Equal(t, true, got["icrc_right"])
		delete(got, "ip")
		delete(got, "udp")
		delete(got, "icrc_right")
		assert.Equal(t, withGRH, got)
	})
}

// requireCovered fails unless the printed fields have each of n bytes once, in order.
func requireCovered(t *testing.T, tree field.Tree, n int) {
	t.Helper()
	at := 0
	var walk func(field.Tree)
	walk = func(tree field.Tree) {
		for _, f := range tree {
			walk(f.Sub)
			if f.Len > 0 {
				require.Equal(t, at, f.Offset, "field %q %q", f.Name, f.Text)
				at += f.Len
			}
		}
	}
	walk(tree)
	require.Equal(t, n, at, "bytes that are described")
}

// printed describes the hexadecimal digits as decode does. Columns are one space apart.
func printed(t *testing.T, digits string) (string, error) {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	require.NoError(t, err)
	describe := packet.Describe
	if packet.IsIP(b) {
		describe = packet.DescribeIP
	}
	tree, err := describe(b)
	if tree != nil {
		requireCovered(t, tree, len(b))
	}
	var s strings.Builder
	require.NoError(t, tree.Print(&s, b))
	return severalSpaces.ReplaceAllString(s.String(), " "), err
}

var severalSpaces = regexp.MustCompile(" +")

func TestDescribeForPeople(t *testing.T) {
	const (
		ack   = "11 00 ffff 00 000018 00 85214b  2e 000000  8b42696d"
		ip    = "4500 0030 7caf 4000 40 11 a945 0a630002 0a630001"
		udp   = "c288 12b7 001c 0000"
		other = "9b10 0808 0808 0808 0808 0808"
	)
	for _, row := range []struct {
		name, bytes string
		lines       []string
		err         string
	}{
		{"an answer", ack, []string{
			"0c 2e syndrome 0x2e RNR NAK, timer 14 (1.28ms)\n",
			"icrc 0x6d69428b not checked: it covers IP addresses too\n",
		}, ""},
		{"masked compare and swap", "18 00 ffff 00 000018 80 000001  0000000000001000 00000007 00000008" +
			"0000000000000011 0000000000000022 00000000000000ff 000000000000ff00  00000000", []string{
			"RC_MASKED_COMPARE_SWAP", "dmalen 8 bytes", "of a masked atomic on 8 bytes", "swap 0x0000000000000011 new value\n",
			"compare 0x0000000000000022 expected value\n", "swap_mask 0x00000000000000ff bits that are stored\n",
			"34 00 00 00 00 00 00 ff 00 compare_mask 0x000000000000ff00 bits that are compared\n",
		}, ""},
		{"masked fetch and add, 4 bytes", "b9 00 ffff 00 000018 80 000001  00000009 0000000000001000 00000007 00000004" +
			"00000003 80008000 a5a5a5a5a5a5a5a5  00000000", []string{
			"XRC_MASKED_FETCH_ADD", "of a masked atomic on 4 bytes", "add 0x00000003 number to add\n",
			"boundary 0x80008000 top bits", "ignored\n",
		}, ""},
		{"masked fetch and add of 6 bytes", "19 00 ffff 00 000018 80 000001  0000000000001000 00000007 00000006" +
			"00000003 80008000 a5a5a5a5a5a5a5a5  00000000", []string{"dmalen 6 bytes", "payload\n"}, ""},
		{"operands that are too long", "18 00 ffff 00 000018 80 000001  0000000000001000 00000007 00000004" +
			strings.Repeat("00000001", 8) + "00000000", []string{"dmalen 4 bytes", "payload\n"}, ""},
		{"with its IP header", ip + udp + ack, []string{"id 31919 identification", "dport 4791 RoCEv2\n", "0x6d69428b right\n"}, ""},
		{"damaged", ip + udp + strings.Replace(ack, "0018", "0019", 1), []string{"icrc 0x6d69428b WRONG, 0x"}, ""},
		{"masked fields changed", "45ff 0030 7caf 4000 01 11 0000 0a630002 0a630001" + "c288 12b7 001c 1234" + ack, []string{
			"tos 255 DSCP 63, congestion experienced\n", "checksum 0x0000 wrong\n", "checksum 0x1234 not checked\n", "0x6d69428b right\n",
		}, ""},
		{"not the port of RoCEv2", ip + "c288 12b8 001c 0000" + ack, []string{"dport 4792 not that of RoCEv2, 4791\n", "WRONG"}, ""},
		{"without DF", "4500 0030 7caf 0000 40 11 a945 0a630002 0a630001" + udp + ack, []string{"flags 0x0000 no flags\n", "WRONG"}, ""},
		{"a fragment", "4500 0030 7caf 2000 40 11 a945 0a630002 0a630001" + udp + ack, []string{"a fragment, or reserved flags\n"}, ""},
		{"all flags of the BTH", "04 f5 1234 ff 000001 ff 000002 00000000", []string{
			"se true event wanted\n", "m true MigReq\n", "pad 3 bytes", "tver 5",
			"fecn true congestion on the way here\n", "becn true congestion on the way back\n",
			"reserved6 63 reserved bits that are set\n", "ackreq true acknowledgement wanted\n", "reserved7 127",
		}, "packet: 16 bytes; the headers of RC_SEND_ONLY, 3 pad bytes and the ICRC are 19"},
		{"the XRC header", "ab 00 ffff 00 000011 80 000007  80 000203  0102030405060708 090a0b0c 0d0e0f10  cafe0001 00000000", []string{
			"0c xrceth XRC extended header\n", "reserved 128 reserved bits that are set\n", "srqn 0x000203 shared receive queue\n",
			"immdt 0xcafe0001 immediate\n",
		}, ""},
		{"reserved byte of the DETH", "64 00 ffff 00 000002 00 000000 11111111 a5 000003 00000000", []string{"reserved 165 reserved bits"}, ""},
		{"an opcode that is not known", "4000ffff 00000001 00000000 00000000 00000000", []string{
			"opcode 0x40 opcode 0x40\n", "payload_len 4 bytes; the opcode is not known, so some may be headers\n",
		}, ""},
		{"a payload that should not be there", "1100ffff 00000001 00000000 1f000000 01020304 00000000", []string{"payload_len 4 bytes, but this opcode has no payload\n"}, ""},
		{"too short for its headers", "0c00ffff 00000001 00000000 01020304 05060708", []string{"0c 01 02 03 04 05 06 07 08 - cut\n"},
			"packet: 20 bytes; the headers of RC_READ_REQUEST, 0 pad bytes and the ICRC are 32"},
		{"an odd length", "0400ffff 00000001 00000000 00000000 01", []string{"payload_len 1 bytes\n"}, "packet: 17 bytes; the length of a packet is a multiple of 4"},
		{"no packet", "0400ffff", nil, "packet: 4 bytes; the shortest packet has 16"},
		{"an IP packet that is cut", ip + udp + "1100ffff", []string{"- what is after the UDP header\n"}, "packet: 32 bytes; the IP header says 48, the UDP header 48"},
		{"lengths that differ", ip + "c288 12b7 001b 0000" + ack, []string{"what is after the UDP header"}, "packet: 48 bytes; the IP header says 48, the UDP header 47"},
		{"an IP packet with too little", "4500 0020 7caf 4000 40 11 a945 0a630002 0a630001 c288 12b7 000c 0000 1100ffff", []string{"1c 11 00 ff ff - cut\n"},
			"packet: 4 bytes; the shortest packet has 16"},
		{"a UD packet whose BTH looks like IPv6", "6500 0000 000c 1100 0000 0000" + other + other + other + other, []string{"opcode 0x65 UD_SEND_ONLY_IMM\n"}, ""},
		{"a MAD of another class", "6400ffff 00000001 00000000 80010000 00000001 0181 0181 0000 0000 0000000000000001 0011 0000 00000000 00000000", []string{
			"class 129\n", "method 129 GetResp\n", "attr 0x0011\n",
		}, ""},
		{"a syndrome without a name", "1100ffff 00000001 00000000 67000000 00000000", []string{"0x67 NAK, code 7\n"}, ""},
		{"a reserved syndrome", "1100ffff 00000001 00000000 c1000000 00000000", []string{"0xc1 reserved syndrome 0xc1\n"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			text, err := printed(t, row.bytes)
			if row.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, row.err)
			}
			for _, line := range row.lines {
				assert.Contains(t, text, line)
			}
		})
	}
	_, err := packet.DescribeIP(make([]byte, 60))
	require.EqualError(t, err, "packet: 60 bytes that are not an IPv4 packet without options, nor an IPv6 packet, with a UDP header")
}
