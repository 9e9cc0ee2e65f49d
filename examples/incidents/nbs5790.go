package main

import (
	"fmt"
	"time"

	"github.com/nicless/nicless"
)

// A server of block devices has fewer receives than its clients have requests. The connection
// has rnr_retry 7 (for ever) and min_rnr_timer 0, which is not "no time", but 655 ms. So
// nothing fails, and each NAK costs more than half a second.
var nbs5790 = incident{
	name:  "nbs-5790",
	link:  "https://github.com/ydb-platform/nbs/issues/5790",
	title: "min_rnr_timer 0 means 655 ms, and requests take seconds",
	play: func(s *stage) (string, error) {
		var took [2]time.Duration
		for i, timer := range []uint8{0, 13} {
			a, b, err := s.pair(nicless.Connection{RNRRetry: 7})
			if err != nil {
				return "", err
			}
			if err := b.qp.Modify(&nicless.Attr{Mask: nicless.AttrState | nicless.AttrMinRNRTimer,
				State: nicless.StateRTS, MinRNRTimer: timer}); err != nil {
				return "", err
			}
			if err := b.qp.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{b.mr.SGE(0, 64)}}); err != nil {
				return "", err
			}
			start := time.Now()
			if err := a.post(uint64(i), nicless.Send, nil, 0, 8); err != nil {
				return "", err
			}
			c, ok, err := a.poll(20 * time.Second)
			if err != nil || !ok {
				return "", fmt.Errorf("no completion: %v", err)
			}
			took[i] = time.Since(start)
			s.print("min_rnr_timer %d: %v", timer, c.Status)
		}
		if took[0] < time.Second {
			return "", nil
		}
		return "with min_rnr_timer 0 the request took more than a second", nil
	},
}
