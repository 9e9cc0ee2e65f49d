package packet_test

import (
	"fmt"
	"net/netip"

	"github.com/nicless/nicless/packet"
)

// A requester writes a packet and seals it for the network.
func ExampleFlow_Seal() {
	flow := packet.MakeFlow(netip.MustParseAddrPort("10.99.0.1:49492"), netip.MustParseAddrPort("10.99.0.2:4791"))

	op := packet.MakeOpcode(packet.RC, packet.SendOnly)
	size := op.Info().HeaderSize
	b := make([]byte, size+len("hello")+3+packet.ICRCSize)
	packet.BTH{Opcode: op, Migrated: true, Pad: 3, PKey: 0xffff, DestQP: 0x11, AckReq: true, PSN: 7}.Put((*[packet.BTHSize]byte)(b))
	copy(b[size:], "hello")
	flow.Seal(b, 0) // a socket that sets DF sends identification 0

	fmt.Printf("% x\n", b)
	fmt.Println(flow.Check(b, 0))
	// Output:
	// 04 70 ff ff 00 00 00 11 80 00 00 07 68 65 6c 6c 6f 00 00 00 cd ee 5f 28
	// 32 0
}

// A responder finds the headers of a packet by its opcode.
func ExampleOpcode_Info() {
	b := []byte{0x11, 0, 0xff, 0xff, 0, 0, 0, 0x18, 0, 0x85, 0x21, 0x4b, 0x2e, 0, 0, 0}
	h := packet.ParseBTH((*[packet.BTHSize]byte)(b))
	if i := h.Opcode.Info(); i.AETH {
		fmt.Println(i.Name, h.PSN, packet.ParseAETH((*[packet.AETHSize]byte)(b[i.OffAETH:])))
	}
	// Output: RC_ACKNOWLEDGE 8724811 RNR NAK, timer 14 (1.28ms)
}
