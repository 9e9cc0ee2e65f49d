package main

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless"
)

// An endpoint makes a completion channel, then a completion queue. The device has no room for
// the queue, and the function returns with an error, but without closing the channel. Each
// new attempt leaks one more, until there is no room for channels either.
var mori384 = incident{
	name:  "mori-384",
	link:  "https://github.com/ROCm/mori/pull/384",
	title: "create_cq fails for a while, and the error path leaks channels",
	play: func(s *stage) (string, error) {
		leaked := 0
		for attempt := 0; attempt <= mostChannels; attempt++ {
			channel, err := s.nic.CreateChannel()
			if err != nil {
				s.print("attempt %d: the channel: %v", attempt, err)
				return fmt.Sprintf("the device has room again, but %d channels are leaked, and no more are possible", leaked), nil
			}
			cq, err := s.nic.CreateCQ(nicless.CQConfig{Channel: channel})
			if err != nil {
				if leaked == 0 {
					s.print("attempt %d: the queue: %v", attempt, err)
				}
				leaked++ // throw: nobody closes the channel
				continue
			}
			if err := errors.Join(cq.Close(), channel.Close()); err != nil {
				return "", err
			}
		}
		return "", nil
	},
}
