package wqe_test

import (
	"fmt"
	"os"

	"github.com/nicless/nicless/wqe"
)

func ExampleCtrl_Put() {
	var b [wqe.CtrlSize]byte
	wqe.Ctrl{Opcode: wqe.OpRDMAWrite, Index: 5, QPN: 0x102, DS: 3, Flags: wqe.CEAlways}.Put(&b)
	fmt.Printf("% x\n", b)
	// Output: 00 00 05 08 00 01 02 03 00 00 00 08 00 00 00 00
}

// An RDMA WRITE with inline data that starts in the last block of its ring.
func ExampleBuilder() {
	ring := make([]byte, 4*wqe.BlockSize)
	b := wqe.Start(ring, 7)
	b.Raddr(wqe.Raddr{Addr: 0x7f0000001000, RKey: 0x1a200})
	b.Inline([]byte("thirty bytes, so three units "), []byte("."))
	blocks, err := b.Finish(wqe.Ctrl{Opcode: wqe.OpRDMAWrite, QPN: 0x102, Flags: wqe.CEAlways})
	fmt.Println(blocks, "blocks,", err)
	fmt.Printf("%q\n", ring[3*wqe.BlockSize+36:])
	fmt.Printf("%q\n", ring[:2])
	// Output:
	// 2 blocks, <nil>
	// "thirty bytes, so three units"
	// " ."
}

func ExampleParse() {
	ring := make([]byte, 4*wqe.BlockSize)
	b := wqe.Start(ring, 0)
	b.Raddr(wqe.Raddr{Addr: 0x7f0000001000, RKey: 0x1a200})
	b.Data(wqe.Data{ByteCount: 64, LKey: 0xb100, Addr: 0x7f0000002000})
	if _, err := b.Finish(wqe.Ctrl{Opcode: wqe.OpRDMAWrite, QPN: 0x102}); err != nil {
		fmt.Println(err)
	}
	v, err := wqe.Parse(ring, wqe.NoAddress)
	fmt.Println(v.Ctrl.Opcode, v.Ctrl.DS, err)
	for it := v.Segments(); ; {
		s, ok := it.Next()
		if !ok {
			break
		}
		fmt.Printf("%d %s % x\n", s.Offset, s.Kind, s.Bytes)
	}
	// Output:
	// RDMA_WRITE 3 <nil>
	// 16 raddr 00 00 7f 00 00 00 10 00 00 01 a2 00 00 00 00 00
	// 32 data 00 00 00 40 00 00 b1 00 00 00 7f 00 00 00 20 00
}

func ExampleDescribeSend() {
	b := make([]byte, wqe.BlockSize)
	w := wqe.Start(b, 5)
	w.Data(wqe.Data{ByteCount: 64, LKey: 0xb100, Addr: 0x7f0000002000})
	if _, err := w.Finish(wqe.Ctrl{Opcode: wqe.OpSendImm, QPN: 0x102, Flags: wqe.CEAlways, Imm: 7}); err != nil {
		fmt.Println(err)
	}
	fields, err := wqe.DescribeSend(b[:32], wqe.AddressGuess)
	if err != nil {
		fmt.Println(err)
	}
	if err := fields.Print(os.Stdout, b); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 00  00                       opmod         0
	// 01  00 05                    wqe_index     5  of the first block
	// 03  0b                       opcode        11  SEND_IMM
	// 04  00 01 02                 qpn           258  0x000102
	// 07  02                       ds            2  32 bytes
	//                              wqebbs        1  blocks of 64 bytes
	// 08  00                       signature     0
	// 09  00 00                    dci_stream    0
	// 0b  08                       fm_ce_se      8
	//                              fence         0  none
	//                              ce            2  CQE always
	//                              solicited     0  no
	// 0c  00 00 00 07              imm           0x00000007  immediate
	// 10                           data
	// 10  00 00 00 40                byte_count  64
	//                                length      64  bytes
	// 14  00 00 b1 00                lkey        0x0000b100
	// 18  00 00 7f 00 00 00 20 00    addr        0x00007f0000002000
}

// The list of a receive entry of 64 bytes, which has room for a terminator.
func ExamplePutRecv() {
	stride := make([]byte, 64)
	ok := wqe.PutRecv(stride, []wqe.Data{{ByteCount: 4096, LKey: 0x2100, Addr: 0x7f0000000000}})
	fmt.Println(ok)
	fmt.Printf("% x\n% x\n", stride[:16], stride[16:32])
	// Output:
	// true
	// 00 00 10 00 00 00 21 00 00 00 7f 00 00 00 00 00
	// 00 00 00 00 00 00 01 00 00 00 00 00 00 00 00 00
}
