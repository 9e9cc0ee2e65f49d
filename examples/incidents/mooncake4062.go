package main

import (
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// A receiver posts a receive again after each completion of one, whatever its status is. When
// its queue pair is in the error state, the receive is flushed at once, posted again, flushed
// again, and so on. The number of outstanding receives never becomes 0, so the endpoint is never
// destroyed. (The review of this pull request asks for a check of the connection before the post.)
var mooncake4062 = incident{
	name:  "mooncake-4062",
	link:  "https://github.com/kvcache-ai/Mooncake/pull/4062",
	title: "receives are posted again after a flush, so the queue never drains",
	play: func(s *stage) (string, error) {
		a, b, err := s.pair(nicless.Connection{})
		if err != nil {
			return "", err
		}
		const inflight = 2
		recv := func(slot uint64) error {
			return b.qp.PostRecv(&nicless.RecvWR{ID: slot, SGE: []nicless.SGE{b.mr.SGE(64*int(slot), 64)}})
		}
		for slot := range uint64(inflight) {
			if err := recv(slot); err != nil {
				return "", err
			}
		}
		for i := range uint64(2) {
			if err := a.post(i, nicless.Send, nil, 0, 8); err != nil {
				return "", err
			}
		}
		flushes := 0
		for range 6 {
			c, ok, err := b.poll(patience)
			if err != nil || !ok {
				break // the sender is done
			}
			s.print("receive %d: %v; posted again", c.ID, c.Status)
			if c.Status != cqe.StatusSuccess {
				flushes++
			}
			if err := recv(c.ID); err != nil {
				return "", err
			}
		}
		if flushes == 0 {
			return "", nil
		}
		return fmt.Sprintf("%d receives were posted, %d flushes came, and %d receives are outstanding as before",
			inflight, flushes, inflight), nil
	},
}
