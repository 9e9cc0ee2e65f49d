package main

import (
	"fmt"
	"time"

	"github.com/nicless/nicless"
)

// Many queue pairs share one completion queue that is too small for them. It overruns, and
// takes no more completions. The program polls it for ever, because "none" is no error to it.
var transferbench239 = incident{
	name:  "transferbench-239",
	link:  "https://github.com/ROCm/TransferBench/pull/239",
	title: "a completion queue overruns, and the program polls it for ever",
	play: func(s *stage) (string, error) {
		a, b, err := s.pair(nicless.Connection{})
		if err != nil {
			return "", err
		}
		const transfers = 4
		for i := range transfers {
			if err := a.post(uint64(i), nicless.Write, b, 64*i, 64); err != nil {
				return "", err
			}
		}
		done := 0
		var one [1]nicless.Completion
		for end := time.Now().Add(patience); done < transfers; {
			n, _ := a.cq.Poll(one[:]) // the error is not looked at
			if n > 0 {
				s.dump(a.cq, uint32(done))
				done++
			} else if time.Now().After(end) {
				e, err := s.nic.PollEvent()
				if err != nil || e == nil {
					return "", fmt.Errorf("no event: %v", err)
				}
				s.print("event that nobody reads: %v", e.Kind)
				return fmt.Sprintf("%d of %d transfers complete, and polling goes on for ever", done, transfers), nil
			}
		}
		return "", nil
	},
}
