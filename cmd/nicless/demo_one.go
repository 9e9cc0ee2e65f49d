//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/tools/bench"
	"github.com/nicless/nicless/wqe"
)

const greeting = "hello from far memory"

// showOneWrite makes one RDMA write and prints the bytes that are in shared memory
// afterwards.
func showOneWrite(ctx context.Context, w *printer) error {
	machine, err := bench.ThisMachine()
	if err != nil {
		return err
	}
	w.text("nicless: an RDMA NIC made of software and shared memory")
	w.text("%v", machine)
	w.text("")
	cfg := bench.PairConfig{Op: nicless.Write, Size: len(greeting), Slots: 1, Depth: 4, Batch: 1,
		Patience: patience}
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
	w.text("ONE RDMA WRITE, %q, from one registered region to another.", greeting)
	w.text("These bytes are in shared memory now:")
	w.text("")

	block := p.A.SendRing()[:wqe.BlockSize]
	w.text("  1  The program wrote a work queue element (WQE) into block 0 of the send ring of qp 0x%06x.", p.A.QPN())
	w.dump("send", block)

	w.text("")
	w.text("  2  The program rang the doorbell. First it wrote the doorbell record, which says that one block is filled.")
	w.dump("qp-dbrec", p.A.Record())
	w.text("     Then it wrote the first 8 bytes of the WQE to the doorbell register (UAR).")
	var register [doorbell.RingSize]byte
	binary.BigEndian.PutUint64(register[:], p.A.Register()[0])
	w.dump("uar", register[:])

	w.text("")
	w.text("  3  The engine, on another thread, saw that the record had changed. It copied the WQE, checked keys and bounds, and moved %d bytes. They are now in the target's memory:", p.To.Len())
	for at := 0; at < p.To.Len(); at += 16 {
		part := p.To.Bytes()[at:min(at+16, p.To.Len())]
		w.text("  %02x  %-47s  %s", at, fmt.Sprintf("% x", part), part)
	}

	w.text("")
	w.text("  4  The engine wrote a completion queue element (CQE) into slot 0 of cq 0x%06x.", p.Sends.CQN())
	w.dump("cqe", p.Sends.Ring()[:cqe.Size])

	w.text("")
	w.text("  5  The program polled the CQE and wrote its consumer index, which frees the slot for the next lap.")
	w.dump("cq-dbrec", p.Sends.Record())
}
