package main

import (
	"fmt"
	"time"

	"github.com/nicless/nicless"
)

// A cache fetches a block by READ into a chunk of a pool. When the fetch takes too long, it
// gives the chunk back to the pool, and the pool gives the chunk to somebody else. The READ is
// still under way, and the pool is still registered.
var pegaflow403 = incident{
	name:  "pegaflow-403",
	link:  "https://github.com/novitalabs/pegaflow/issues/403",
	title: "a READ that is given up as late still writes, into memory that has a new owner",
	play: func(s *stage) (string, error) {
		a, b, err := s.pair(nicless.Connection{})
		if err != nil {
			return "", err
		}
		const block, new = 0xb10c, 0x0e3
		b.mr.Store64(0, block)
		if err := a.post(1, nicless.Read, b, 0, 8); err != nil {
			return "", err
		}
		_, ok, err := a.poll(patience)
		if err != nil || ok {
			s.print("fetched block 0x%x", a.mr.Load64(0))
			return "", err
		}
		s.print("timeout: the chunk goes back to the pool; its new owner stores 0x%x", new)
		a.mr.Store64(0, new)

		if _, ok, err = a.poll(20 * time.Second); err != nil || !ok {
			return "", fmt.Errorf("no completion of the READ: %v", err)
		}
		if got := a.mr.Load64(0); got != new {
			return fmt.Sprintf("the new owner finds 0x%x", got), nil
		}
		return "", nil
	},
}
