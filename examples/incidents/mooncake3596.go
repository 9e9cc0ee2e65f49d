package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// An engine of transfers pauses a device when its port goes down, and resumes it when the port
// is up again. The queue pair over which a slice was under way meanwhile is in error, and nobody
// makes a new one.
var mooncake3596 = incident{
	name:  "mooncake-3596",
	link:  "https://github.com/kvcache-ai/Mooncake/issues/3596",
	timed: true,
	title: "the port is up again, and every slice still fails",
	play: func(s *stage) (string, error) {
		a, b, err := s.pair(nicless.Connection{Timeout: 10, Retry: 2})
		if err != nil {
			return "", err
		}
		if err := s.obey(); err != nil {
			return "", err
		}
		down, err := s.event()
		if err != nil {
			return "", err
		}
		s.print("event: %s; one slice is under way", down)
		if _, err := a.transfer(b, 0); err != nil {
			return "", err
		}
		if down != "" {
			up, err := s.event()
			if err != nil {
				return "", err
			}
			s.print("event: %s; the device is resumed", up)
		}
		failed := 0
		const slices = 2
		for i := range slices {
			status, err := a.transfer(b, i+1)
			if err != nil {
				return "", err
			}
			if status != cqe.StatusSuccess {
				failed++
			}
		}
		if failed == 0 {
			return "", nil
		}
		return fmt.Sprintf("the port is up, and %d of %d slices fail", failed, slices), nil
	},
}

// transfer writes slice i and returns the status of the completion.
func (a *side) transfer(b *side, i int) (cqe.WCStatus, error) {
	if err := a.post(uint64(i), nicless.Write, b, 64*i, 64); err != nil {
		return 0, err
	}
	c, ok, err := a.poll(20 * patience)
	if err != nil || !ok {
		return 0, fmt.Errorf("no completion of slice %d: %v", i, err)
	}
	a.s.print("slice %d: %v", i, c.Status)
	return c.Status, nil
}

// event waits for an event of the device, and returns its kind; "" if there are no
// rules that cause one.
func (s *stage) event() (string, error) {
	wait := patience
	if s.rules != nil {
		wait = time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	e, err := s.nic.NextEvent(ctx)
	if ctx.Err() != nil {
		return "", nil
	}
	return e.Kind.String(), err
}
