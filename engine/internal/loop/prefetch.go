//go:build linux && (amd64 || arm64)

package loop

import "github.com/nicless/nicless/engine/internal/object"

// A client with at least manyWarm warm queues has its next visits prefetched: the queue that comes after
// visitsAhead others. With few queues, the processor waits for the same lines only a little longer.
const (
	manyWarm    = 32
	visitsAhead = 4
)

// prefetchVisit fetches what a later visit reads first: the record and the next WQE of the queue that is
// visitsAhead after the queue next. As long as the poster has not written these lines again, they are in
// the cache of this core. So a fetch that is early takes no line from a poster that is about to write it.
func prefetchVisit(warm []*object.QP, next int) {
	next += visitsAhead
	if next >= len(warm) {
		next -= len(warm)
	}
	q := warm[next]
	q.SQ.Record.Prefetch()
	q.SQ.Blocks.Prefetch(q.SQ.Done, 1)
}
