// Accelput is the smallest program in which an accelerator, not the host, posts
// work: a kernel of one lane puts 8 bytes into the memory of a peer, waits until
// they have arrived, and ends.
//
//	go run ./examples/accelput
//
// The host makes the memory and the queue pairs, starts the kernel and checks the
// result: the request (WQE) that the lane wrote, the completion (CQE) that the
// device wrote, and the 8 bytes. The program fails if any of them is wrong.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/cqe"
)

const text = "8 bytes!"

func main() {
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: accelput\n\nA kernel of one lane puts 8 bytes and waits. There are no options.")
	}
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "accelput: error: %q is not an option; there are none\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "accelput: error: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	nic, err := nicless.Open(nicless.Config{}) // also starts an engine in this program
	if err != nil {
		return err
	}
	defer nic.Close()
	pd, err := nic.AllocPD()
	if err != nil {
		return err
	}
	near, err := pd.RegisterMemory(4096, nicless.FullAccess)
	if err != nil {
		return err
	}
	far, err := pd.RegisterMemory(4096, nicless.FullAccess)
	if err != nil {
		return err
	}
	qp, cq, err := pair(nic, pd)
	if err != nil {
		return err
	}
	export, err := qp.Export()
	if err != nil {
		return err
	}
	queue, err := accel.NewQueue(export)
	if err != nil {
		return err
	}
	device, err := accel.New(accel.Config{})
	if err != nil {
		return err
	}
	defer device.Close()
	stream, err := device.NewStream()
	if err != nil {
		return err
	}

	copy(near.Bytes(), text)
	src, dst := accel.NewBuffer(near).Ref(0), accel.NewBuffer(far).Ref(64)
	var outcome error
	err = stream.Launch(accel.Grid{Blocks: 1, Threads: 1}, func(t *accel.Thread) {
		t.Put(queue, dst, src, len(text))
		outcome = t.Quiet(queue)
	})
	if err != nil {
		return err
	}
	if err := stream.Sync(); err != nil {
		return err
	}
	if outcome != nil {
		return outcome
	}

	fmt.Printf("one lane put %d bytes from %#x to %#x\n\n", len(text), src.Addr, dst.Addr)
	fmt.Printf("it wrote a WQE into the send ring of qp 0x%06x\n", qp.QPN())
	dump(qp.SendRing()[:64], "control: RDMA_WRITE, qp, 3 units, completion wanted", "remote address and key", "length, local key and address", "after the WQE")
	fmt.Printf("\nrang the doorbell: %d block is posted\n", qp.SendIndex())
	dump(qp.Record(), "count of receives, of send blocks")
	fmt.Printf("\nand waited for the CQE in cq 0x%06x\n", cq.CQN())
	dump(cq.Ring()[:cqe.Size], "of Ethernet alone", "of receives alone", "no byte count for a write", "time; opcode of the WQE, qp; count, signature, owner")

	c := cqe.ParseWC((*[cqe.Size]byte)(cq.Ring()))
	fmt.Printf("\nwhich says %v %v; the target holds\n", c.Opcode, c.Status)
	got := far.Bytes()[64 : 64+len(text)]
	dump(got, string(got))
	if c.Status != cqe.StatusSuccess || c.Opcode != cqe.WCRDMAWrite {
		return fmt.Errorf("the completion says %v %v", c.Opcode, c.Status)
	}
	if !bytes.Equal(got, []byte(text)) {
		return fmt.Errorf("the target holds %q, not %q", got, text)
	}
	return nil
}

// pair makes a queue pair for accelerators and connects it with another queue pair,
// which only receives the writes.
func pair(nic *nicless.Context, pd *nicless.PD) (*nicless.QP, *nicless.CQ, error) {
	cq, err := nic.CreateCQ(nicless.CQConfig{Collapsed: true})
	if err != nil {
		return nil, nil, err
	}
	qp, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq, Concurrent: true})
	if err != nil {
		return nil, nil, err
	}
	idle, err := nic.CreateCQ(nicless.CQConfig{PollOnly: true}) // an exported collapsed CQ cannot be shared
	if err != nil {
		return nil, nil, err
	}
	peer, err := pd.CreateQP(nicless.QPConfig{SendCQ: idle})
	if err != nil {
		return nil, nil, err
	}
	return qp, cq, nicless.Pair(qp, peer, nicless.Connection{})
}

// dump prints bytes, 16 in a line, with a text for each line that says what they are.
func dump(b []byte, what ...string) {
	for i, w := range what {
		row := fmt.Sprintf("% x", b[16*i:min(16*i+16, len(b))])
		fmt.Printf("  %02x  %-47s  %s\n", 16*i, row, w)
	}
}
