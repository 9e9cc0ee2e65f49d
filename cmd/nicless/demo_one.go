package main

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cmd/nicless/internal/bench"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/wqe"
)

const greeting = "hello from far memory"

// showOneWrite makes one RDMA write and prints what lies in shared memory
// afterwards.
func showOneWrite(ctx context.Context, w *printer) error {
	machine, err := bench.ThisMachine()
	if err != nil {
		return err
	}
	w.printf("nicless: an RDMA NIC made of software and shared memory\n%v\n\n", machine)
	cfg := bench.PairConfig{Op: nicless.Write, Size: len(greeting), Slots: 1, Depth: 4, Batch: 1, Patience: patience}
	return withPair(cfg, func(p *bench.Pair) error {
		copy(p.Source(0), greeting)
		if err := p.Post(0, 1); err != nil {
			return err
		}
		if err := p.Await(ctx, 1); err != nil {
			return err
		}
		if err := p.Compare(); err != nil {
			return err
		}
		explain(w, p)
		return w.err
	})
}

// explain prints each step of the write that p has made, in order.
func explain(w *printer, p *bench.Pair) {
	w.printf("ONE RDMA WRITE, %q, from one registered region to another.\n", greeting)
	w.printf("What follows are the bytes in shared memory, as they lie there now.\n\n")

	block := p.A.SendRing()[:wqe.BlockSize]
	w.printf("  1  The program wrote a work queue element (WQE) into block 0 of the send ring of qp 0x%06x.\n", p.A.QPN())
	w.dump("send", block)

	w.printf("\n  2  It rang: the doorbell record says that one block is filled,\n")
	w.dump("qp-dbrec", p.A.Record())
	w.printf("     and then the doorbell register (UAR), what the WQE begins with.\n")
	var register [doorbell.RingSize]byte
	binary.BigEndian.PutUint64(register[:], p.A.Register()[0])
	w.dump("uar", register[:])

	w.printf("\n  3  The engine, on a thread of its own, saw the record change, copied the WQE,\n")
	w.printf("     checked keys and bounds, and moved %d bytes. They are in the target's memory now:\n", p.To.Len())
	for at := 0; at < p.To.Len(); at += 16 {
		part := p.To.Bytes()[at:min(at+16, p.To.Len())]
		w.printf("     %02x  %-47s  %s\n", at, fmt.Sprintf("% x", part), part)
	}

	w.printf("\n  4  It wrote a completion queue element (CQE) into slot 0 of cq 0x%06x.\n", p.Sends.CQN())
	w.dump("cqe", p.Sends.Ring()[:cqe.Size])

	w.printf("\n  5  The program polled it, and its consumer index frees the slot for the next lap.\n")
	w.dump("cq-dbrec", p.Sends.Record())
}
