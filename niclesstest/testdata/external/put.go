// Package put stores bytes in the memory of a peer.
package put

import (
	"context"
	"fmt"

	"github.com/nicless/nicless"
)

// Put writes the first n bytes of from to an address of the peer of q, and waits until they are there.
func Put(ctx context.Context, q *nicless.QP, cq *nicless.CQ, from *nicless.MR, n int, addr uint64, rkey uint32) error {
	err := q.PostSend(&nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, SGE: []nicless.SGE{from.SGE(0, n)},
		RemoteAddr: addr, RKey: rkey})
	if err != nil {
		return fmt.Errorf("put %d bytes: %w", n, err)
	}
	var done [1]nicless.Completion
	if _, err := cq.Wait(ctx, done[:]); err != nil {
		return fmt.Errorf("put %d bytes: %w", n, err)
	}
	if err := done[0].Err(); err != nil {
		return fmt.Errorf("put %d bytes: %w", n, err)
	}
	return nil
}
