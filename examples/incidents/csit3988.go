package main

import (
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// A driver posts a burst, and logs what the last completion of the burst says. If the first
// work request fails, the others are flushed, so the log says "flushed", and nothing more.
var csit3988 = incident{
	name:  "csit-3988",
	link:  "https://github.com/FDio/csit/issues/3988",
	title: "the log has the flushes, not the error before them",
	play: func(s *stage) (string, error) {
		a, b, err := s.pair(nicless.Connection{})
		if err != nil {
			return "", err
		}
		const burst = 3
		for i := range burst {
			if err := a.post(uint64(i), nicless.Write, b, 64*i, 64); err != nil {
				return "", err
			}
		}
		var first, last nicless.Completion
		for i := range burst {
			c, ok, err := a.poll(patience)
			if err != nil || !ok {
				return "", fmt.Errorf("no completion: %v", err)
			}
			if i == 0 {
				first = c
			}
			last = c
		}
		s.print("logged: %v, vendor syndrome 0x%02x", last.Status, last.VendorErr)
		if last.Status == cqe.StatusSuccess {
			return "", nil
		}
		return fmt.Sprintf("the cause is not in the log: %v, vendor syndrome 0x%02x", first.Status, first.VendorErr), nil
	},
}
