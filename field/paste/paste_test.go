package paste_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field/paste"
	"github.com/nicless/nicless/wqe"
)

func all(t *testing.T, text string) []paste.Item {
	t.Helper()
	list, err := paste.All(strings.NewReader(text))
	require.NoError(t, err)
	return list
}

// dump prints bytes as the kernel does (print_hex_dump with offsets).
func dump(b []byte) string {
	var s strings.Builder
	for at := 0; at < len(b); at += 16 {
		fmt.Fprintf(&s, "%08x: % x\n", at, b[at:min(at+16, len(b))])
	}
	return s.String()
}

// mlx5e prints the CQE and then the WQE: netdev mailing list, January 2021.
func TestKernelPrintsTheWQE(t *testing.T) {
	list := all(t, `mlx5_core 0000:3b:00.1 eth1: Error cqe on cqn 0x817, ci 0x8, qn 0x1dbb, opcode 0xd, syndrome 0x1, vendor syndrome 0x68
00000000: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
00000010: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
00000020: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
00000030: 00 00 00 00 60 10 68 01 0a 00 1d bb 00 0f 9f d2
WQE DUMP: WQ size 1024 WQ cur size 0, WQE index 0xf, len: 64
00000000: 00 00 0f 0a 00 1d bb 03 00 00 00 08 00 00 00 00
00000010: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
00000020: 00 00 00 2b 00 08 00 00 00 00 00 05 9e e3 08 00
00000030: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
mlx5_core 0000:3b:00.1 eth1: ERR CQE on SQ: 0x1dbb
`)
	require.Len(t, list, 2)
	require.Equal(t, paste.CQE, list[0].Kind)
	require.Equal(t, uint32(0x817), *list[0].Facts.CQN)
	require.Equal(t, paste.Send, list[1].Kind)
	require.Equal(t, []int{15, 1024, 7}, []int{list[1].Index, list[1].Queue, list[1].Line})
	require.Empty(t, list[1].Suspicions(wqe.AddressEth))
	tree, err := list[1].Describe(wqe.AddressEth)
	require.NoError(t, err)
	require.NotEmpty(t, tree)
	list[1].Index = 14
	require.Equal(t, "index-mismatch", list[1].Suspicions(wqe.AddressEth)[0].Code)
}

// libxlio prints all blocks of the WQE as digits, in the line of the CQE.
func TestWQEInTheLine(t *testing.T) {
	list := all(t, " cqm_tx[0x1]:214:log_cqe_error() cqe: syndrome=0x4 vendor=0x52 hw=0x9d (type=0x0) wqe_opcode_qpn=0xa001234 wqe_counter=0x7 wqe=0000070a001234020000000800000000"+
		"000000400000000000007f0000001000"+strings.Repeat("00", 32)+"\n")
	require.Len(t, list, 2)
	require.Equal(t, paste.Text, list[0].Kind)
	require.Equal(t, paste.Send, list[1].Kind)
	require.Equal(t, "key-unknown", list[1].Suspicions(wqe.NoAddress)[0].Code)
}

// A send WQE of 48 bytes: WRITE of 20 bytes from queue pair 0x000102.
const write = "00000508 00010203 00000008 00000000 00007f00 00001000 00000100 00000000 00000014 00000200 00007f00 00002000"

