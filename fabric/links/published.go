//go:build linux && (amd64 || arm64)

package links

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/summary"
)

// Over a pool, engines do not ask each other what they do: each writes it into its part of the pool when
// another one looks, and all are read at once, without rings. Only names of programs, for which there is no
// room, are asked for.

// lookTime is how long a look at the summaries of a pool waits for nodes: those of 1,024 see it after 160 ms
// at most.
const lookTime = 700 * time.Millisecond

// A summarizer is a link whose engines write down what they do.
type summarizer interface {
	SetSummary(f func() string)
	Summaries(ctx context.Context, d time.Duration) map[uint64]string
}

// published returns the part of this engine's summary with the figures, as other engines may know it.
func (a *answerer) published(t *Table) string {
	if a.disclose == DiscloseNothing {
		return summary.Silent(0)
	}
	s, generation, err := a.summary(t)
	if err != nil {
		return ""
	}
	if a.disclose != DisclosePrograms {
		s = withoutPrograms(s)
	}
	return summary.Put(s, generation, 0, 0)
}

// lookAtPools reads the summaries of all targets that are nodes of pools.
func (t *Table) lookAtPools(ctx context.Context, list []target) {
	var all sync.WaitGroup
	for _, l := range t.current.Load().links {
		pool, ok := l.(summarizer)
		if !ok {
			continue
		}
		all.Go(func() {
			values := pool.Summaries(ctx, lookTime)
			for i := range list {
				if to := &list[i]; to.Link == l.Name() {
					to.take(values)
				}
			}
		})
	}
	all.Wait()
	limitOpening(list)
}

// take notes what an engine has written, or why there is nothing. It reports an engine that cannot be right
// as one that gives no answer.
func (to *target) take(values map[uint64]string) {
	to.known = true
	if !to.Up {
		return
	}
	value, ok := values[to.q.device]
	if !ok {
		to.Why = fmt.Sprintf("no answer in %v: it stands still, has ended, or is no engine that gives summaries", lookTime)
		return
	}
	h, body, err := summary.Parse(value)
	if err == nil {
		err = to.c.Add(h, body)
	}
	to.Summary = to.c.Summary
	if err != nil {
		to.Why = err.Error()
		return
	}
	_, more := to.c.Next()
	to.known = !more
}

// limitOpening chooses the nodes without rings that are asked for the rest of their programs.
func limitOpening(list []target) {
	opened := make(map[string]int) // by link
	for i := range list {
		to := &list[i]
		if to.known || !to.closed {
			continue
		}
		opened[to.Link]++
		if opened[to.Link] > queryOpens {
			to.known = true
			to.Why = fmt.Sprintf("it has no rings with this node, and a survey opens rings to %d nodes at most", queryOpens)
		}
	}
}
