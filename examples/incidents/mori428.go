package main

import (
	"fmt"

	"github.com/nicless/nicless"
)

// A barrier: one rank adds 1 to a word of each peer, with a queue pair and a doorbell for each,
// and each peer waits for its word. Doorbells of one instruction were merged, so some queues
// were never seen.
var mori428 = incident{
	name:  "mori-428",
	link:  "https://github.com/ROCm/mori/pull/428",
	title: "doorbells get lost, and peers spin in a barrier",
	play: func(s *stage) (string, error) {
		const peers = 4
		var a, b [peers]*side
		for i := range peers {
			var err error
			a[i], b[i], err = s.pair(nicless.Connection{})
			if err != nil {
				return "", err
			}
		}
		for i := range peers {
			if err := a[i].qp.PostSend(&nicless.SendWR{
				ID: uint64(i), Op: nicless.FetchAdd, Flags: nicless.Signaled, SwapAdd: 1,
				SGE: []nicless.SGE{a[i].mr.SGE(0, 8)}, RemoteAddr: b[i].mr.Addr(), RKey: b[i].mr.RKey(),
			}); err != nil {
				return "", err
			}
		}
		left := 0
		for i := range peers {
			if _, _, err := a[i].poll(patience); err != nil {
				return "", err
			}
			s.print("peer %d: word %d", i, b[i].mr.Load64(0))
			if b[i].mr.Load64(0) == 0 {
				left++
			}
		}
		if left > 0 {
			return fmt.Sprintf("%d of %d peers never leave the barrier", left, peers), nil
		}
		return "", nil
	},
}