// Each planted fault of a WQE is named, without a title, in a dump of words.
func TestSuspicions(t *testing.T) {
	for name, c := range map[string]struct{ text, code string }{
		"right":            {write, ""},
		"ds too small":     {strings.Replace(write, "00010203", "00010201", 1), "ds-small"},
		"ds beyond":        {"WQE DUMP:\n" + strings.Replace(write, "00010203", "00010208", 1), "ds-large"},
		"ds 0":             {"WQE DUMP:\n" + strings.Replace(write, "00010203", "00010200", 1), "ds-zero"},
		"length 0":         {strings.Replace(write, "00000014", "00000000", 1), "length-zero"},
		"rkey reversed":    {strings.Replace(write, "00000100", "0d2e1700", 1), "key-byte-order"},
		"lkey 0":           {strings.Replace(write, "00000200", "00000000", 1), "key-unknown"},
		"lkey of an end":   {strings.Replace(write, "00000200", "00000100", 1), "key-unknown"},
		"inline READ":      {"00000510 00010203 00000008 00000000 00007f00 00001000 00000100 00000000 80000004 00000200 00007f00 00002000", "inline-read"},
		"atomic unaligned": {"00000512 00010204 00000008 00000000 00007f00 00001004 00000180 00000000 00000000 00000001 00000000 00000000 00000008 00000200 00007f00 00002000", "atomic-alignment"},
		"atomic result":    {"00000512 00010204 00000008 00000000 00007f00 00001008 00000180 00000000 00000000 00000001 00000000 00000000 00000004 00000200 00007f00 00002000", "atomic-result"},
		"too long":         {"0000050a 00010203 00000008 00000000 7fffffff 00000200 00007f00 00002000 7fffffff 00000200 00007f00 00002000", "message-size"},
	} {
		t.Run(name, func(t *testing.T) {
			list := all(t, c.text)
			require.Len(t, list, 1)
			require.Equal(t, paste.Send, list[0].Kind)
			var codes []string
			for _, s := range list[0].Suspicions(wqe.NoAddress) {
				codes = append(codes, s.Code)
			}
			if c.code == "" {
				require.Empty(t, codes)
				return
			}
			require.Contains(t, codes, c.code)
		})
	}
	empty := paste.Item{Kind: paste.Recv, Bytes: make([]byte, 16)}
	require.Equal(t, "receive-unwritten", empty.Suspicions(0)[0].Code)
	open := paste.Item{Kind: paste.Recv, Bytes: append([]byte("\x00\x00\x10\x00\x00\x00\x02\x10\x00\x00\x7f\x00\x00\x00\x10\x00"), make([]byte, 16)...)}
	require.Equal(t, "receive-no-end", open.Suspicions(0)[0].Code)
	require.Equal(t, "opcode", (&paste.Item{Kind: paste.Send, Index: -1, Bytes: []byte{0, 0, 0, 0x77, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}}).Suspicions(0)[0].Code)
}

// A whole CQ: entries that the device has not written are left out.
func TestWholeQueues(t *testing.T) {
	entry := errorEntry(remoteAccess, 0x88, 0x1234, 7)
	invalid := make([]byte, cqe.Size)
	invalid[cqe.OffOpOwn] = 0xf1
	queue := append(append(append([]byte{}, entry[:]...), invalid...), entry[:]...)
	queue = append(queue, invalid...)
	r := paste.NewReader(strings.NewReader("MLX5 Error CQ: at [0x1000], len=256\n" + dump(queue)))
	for _, line := range []int{2, 10} {
		it, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, paste.CQE, it.Kind)
		require.Equal(t, line, it.Line)
		require.Equal(t, entry[:], it.Bytes)
	}
	_, err := r.Next()
	require.Equal(t, io.EOF, err)
	require.Equal(t, 2, r.Skipped())
}

func errorEntry(s cqe.Syndrome, vendor uint8, qpn uint32, counter uint16) (b [cqe.Size]byte) {
	b[cqe.OffVendor], b[cqe.OffSyndrome] = vendor, uint8(s)
	b[56], b[57], b[58], b[59] = 8, byte(qpn>>16), byte(qpn>>8), byte(qpn)
	b[60], b[61], b[63] = byte(counter>>8), byte(counter), 0xd2
	return b
}

// Rows of one object in different orders, as people join dumps of several programs.
func TestMixedOrders(t *testing.T) {
	list := all(t, wordsOfZeros+"\n"+wordsOfZeros+"\n"+"00001234 00000000 00000000 00000000\n00000000 138800b1 34120008 d23c0700\n")
	require.Len(t, list, 1)
	require.Equal(t, []string{"the rows have different byte orders: the words of lines [4] are in host order"}, list[0].Notes)
	list = all(t, "00000508 00010203 00000008 00000000\n00007f00 00001000 00017100 00000000\n14000000 00020000 007f0000 00200000\n")
	require.Len(t, list, 1)
	require.Equal(t, []string{"the rows have different byte orders: the words of lines [3] are in host order"}, list[0].Notes)
	list = all(t, wordsOfZeros+"\n"+wordsOfZeros+"\n"+"00001234 00000000 00000000 00000000\n00000000 138800b1 34120008 d23c0700\n")
	require.Equal(t, paste.CQE, list[0].Kind)
	s, _, ok := list[0].Error()
	require.True(t, ok)
	require.Equal(t, remoteAccess, s)
	require.NotEmpty(t, list[0].Notes)
}

