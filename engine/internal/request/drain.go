//go:build linux && (amd64 || arm64)

package request

import (
	"maps"
	"runtime/debug"
	"slices"

	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
)

// Control requests and doorbells reach the device in different ways. Hardware has usually
// executed the work of earlier doorbells long before a request arrives. This device may be
// asleep then, or busy with other clients. Programs rely on the hardware's behaviour, so a
// server calls Drain before a request that ends or replaces a queue.

// mostVisits bounds how many visits Drain makes besides one visit to each queue pair.
const mostVisits = 1 << 12

// Drain executes the work that doorbells have announced when Drain is called, on this
// client's queue pairs and on queue pairs connected to them. It executes all of it that can
// be executed within a few thousand visits (see mostVisits). Other clients have their turns
// meanwhile.
func (c *Client) Drain() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Closed {
		return
	}
	var all []*object.QP
	c.do(mailbox.NoWork, "settle", func() { all = slices.Collect(maps.Values(c.QPs)) })
	var due []claim
	for some := range slices.Chunk(all, object.Portion) {
		c.do(mailbox.NoWork, "settle", func() { due = c.announced(due, some) })
	}
	for left := len(due) + mostVisits; left > 0 && len(due) > 0; {
		left -= min(len(due), object.Portion)
		c.do(mailbox.MakesWork, "settle", func() { due = c.drainSome(due) })
	}
}

// A claim is a queue pair whose announced work Drain has to execute.
type claim struct {
	q    *object.QP
	upTo uint64 // count of blocks that were announced when Drain was called
}

// announced adds claims to due, and returns the longer list: a claim for each queue pair in some, which are
// the client's, and a claim for each of their peers that belongs to another client.
func (c *Client) announced(due []claim, some []*object.QP) []claim {
	add := func(q *object.QP) {
		e := c.Device.Loops[q.Client.Shard.Number]
		panics := debug.SetPanicOnFault(true)
		defer e.RestoreFaultPoint(e.Fault.Cut, panics)
		defer e.RecoverFault()
		e.Fault.QP = q
		if e.IsRunning(q) {
			due = append(due, claim{q, announcedTo(e, q)})
		}
		e.Fault.QP = nil
	}
	for _, q := range some {
		add(q)
		if p := c.Device.BoundPeer(q); p != nil && p.Client != c.Client && p.Conn.Bound == q.Serial {
			add(p)
		}
	}
	return due
}

// drainSome visits the first object.Portion queue pairs in due, each once. It returns the claims of the queue
// pairs that it has not visited or that have more to execute.
func (c *Client) drainSome(due []claim) []claim {
	n := min(len(due), object.Portion)
	rest := due[n:]
	for _, d := range due[:n] {
		if drainOne(c.Device.Loops[d.q.Client.Shard.Number], d) {
			rest = append(rest, d)
		}
	}
	return rest
}

// drainOne visits the queue pair of d. more reports whether the queue pair has more announced work to
// execute.
func drainOne(sh *loop.Loop, d claim) (more bool) {
	panics := debug.SetPanicOnFault(true)
	defer sh.RestoreFaultPoint(sh.Fault.Cut, panics)
	defer sh.RecoverFault()
	q := d.q
	if !sh.IsRunning(q) {
		return false
	}
	sh.StepClock = 0
	if q.Stall.Kind != object.NoStall {
		sh.Try(q)
	}
	sh.Fault.QP = q
	if sh.HasWork(q) {
		sh.Visit(q)
		sh.MarkWarm(q)
		more = sh.IsRunning(q) && (int64(d.upTo-q.SQ.Done) > 0 || q.Flushes()) && sh.HasWork(q)
	}
	sh.Fault.QP = nil
	return more
}
