package main

import (
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

// A target writes the answer of a read request into the memory of the client. The client is
// stopped by ctrl-C and deregisters its memory while the answer is on its way. The target
// reports an error of its own; in the report it had 13 88 in the same bytes as here.
var spdk1387 = incident{
	name:  "spdk-1387",
	link:  "https://github.com/spdk/spdk/issues/1387",
	title: "the peer deregisters its memory while a WRITE is under way",
	play: func(s *stage) (string, error) {
		a, b, err := s.pair(nicless.Connection{})
		if err != nil {
			return "", err
		}
		const size = 1 << 16
		for i := range a.mr.Bytes() {
			a.mr.Bytes()[i] = 1
		}
		if err := a.post(1, nicless.Write, b, 0, size); err != nil {
			return "", err
		}
		c, ok, err := a.poll(20 * patience)
		if err != nil || !ok {
			return "", fmt.Errorf("no completion: %v", err)
		}
		arrived := 0
		for _, v := range b.mr.Bytes() {
			arrived += int(v)
		}
		s.print("target: %v", c.Status)
		if c.Status == cqe.StatusSuccess && arrived == size {
			return "", nil
		}
		return "the answer has not arrived whole, and the target logs an error that is none of its own", nil
	},
}