// Dumps that are not whole get a clear message.
func TestTruncated(t *testing.T) {
	list := all(t, "mlx5: a: got completion with error:\n"+wordsOfZeros+"\n"+wordsOfZeros+"\n")
	require.Len(t, list, 1)
	require.Equal(t, paste.Unclear, list[0].Kind)
	require.Equal(t, []string{"a CQE has 64 bytes, this dump 32: its last 2 rows, with syndrome and opcode, are missing"}, list[0].Notes)
	for _, cut := range []string{"mlx5: a: got completion with error:\n" + strings.Repeat(wordsOfZeros+"\n", 3),
		"dump_cqe: dump error cqe\n" + dump(make([]byte, 48))} {
		list = all(t, cut+"[ 408.38] something else\n")
		require.Len(t, list, 1)
		require.Equal(t, []string{"a CQE has 64 bytes, this dump 48: its last row, with syndrome and opcode, is missing"}, list[0].Notes)
	}
	list = all(t, "WQE DUMP: WQ size 64 WQ cur size 0, WQE index 0x1, len: 48\n"+dump(make([]byte, 48)))
	require.Len(t, list, 1)
	require.Equal(t, []string{"all 48 bytes are 0: probably never written"}, list[0].Notes)
	list = all(t, "mlx5: a: got completion with error:\n00000001 00000000 00000000 00000000\n"+wordsOfZeros+"\n00000000 0000")
	require.Len(t, list, 1)
	require.Equal(t, []string{"line 4 ends within a group of digits",
		"a CQE has 64 bytes, this dump 36: the last ones, with syndrome and opcode, are missing"}, list[0].Notes)
	list = all(t, "dump_cqe: dump error cqe\n"+strings.Replace(dump(cqeBytes()), "00000010: "+rowOfZeros+"\n", "", 1))
	require.Len(t, list, 1)
	require.Equal(t, paste.CQE, list[0].Kind)
	require.Equal(t, []string{"bytes 16 to 31 are missing in the dump and taken for 0"}, list[0].Notes)
}

// Rows of 17 bytes, as in a patch of January 2021 on the netdev mailing list.
func TestColumnTooMany(t *testing.T) {
	list := all(t, "Error cqe on cqn 0x817, ci 0x8, qn 0x1234, opcode 0xd, syndrome 0x13, vendor syndrome 0x88\n"+
		strings.ReplaceAll(dump(cqeBytes()), rowOfZeros, rowOfZeros+" 00"))
	require.Len(t, list, 1)
	require.Equal(t, paste.CQE, list[0].Kind)
	require.Equal(t, cqeBytes(), list[0].Bytes)
	require.Len(t, list[0].Notes, 3)
}

func cqeBytes() []byte {
	b := errorEntry(remoteAccess, 0x88, 0x1234, 7)
	return b[:]
}

// Text without dumps yields nothing, whatever its words.
func TestNothing(t *testing.T) {
	for _, text := range []string{
		"", "\n\n", "hello", "dead beef cafe", "00000000: ", "error", "status 10",
		"GID: fe:80:00:00:00:00:00:00:9a:f2:b3:ff:fe:c8:b8:d4",
		"inet6 fe80:0000:0000:0000:9af2:b3ff:fec8:b8d4",
		"Nov 26 10:00:00 12 34 56", "pci 0000:c1:00.0: [15b3:101b] type 00 class 0x020700",
		"hca_id: mlx5_0\n\tvendor_id:\t\t\t0x02c9\n\tvendor_part_id:\t\t4123",
		"\x00\x01\x02\xff\xfe binary \x00", strings.Repeat("\x00", 100_000), strings.Repeat("a", 200_000),
		"exit status 12", "HTTP status 10 error",
	} {
		require.Empty(t, all(t, text), "%.60q", text)
	}
}

// Text of PowerShell is UTF-16.
func TestUTF16(t *testing.T) {
	var wide strings.Builder
	wide.WriteString("\xff\xfe")
	for _, c := range []byte("Failed status remote access error (10) for wr_id 1\r\n") {
		wide.WriteByte(c)
		wide.WriteByte(0)
	}
	list := all(t, wide.String())
	require.Len(t, list, 1)
	require.Equal(t, paste.Text, list[0].Kind)
}

// Eight bytes alone are a doorbell.
func TestSmall(t *testing.T) {
	for text, want := range map[string]paste.Kind{"0000000300000007": paste.QPRecord, "00000508 00010203": paste.UAR} {
		r := paste.NewReader(strings.NewReader(text))
		_, err := r.Next()
		require.Equal(t, io.EOF, err)
		require.Len(t, r.Unclear(), 1)
		small, ok := r.Unclear()[0].Small()
		require.True(t, ok)
		require.Equal(t, want, small.Kind)
		_, err = small.Describe(0)
		require.NoError(t, err)
	}
	swapped := paste.Item{Kind: paste.QPRecord, Bytes: []byte{0, 0, 0, 0, 7, 0, 0, 0}}
	require.Equal(t, "record-byte-order", swapped.Suspicions(0)[0].Code)
	wrong := paste.Item{Kind: paste.QPRecord, Bytes: []byte{0, 0, 0, 7, 0, 0, 0, 0}}
	require.Equal(t, "record-word", wrong.Suspicions(0)[0].Code)
}

