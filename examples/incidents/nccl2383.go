package main

import (
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// A kernel puts, and waits until a counter has the number of puts. The counter counts
// completions that have succeeded. A put whose completion is an error is never counted.
var nccl2383 = incident{
	name:  "nccl-2383",
	link:  "https://github.com/NVIDIA/nccl/issues/2383",
	title: "waiting for success takes an error completion for \"not yet\"",
	play: func(s *stage) (string, error) {
		a, b, err := s.pair(nicless.Connection{})
		if err != nil {
			return "", err
		}
		const puts = 3
		for i := range puts {
			if err := a.post(uint64(i), nicless.Write, b, 64*i, 64); err != nil {
				return "", err
			}
		}
		counter := 0
		for counter < puts { // waitCounter
			c, ok, err := a.poll(patience)
			switch {
			case err != nil:
				return "", err
			case !ok:
				return fmt.Sprintf("the counter stays at %d of %d, and the kernel spins for ever", counter, puts), nil
			case c.Status == cqe.StatusSuccess:
				counter++
			}
			s.print("put %d: %v, counter %d", c.ID, c.Status, counter)
		}
		return "", nil
	},
}
