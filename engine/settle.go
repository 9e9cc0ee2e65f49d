//go:build linux && (amd64 || arm64)

package engine

import (
	"maps"
	"runtime/debug"
	"slices"
)

// Control requests and doorbells reach the device in different ways. Hardware has usually
// executed the work of earlier doorbells long before a request arrives. This device may be
// asleep then, or busy with other clients. Programs rely on the hardware's behaviour, so a
// server calls Settle before a request that ends or replaces a queue.

// mostVisits bounds how many visits Settle makes besides one visit to each queue pair.
const mostVisits = 1 << 12

// Settle executes the work that doorbells have announced when Settle is called, on this
// client's queue pairs and on queue pairs connected to them. It executes all of it that can
// be executed within a few thousand visits (see mostVisits). Other clients have their turns
// meanwhile.
func (c *caller) Settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	var all []*qp
	c.do(noWork, "settle", func() { all = slices.Collect(maps.Values(c.qps)) })
	var due []claim
	for some := range slices.Chunk(all, portion) {
		c.do(noWork, "settle", func() { due = c.announced(due, some) })
	}
	for left := len(due) + mostVisits; left > 0 && len(due) > 0; {
		left -= min(len(due), portion)
		c.do(makesWork, "settle", func() { due = c.settleSome(due) })
	}
}

// A claim is a queue pair, and the block up to which it had announced work when Settle was
// called.
type claim struct {
	q    *qp
	upTo uint64 // count of blocks
}

// announced returns due with more claims: one for each queue pair in some, all of which are
// the client's, and one for each of their peers that belong to other clients.
func (c *caller) announced(due []claim, some []*qp) []claim {
	add := func(q *qp) {
		e := c.r.loops[q.client.shard.number]
		defer e.restoreFaultPoint(e.fault.cut, debug.SetPanicOnFault(true))
		defer e.recoverFault()
		if e.fault.qp = q; e.isRunning(q) {
			due = append(due, claim{q, q.sq.done + uint64(e.pending(q))})
		}
		e.fault.qp = nil
	}
	for _, q := range some {
		add(q)
		if p := c.e.boundPeer(q); p != nil && p.client != c.client && p.conn.bound == q.serial {
			add(p)
		}
	}
	return due
}

// settleSome visits the first queue pairs in due, each once and at most as many as the
// constant portion says. It returns the claims of the queue pairs that it has not visited, and
// of those that have more to execute.
func (c *caller) settleSome(due []claim) []claim {
	n := min(len(due), portion)
	rest := due[n:]
	for _, d := range due[:n] {
		if settleOne(c.r.loops[d.q.client.shard.number], d) {
			rest = append(rest, d)
		}
	}
	return rest
}

// settleOne visits the queue pair of d, and reports whether it has more to execute.
func settleOne(sh *threadLoop, d claim) (more bool) {
	defer sh.restoreFaultPoint(sh.fault.cut, debug.SetPanicOnFault(true))
	defer sh.recoverFault()
	q := d.q
	if !sh.isRunning(q) {
		return false
	}
	sh.ticks = 0
	if q.stall.kind != noStall {
		sh.try(q)
	}
	if sh.fault.qp = q; sh.hasWork(q) {
		sh.visit(q)
		sh.markWarm(q)
		more = sh.isRunning(q) && (int64(d.upTo-q.sq.done) > 0 || q.flushes()) && sh.hasWork(q)
	}
	sh.fault.qp = nil
	return more
}

// restoreFaultPoint restores two things that Settle, which runs between two steps, may have
// changed. cut says where the next step begins; a fault of memory during Settle must not
// change that. panics says whether faults of memory are panics on this thread.
func (sh *threadLoop) restoreFaultPoint(cut part, panics bool) {
	sh.fault.cut = cut
	debug.SetPanicOnFault(panics)
}
