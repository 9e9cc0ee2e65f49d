package packet_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/netip"
	"testing"

	"github.com/nicless/nicless/packet"
)

// FuzzHeaders checks that parsing the headers of any opcode and putting them gives the same
// bytes.
func FuzzHeaders(f *testing.F) {
	for _, op := range []packet.Opcode{0x00, 0x0b, 0x0c, 0x12, 0x13, 0x17, 0x18, 0x19, 0x65, 0x81, 0xab, 0xb4, 0xb8, 0xff} {
		f.Add(append([]byte{uint8(op)}, bytes.Repeat([]byte{0xa5}, packet.MaxHeaders)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		n := packet.Opcode(b[0]).Info().HeaderSize
		if len(b) < n {
			return
		}
		if out := parseHeaders(b).put(); !bytes.Equal(out, b[:n]) {
			t.Errorf("parse then put:\n in %x\nout %x", b[:n], out)
		}
	})
}

// FuzzICRC checks that Check survives any bytes, says 0 bits for bytes that are not a packet
// by their length, and accepts every packet that Seal has sealed.
func FuzzICRC(f *testing.F) {
	f.Add([]byte{}, uint16(0), uint16(0), false)
	f.Add(make([]byte, 16), uint16(0), uint16(0), true)
	f.Add(make([]byte, 17), uint16(1), uint16(0), false)
	f.Add(make([]byte, packet.MaxPacket), uint16(0xffff), uint16(3), false)
	f.Add(make([]byte, packet.MaxPacket+4), uint16(1), uint16(1), true)
	v4 := packet.MakeFlow(netip.MustParseAddrPort("10.99.0.1:49492"), netip.MustParseAddrPort("10.99.0.2:4791"))
	v6 := packet.MakeFlow(netip.MustParseAddrPort("[fd99::1]:49492"), netip.MustParseAddrPort("[fd99::2]:4791"))
	f.Fuzz(func(t *testing.T, b []byte, id, guess uint16, six bool) {
		flow := v4
		if six {
			flow, id = v6, 0
		}
		flow = flow.From(id ^ 0x5a5a)
		if len(b) < packet.BTHSize+packet.ICRCSize || len(b) > packet.MaxPacket || len(b)%4 != 0 {
			if checked, _ := flow.Check(b, guess); checked != 0 {
				t.Errorf("%d bytes: %d bits checked", len(b), checked)
			}
			return
		}
		flow.Check(b, guess)
		flow.Seal(b, id)
		want := 16
		if id == guess || six {
			want = 32
		}
		if checked, got := flow.Check(b, guess); checked != want || got != id {
			t.Errorf("sealed with %d, guess %d: %d bits, identification %d", id, guess, checked, got)
		}
	})
}

// FuzzDescribe checks that any bytes of the length of a packet are described: each byte once,
// in text and in JSON.
func FuzzDescribe(f *testing.F) {
	ack := []byte{0x11, 0, 0xff, 0xff, 0, 0, 0, 0x18, 0, 0x85, 0x21, 0x4b, 0x2e, 0, 0, 0, 0x8b, 0x42, 0x69, 0x6d}
	ip4 := []byte{0x45, 0, 0, 0x30, 0x7c, 0xaf, 0x40, 0, 0x40, 0x11, 0xa9, 0x45, 10, 99, 0, 2, 10, 99, 0, 1, 0xc2, 0x88, 0x12, 0xb7, 0, 0x1c, 0, 0}
	ip6 := append(append([]byte{0x60, 0, 0, 0, 0, 0x1c, 0x11, 0x40}, make([]byte, 32)...), 0xc2, 0x88, 0x12, 0xb7, 0, 0x1c, 0, 0)
	f.Add([]byte{})
	f.Add(ack)
	f.Add(append(ip4, ack...))
	f.Add(append(ip6, ack...))
	f.Add(append(ip4, ack[:4]...))                                              // cut
	f.Add(append([]byte{0x64, 0, 0xff, 0xff, 0, 0, 0, 1}, make([]byte, 40)...)) // a MAD
	for _, word := range []byte{4, 8} {
		f.Add(append(append([]byte{0x19, 27: word}, make([]byte, 16)...), 1, 2, 3, 4))
		f.Add(append(append([]byte{0xb8, 31: word}, make([]byte, 4*int(word))...), 1, 2, 3, 4))
	}
	for _, op := range []byte{0x0b, 0x13, 0x18, 0xab, 0xb4, 0xff} {
		f.Add(append([]byte{op, 0xff}, bytes.Repeat([]byte{0xa5}, packet.MaxHeaders)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tree, err := packet.Describe(b)
		if (tree == nil) != (len(b) < packet.BTHSize+packet.ICRCSize) || tree == nil && err == nil {
			t.Fatalf("tree %v, error %v", tree, err)
		}
		show := func() {
			if tree == nil {
				return
			}
			requireCovered(t, tree, len(b))
			if _, err := json.Marshal(tree); err != nil {
				t.Error(err)
			}
			if err := tree.Print(io.Discard, b); err != nil {
				t.Error(err)
			}
		}
		show()
		tree, err = packet.DescribeIP(b)
		if (tree != nil) != packet.IsIP(b) || tree == nil && err == nil {
			t.Fatalf("IP: tree %v, error %v", tree, err)
		}
		show()
	})
}
