package main

import (
	"fmt"

	"github.com/nicless/nicless"
)

// A transfer is done when each of its slices has had a completion, good or bad. The peer
// restarts, and the engine reconnects: it resets the queue pair. A reset drops what is
// outstanding without completions, so the transfer is never done. The error state flushes.
var mooncake2427 = incident{
	name:  "mooncake-2427",
	link:  "https://github.com/kvcache-ai/Mooncake/pull/2427",
	title: "a reset of a queue pair drops work without completions, and a transfer never ends",
	play: func(s *stage) (string, error) {
		reset, err := teardown(s, nicless.StateRST)
		if err != nil {
			return "", err
		}
		flushed, err := teardown(s, nicless.StateERR)
		if err != nil || reset == pieces {
			return "", err
		}
		return fmt.Sprintf("after the reset %d of %d slices are pending for ever; the error state completes %d of %d",
			pieces-reset, pieces, flushed, pieces), nil
	},
}

const pieces = 3

// teardown posts a transfer, waits until the peer does not answer any more, changes the state
// of the queue pair, and returns how many slices have completed.
func teardown(s *stage, to nicless.State) (done int, err error) {
	a, b, err := s.pair(nicless.Connection{})
	if err != nil {
		return 0, err
	}
	for i := range pieces {
		if err := a.post(uint64(i), nicless.Write, b, 64*i, 64); err != nil {
			return 0, err
		}
	}
	for late := false; done < pieces; {
		c, ok, err := a.poll(patience)
		switch {
		case err != nil:
			return 0, err
		case ok:
			done++
			s.print("slice %d: %v", c.ID, c.Status)
		case late:
			s.print("%d slices: no completion", pieces-done)
			return done, nil
		default: // the store gives up the peer
			late = true
			s.print("queue pair to %v", to)
			if err := a.qp.Modify(&nicless.Attr{Mask: nicless.AttrState, State: to}); err != nil {
				return 0, err
			}
		}
	}
	return done, nil
}
