package main

import (
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// During a training the GID of a port changes. A thread that reads events logs that, and nothing
// else happens, until a queue pair that was connected with the old GID is used again.
var nccl394 = incident{
	name:  "nccl-394",
	link:  "https://github.com/NVIDIA/nccl/issues/394",
	timed: true,
	title: "the event \"GID table change\" is logged, and the connections are dead",
	play: func(s *stage) (string, error) {
		a, b, err := s.pair(nicless.Connection{Timeout: 10, Retry: 2})
		if err != nil {
			return "", err
		}
		if err := s.obey(); err != nil {
			return "", err
		}
		kind, err := s.event()
		if err != nil {
			return "", err
		}
		s.print("NCCL WARN NET/IB : Got async event : %s", kind)
		if err := a.post(1, nicless.Write, b, 0, 64); err != nil {
			return "", err
		}
		c, ok, err := a.poll(20 * patience)
		if err != nil || !ok {
			return "", fmt.Errorf("no completion: %v", err)
		}
		if c.Status == cqe.StatusSuccess {
			return "", nil
		}
		s.print("NCCL WARN NET/IB : Got completion with error %d, opcode %d, len %d, vendor err %d",
			c.Status, c.Opcode, c.ByteLen, c.VendorErr)
		return "the connection was not made again after the event", nil
	},
}
