package engine

import (
	"maps"
	"runtime/debug"
	"slices"
)

// A control request comes by another way than doorbells do. Hardware has long
// executed what was rung before it; this device may be asleep, or at work for
// others. So a request that ends or replaces a queue, passed on for a program that
// counts on that, comes after Settle.

// mostVisits bounds how long that takes, beside a visit to each queue pair.
const mostVisits = 1 << 12

// Settle executes what the doorbells of this client's queue pairs, and of those
// connected to them, announce when it is called: all of it that can be executed,
// short of what takes thousands of visits. Others have their turns meanwhile.
func (c *Client) Settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	var all []*qp
	c.do("settle", func() { all = slices.Collect(maps.Values(c.qps)) })
	var due []claim
	for some := range slices.Chunk(all, portion) {
		c.do("settle", func() { due = c.announced(due, some) })
	}
	for left := len(due) + mostVisits; left > 0 && len(due) > 0; {
		left -= min(len(due), portion)
		c.do("settle", func() { due = settleSome(due) })
	}
}

// A claim is how far a queue pair has been rung.
type claim struct {
	q    *qp
	upTo uint64 // blocks
}

// announced adds what is to be settled of some of the client's queue pairs, and of
// their peers.
func (c *Client) announced(due []claim, some []*qp) []claim {
	add := func(q *qp) {
		e := q.client.shard
		defer e.between(e.fault.cut, debug.SetPanicOnFault(true))
		defer e.rescue()
		if e.fault.qp = q; e.isRunning(q) {
			due = append(due, claim{q, q.sq.done + uint64(e.pending(q))})
		}
		e.fault.qp = nil
	}
	for _, q := range some {
		add(q)
		if p := c.e.boundPeer(q); p != nil && p.client != c && p.conn.bound == q.serial {
			add(p)
		}
	}
	return due
}

// settleSome visits a portion of the queue pairs once each. It returns the others,
// and those that have something left that can be executed.
func settleSome(due []claim) []claim {
	n := min(len(due), portion)
	rest := due[n:]
	for _, d := range due[:n] {
		if d.q.client.shard.settleOne(d) {
			rest = append(rest, d)
		}
	}
	return rest
}

func (sh *shard) settleOne(d claim) (more bool) {
	defer sh.between(sh.fault.cut, debug.SetPanicOnFault(true))
	defer sh.rescue()
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

// between restores what a fault of memory between two steps must not change.
func (sh *shard) between(cut part, panics bool) {
	sh.fault.cut = cut
	debug.SetPanicOnFault(panics)
}
