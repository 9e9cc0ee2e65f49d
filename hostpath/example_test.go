package hostpath_test

import (
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/wqe"
)

// A send queue needs memory for its ring and its doorbell record. Normally a device shares
// that memory. Here there is no device, and the example prints the bytes that posting wrote.
func ExampleSQ_Post() {
	ring, record := make([]byte, 4*wqe.BlockSize), make([]byte, 8)
	q, err := hostpath.NewSQ(hostpath.SQConfig{Ring: ring, Record: record, QPN: 0x102, MaxSGE: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = q.Post(&hostpath.SendWR{
		ID: 1, Op: hostpath.OpWrite, Flags: hostpath.Signaled,
		SGE: []hostpath.SGE{{Addr: 0x1000, Length: 8, LKey: 0x2100}}, RemoteAddr: 0x5000, RKey: 0x3100,
	})
	fmt.Println(err)
	q.Ring()
	fmt.Printf("control % x\nremote  % x\ndata    % x\nrecord  % x\n", ring[:16], ring[16:32], ring[32:48], record)
	// Output:
	// <nil>
	// control 00 00 00 08 00 01 02 03 00 00 00 08 00 00 00 00
	// remote  00 00 00 00 00 00 50 00 00 00 31 00 00 00 00 00
	// data    00 00 00 08 00 00 21 00 00 00 00 00 00 00 10 00
	// record  00 00 00 00 00 00 00 01
}

// The String of a completion describes the completion, and its error describes the cause.
func ExampleCompletion() {
	good := hostpath.Completion{WC: cqe.WC{Kind: cqe.Req, Opcode: cqe.WCRDMARead, QPN: 0x102, ByteLen: 64}, ID: 1}
	bad := hostpath.Completion{WC: cqe.WC{Kind: cqe.ReqErr, Status: cqe.StatusRemAccess, Syndrome: cqe.RemoteAccess, QPN: 0x102}, ID: 2}
	fmt.Println(good)
	fmt.Println(bad)
	// Output:
	// id 1: RDMA_READ SUCCESS, QP 0x000102, 64 bytes
	// qp 0x000102 wqe 0 id 2: remote access error (vendor 0x00)
}
