package doorbell_test

import (
	"encoding/binary"
	"fmt"

	"github.com/nicless/nicless/doorbell"
)

// A device reads a record that a client wrote with all 32 bits of its count.
func ExamplePending() {
	const word, consumed, ring = 0x0001_0005, 0xffff, 16
	n, ok := doorbell.Pending(word, consumed, ring)
	fmt.Println(n, "blocks to fetch:", ok)

	n, ok = doorbell.Pending(word, 0x00f0, ring)
	fmt.Println(n, "blocks to fetch:", ok)
	// Output:
	// 6 blocks to fetch: true
	// 0 blocks to fetch: false
}

// An accelerator rings QP 0x1234 after filling blocks up to 11.
func ExampleMakeRing() {
	var b [doorbell.RingSize]byte
	doorbell.MakeRing(11, 0x1234).Put(&b)
	fmt.Printf("% x\n", b)
	// Output: 00 00 0b 00 00 12 34 00
}

// A client requests one event at the next solicited completion of CQ 0x405.
func ExampleMakeArmRegister() {
	a := doorbell.Arm{SN: 1, Solicited: true, CI: 0x123456}
	fmt.Printf("record   %08x\n", a.Word())
	fmt.Printf("register % x\n", binary.BigEndian.AppendUint64(nil, uint64(doorbell.MakeArmRegister(a, 0x405))))
	// Output:
	// record   11123456
	// register 11 12 34 56 00 00 04 05
}
