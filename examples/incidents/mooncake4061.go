package main

import (
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// A notification is one SEND. If it fails, the sender sends it again over another connection.
// It had failed for the sender only: the receiver has it twice, and nothing in it says so.
var mooncake4061 = incident{
	name:  "mooncake-4061",
	link:  "https://github.com/kvcache-ai/Mooncake/issues/4061",
	title: "a notification that failed is sent again, and arrives twice",
	play: func(s *stage) (string, error) {
		counts := make(map[uint64]int)
		var rails [2][2]*side
		for i := range rails {
			a, b, err := s.pair(nicless.Connection{Timeout: 10, Retry: 2})
			if err != nil {
				return "", err
			}
			rails[i] = [2]*side{a, b}
			for slot := range 4 {
				if err := b.qp.PostRecv(&nicless.RecvWR{ID: uint64(slot),
					SGE: []nicless.SGE{b.mr.SGE(64*slot, 64)}}); err != nil {
					return "", err
				}
			}
		}
		for n := uint64(1); n <= 2; n++ { // notifications
			for rail, r := range rails {
				r[0].mr.Store64(0, n)
				if err := r[0].post(n, nicless.Send, nil, 0, 8); err != nil {
					return "", err
				}
				c, ok, err := r[0].poll(20 * patience)
				if err != nil || !ok {
					return "", fmt.Errorf("no completion: %v", err)
				}
				s.print("notification %d on rail %d: %v", n, rail, c.Status)
				if c.Status == cqe.StatusSuccess {
					break
				}
			}
		}
		for _, r := range rails {
			for {
				c, ok, err := r[1].poll(patience)
				if err != nil {
					return "", err
				}
				if !ok || c.Status != cqe.StatusSuccess {
					break
				}
				counts[r[1].mr.Load64(64*int(c.ID))]++
			}
		}
		s.print("received: notification 1 %d times, notification 2 %d times", counts[1], counts[2])
		if counts[2] != 1 {
			return "the receiver acts twice on one notification", nil
		}
		return "", nil
	},
}
