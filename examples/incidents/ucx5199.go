package main

import (
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// The first messages of an MPI program do not arrive. Without a handler of errors UCX takes
// the completion for fatal: it logs one line and aborts the program.
var ucx5199 = incident{
	name:  "ucx-5199",
	link:  "https://github.com/openucx/ucx/issues/5199",
	title: "no answer from the peer, and the program aborts",
	play: func(s *stage) (string, error) {
		a, b, err := s.pair(nicless.Connection{Timeout: 10, Retry: 2}) // UCX: 18 and 7, half a minute
		if err != nil {
			return "", err
		}
		for i := range 2 {
			if err := b.qp.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{b.mr.SGE(64*i, 64)}}); err != nil {
				return "", err
			}
			if err := a.post(uint64(i), nicless.Send, nil, 0, 18); err != nil {
				return "", err
			}
		}
		for range 2 {
			c, ok, err := a.poll(20 * patience)
			if err != nil || !ok {
				return "", fmt.Errorf("no completion: %v", err)
			}
			if c.Status != cqe.StatusSuccess {
				s.print("Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x%x vend 0x%x hw_synd 0/0)",
					uint8(c.Syndrome), c.VendorErr)
				s.print("RC QP wqe[%d]: SEND s-e [len 18]", c.ID)
				return "the program aborts", nil
			}
		}
		return "", nil
	},
}
