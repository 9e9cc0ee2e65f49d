package main

import (
	"fmt"

	"github.com/nicless/nicless"
)

// A ring all-reduce reads a piece from its neighbour and adds it. It counts completions and
// does not look at their status. After a READ that failed, it adds what was in the buffer.
var mlx3152 = incident{
	name:  "mlx-3152",
	link:  "https://github.com/ml-explore/mlx/pull/3152",
	title: "nobody looks at the status of completions, so old bytes become the result",
	play: func(s *stage) (string, error) {
		a, b, err := s.pair(nicless.Connection{})
		if err != nil {
			return "", err
		}
		const pieces = 3
		sum, want := uint64(0), uint64(0)
		for i := range pieces {
			b.mr.Store64(0, uint64(100+i))
			want += uint64(100 + i)
			if err := a.post(uint64(i), nicless.Read, b, 0, 8); err != nil {
				return "", err
			}
			inFlight := 1
			for inFlight > 0 {
				_, ok, err := a.poll(patience) // wc.status is not looked at
				if err != nil || !ok {
					return "", fmt.Errorf("no completion: %v", err)
				}
				inFlight--
			}
			sum += a.mr.Load64(0)
			s.print("piece %d: neighbour has %d, added %d", i, b.mr.Load64(0), a.mr.Load64(0))
		}
		if sum != want {
			return fmt.Sprintf("the sum is %d, not %d, and nobody is told", sum, want), nil
		}
		return "", nil
	},
}