// A packet in tcpdump's form, with and without its Ethernet header.
func TestPackets(t *testing.T) {
	const ip = `	0x0000:  4500 0044 48a2 4000 4011 dd3e 0a63 0001  E..DH.@.@..>.c..
	0x0010:  0a63 0002 c154 12b7 0030 0000 0a10 ffff  .c...T...0......
	0x0020:  0000 0014 800a d45d 0000 7f62 1a3a 1000  .......]...b.:..
	0x0030:  0000 057f 0000 0007 aab1 b8bf c6cd d400  ................
	0x0040:  ef61 bfd2                                .a..`
	list := all(t, "10:00:00.000001 IP 10.99.0.1.49492 > 10.99.0.2.4791: UDP, length 40\n"+ip+"\n10:00:00.1 IP x\n"+ip)
	require.Len(t, list, 2)
	for _, it := range list {
		require.Equal(t, paste.Packet, it.Kind)
		require.Len(t, it.Bytes, 68)
		_, err := it.Describe(0)
		require.NoError(t, err)
		require.Empty(t, it.Suspicions(0))
	}
	// the header and the padding of Ethernet, which tcpdump -xx and Wireshark print
	frame := append(append([]byte("\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x08\x00"), list[0].Bytes...), 0, 0)
	framed := all(t, dump(frame))
	require.Len(t, framed, 1)
	require.Equal(t, list[0].Bytes, framed[0].Bytes)
	frame[len(frame)-3]++
	require.Contains(t, all(t, dump(frame))[0].Suspicions(0)[0].Text, "gso_max_segs 1")
}

// A log of any length takes bounded memory: here one that has no lines at all, one of noise and
// one of failures.
func TestMemoryIsBounded(t *testing.T) {
	const size = 12 << 20
	for name, line := range map[string]string{
		"no line ends": strings.Repeat("00 ", 1000),
		"noise":        "Nov 26 10:00:00 node7 systemd[1]: Started Session 4 of user root, status ok.\n",
		"failures":     "mlx5_poll_one:530:(pid 0): syndrome 0x5, vendor syndrome 0xf9\n",
		"rows":         rowOfZeros + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := paste.NewReader(&endless{text: line, left: size})
			runtime.GC()
			var before, during runtime.MemStats
			runtime.ReadMemStats(&before)
			most := uint64(0)
			for n := 0; ; n++ {
				_, err := r.Next()
				if err == io.EOF {
					break
				}
				require.NoError(t, err)
				if n%100_000 == 0 {
					runtime.GC()
					runtime.ReadMemStats(&during)
					most = max(most, during.HeapAlloc)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&during)
			most = max(most, during.HeapAlloc)
			assert.Less(t, int64(most)-int64(before.HeapAlloc), int64(4<<20))
		})
	}
}

// endless repeats a text for a number of bytes.
type endless struct {
	text string
	at   int
	left int
}

func (e *endless) Read(b []byte) (n int, err error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	for n < len(b) && e.left > 0 {
		m := copy(b[n:min(len(b), n+e.left)], e.text[e.at:])
		n, e.left, e.at = n+m, e.left-m, (e.at+m)%len(e.text)
	}
	return n, nil
}

// FuzzPaste: no text stops the reader, makes it yield an item without a line, or makes it yield
// bytes that cannot be described without an error or a tree.
func FuzzPaste(f *testing.F) {
	for _, s := range shapes {
		f.Add([]byte(s.text))
	}
	f.Add([]byte(write))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := paste.NewReader(strings.NewReader(string(text)))
		for last := 0; ; {
			it, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil || it.Line < 1 || it.Last < it.Line || it.Last > r.Line() {
				t.Fatalf("item %+v, error %v", it, err)
			}
			if it.Last < last {
				t.Fatalf("item %+v after one of line %d", it, last)
			}
			last = it.Line
			tree, err := it.Describe(wqe.AddressGuess)
			if bytes := it.Kind != paste.Text && it.Kind != paste.Unclear; bytes && err == nil && tree == nil {
				t.Fatalf("item %+v: neither fields nor an error", it)
			}
			it.Suspicions(wqe.AddressGuess)
			it.Small()
			if len(it.Bytes) > len(text) {
				// Only a line "*" and missing rows stand for bytes that are not there.
				continue
			}
		}
	})
}
