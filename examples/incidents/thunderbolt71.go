package main

import (
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// Two machines post receives and sends in lockstep. A SEND that arrives a microsecond before
// its receive gets an RNR NAK. The connection was made with rnr_retry 0, so that one NAK ends
// it, and everything after it.
var thunderbolt71 = incident{
	name:  "thunderbolt-ibverbs-71",
	link:  "https://github.com/hellas-ai/thunderbolt-ibverbs/pull/71",
	title: "rnr_retry is 0, and one receive that is posted a microsecond late ends the connection",
	play: func(s *stage) (string, error) {
		a, b, err := s.pair(nicless.Connection{RNRRetry: nicless.NoRetry})
		if err != nil {
			return "", err
		}
		const gates = 3
		failed := 0
		for i := range gates {
			wr := &nicless.RecvWR{ID: uint64(i), SGE: []nicless.SGE{b.mr.SGE(0, 64)}}
			if err := b.qp.PostRecv(wr); err != nil {
				return "", err
			}
			if err := a.post(uint64(i), nicless.Send, nil, 0, 8); err != nil {
				return "", err
			}
			c, ok, err := a.poll(patience)
			if err != nil || !ok {
				return "", fmt.Errorf("no completion: %v", err)
			}
			s.print("gate %d: %v", i, c.Status)
			if c.Status != cqe.StatusSuccess {
				failed++
			}
		}
		if failed == 0 {
			return "", nil
		}
		at, err := a.qp.Query()
		return fmt.Sprintf("one NAK, and %d of %d gates fail; the queue pair is in %v", failed, gates, at.State), err
	},
}
