package cqe_test

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless/cqe"
)

// A device reports that the send WQE at block 7 of QP 0x102 is done, as
// entry 18 of a CQ of 16.
func ExamplePutReq() {
	const index, log = 18, 4
	var b [cqe.Size]byte
	own := cqe.MakeOpOwn(cqe.Req, cqe.FormatPlain, false, cqe.Owner(index, log))
	cqe.PutReq(&b, 0x102, 0, 0x08, 7, 0, 0, own)
	fmt.Printf("slot %d: ... % x\n", cqe.Slot(index, log), b[cqe.OffQPN:])
	// Output: slot 2: ... 08 00 01 02 00 07 00 01
}

// A poller looks at one byte, and reads the entry only if it is new.
func ExampleWC_Parse() {
	const ci, log = 18, 4
	var b [cqe.Size]byte
	cqe.PutResp(&b, 0x102, 0, cqe.FlagsRQPN(0, 0, 0x201), 0xcafe, 3, 64, 0,
		cqe.MakeOpOwn(cqe.RespSendImm, cqe.FormatPlain, false, cqe.Owner(ci, log)))

	fmt.Println("one lap ago:", cqe.Valid(cqe.OpOwn(b[cqe.OffOpOwn]), ci-16, log))
	if cqe.Valid(cqe.OpOwn(b[cqe.OffOpOwn]), ci, log) {
		var w cqe.WC
		w.Parse(&b)
		fmt.Printf("%v %v: %d bytes in receive %d, immediate %#x, from qp %#x\n",
			w.Status, w.Opcode, w.ByteLen, w.Counter, w.Imm, w.SrcQP)
	}
	// Output:
	// one lap ago: false
	// SUCCESS RECV: 64 bytes in receive 3, immediate 0xcafe, from qp 0x201
}

func ExampleWorkError() {
	var b [cqe.Size]byte
	cqe.PutErr(&b, 0xabc, 0, 0x08, 7, cqe.RemoteAccess, 0x88, cqe.MakeOpOwn(cqe.ReqErr, cqe.FormatPlain, false, 0))
	w := cqe.ParseWC(&b)
	err := w.Err(1001)
	fmt.Println(err)
	fmt.Println("flushed:", errors.Is(err, cqe.Flush))
	var we *cqe.WorkError
	if errors.As(err, &we) {
		fmt.Println("request", we.ID, "verbs status", we.Cause.Status())
	}
	// Output:
	// qp 0x000abc wqe 7 id 1001: remote access error (vendor 0x88)
	// flushed: false
	// request 1001 verbs status REM_ACCESS_ERR
}
