//go:build linux && (amd64 || arm64)

package execution

import (
	"time"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/inject"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/order"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// An order rule has the bytes of a queue written piece by piece, in an order that package order draws. The
// WQEs of a window are checked, in their order, before the first piece of any is moved. q.Job is the job of
// the first one, and the others follow by Job.Next. Between visits the lists of such jobs are at their
// beginning, and Moved is 0: if the rule ends, a job is moved in its order, from its first byte. Completions
// are written in order.
//
// If a WQE behind the first one can no longer be executed as it was checked, it and all behind it leave the
// window. They are checked again when it is their turn, so errors are reported as without the rule.

const (
	// OrderPause is how long the queue waits where others are to see what is there, and before a window, so
	// that WQEs that are posted one by one come into the same window. A program that polls memory takes less
	// than a microsecond to see a change; 20 also suffice if it does something else between two polls, or
	// posts a flag after its payload with a doorbell for each. A message has 3 pauses on average.
	OrderPause = 20 * time.Microsecond

	// LongOrderPause is how long one pause in 16 is: a tick of the kernel's clock. Programs that share a core
	// with the device, or the cores of a busy machine, run between two ticks or not at all. All pauses of
	// a message take 0.8 ms on average.
	LongOrderPause = 4 * time.Millisecond
)

// orders returns the order of bytes that is in force for q, or nil. A datagram is moved in one visit (see
// DatagramBudget), and nobody is told of a receive's memory before its completion, so rules leave them alone.
func (sh *queues) orders(q *object.QP) *inject.Order {
	o := q.Faults.Order
	if o == nil || !o.Begun(sh.Now()) {
		return nil
	}
	if q.Wire != nil || q.Transport == control.QPTypeUD {
		if !o.Refused {
			o.Refused = true
			sh.ExplainQueue(q, codes.FaultInjected, "rule %v does nothing here: datagrams, and packets over links, are "+
				"written in the order in which they come", o.Rule)
		}
		return nil
	}
	return o
}

// awaitFollowers makes q pause before it begins a WRITE or READ, so that later ones can be announced.
func (sh *Executor) awaitFollowers(q *object.QP) object.Verdict {
	o := sh.orders(q)
	if o == nil || o.Waited == q.SQ.Done+1 ||
		!passes(object.ParseHead((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:])).Opcode()) {
		return object.Accepted
	}
	o.Waited = q.SQ.Done + 1
	sh.pause(q, o, OrderPause)
	return object.Waiting
}

// passes reports whether WQEs of an opcode may be in a window together.
func passes(op wqe.Opcode) bool { return op == wqe.OpRDMAWrite || op == wqe.OpRDMARead }

// pause makes others see what is visible so far.
func (sh *queues) pause(q *object.QP, o *inject.Order, d time.Duration) {
	o.Pausing = true
	now := sh.Now()
	sh.StallFor(q, object.Stall{Kind: object.Held, Since: now, Deadline: now + clock.Cycles(d)})
}

// beginOrder begins a window with the WQE that has been checked, in the scratch job, and with WQEs behind it.
// n blocks are announced. It reports whether it has: other WQEs are executed as without the rule.
func (sh *Executor) beginOrder(q *object.QP, n uint16) bool {
	j := sh.Scratch.Job
	info := j.Head.Opcode().Info()
	moves := !info.Atomic() && (info.Remote != 0 || info.Receive())
	if q.Faults.Acts || !moves || j.Carries || j.Total == 0 {
		return false
	}
	o := sh.orders(q)
	if o == nil {
		return false
	}
	o.Window.Clear()
	sh.KeepJob(q)
	o.Window.Add(describe(q, j), sh.cut(j))
	if passes(j.Head.Opcode()) && q.HasPeer() && !q.Faults.Acting() {
		sh.addFollowers(q, o, n)
	}
	return true
}

// addFollowers adds to the window of q the WQEs behind its first one that may pass others. Rules that act on
// single WQEs have to see each at the head of the queue, so with those rules no WQE is added.
func (sh *Executor) addFollowers(q *object.QP, o *inject.Order, n uint16) {
	head := q.SQ.Done
	defer func() { q.SQ.Done = head }()
	last := q.Job
	for at := last.Blocks; at < int(n); at += last.Blocks {
		q.SQ.Done = head + uint64(at)
		if !sh.checkAhead(q, n-uint16(at)) {
			return
		}
		b := describe(q, sh.Scratch.Job)
		if !o.Window.Joins(&b, &sh.Windows) {
			return
		}
		last.Next = sh.DetachJob()
		last = last.Next
		last.Life = last.Peer.Life
		o.Window.Add(b, sh.cut(last))
	}
}

// checkAhead checks a WQE before those in front of it have ended, and reports whether it is a WRITE or READ
// that can be executed. If it has a mistake, nothing of that shows.
func (sh *Executor) checkAhead(q *object.QP, n uint16) bool {
	sh.Snapshot(q)
	if !passes(object.ParseHead((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:])).Opcode()) {
		return false
	}
	sh.Trial = true
	v := sh.Check(q, n)
	sh.Trial = false
	j := sh.Scratch.Job
	return v == object.Accepted && j.Total > 0 && !j.Carries
}

// describe returns what package order needs of the WQE of j, which is at q.SQ.Done.
func describe(q *object.QP, j *object.Job) order.WQE {
	info := j.Head.Opcode().Info()
	fence := j.Head.Second.Flags() & wqe.FenceMask
	w := order.WQE{Index: uint16(q.SQ.Done), Opcode: uint8(j.Head.Opcode()), Reads: info.Reads,
		Alone: info.Receive(), Fenced: fence == wqe.FenceReads || fence == wqe.FenceVerbs,
		Strong: fence == wqe.FenceStrong || fence > wqe.FenceVerbs, Relaxed: true}
	for i := range j.Dst.N {
		w.Relaxed = w.Relaxed && relaxed(j.Dst.Piece[i].Key)
	}
	return w
}

// relaxed reports whether memory was registered with relaxed ordering. That of a list or of a null key
// was not.
func relaxed(k *object.Mkey) bool {
	if k != nil && k.Window != nil {
		k = k.Window.Parent
	}
	return k != nil && k.Access&control.AccessRelaxedOrdering != 0
}

// cut cuts the bytes of j into pieces. It allocates, as queues with rules may.
func (sh *mover) cut(j *object.Job) (list []order.Piece) {
	size := (j.Total/order.Pieces + order.CacheLine - 1) &^ (order.CacheLine - 1)
	size = max(size, order.CacheLine)
	for at := uint64(0); at < j.Total; {
		to, from := j.Dst.Peek(j.Total-at), j.Src.Peek(j.Total-at)
		p := order.Piece{Begin: at, To: rangeOf(to), From: rangeOf(from)}
		p.N = min(to.N, from.N, size-p.To.Begin%order.CacheLine)
		p.To.N, p.From.N = p.N, p.N
		if len(list) == 2*order.Pieces { // the bytes are scattered; the rest stays in order
			p.N, p.Blind = j.Total-at, true
		}
		list = append(list, p)
		at += p.N
		j.Dst.Skip(p.N)
		j.Src.Skip(p.N)
	}
	j.Rewind()
	sh.Sched.Effort += len(list) * object.PieceCost
	return list
}

func rangeOf(s object.Stretch) order.Range {
	if s.Process != nil {
		return order.Range{Space: s.Process, Begin: s.Addr, N: s.N}
	}
	return order.Range{Begin: s.Address(), N: s.N}
}

// leaveOrder takes the WQEs from a place on out of the window of q. The place is at least 1: WQEs behind the
// first one.
func (sh *mover) leaveOrder(q *object.QP, place int) {
	q.Faults.Order.Window.Cut(place)
	last := q.Job
	for range place - 1 {
		last = last.Next
	}
	sh.freeAfter(last)
}

// freeAfter frees the jobs of a window behind that of last. No spare jobs: nobody pays for them.
func (sh *mover) freeAfter(last *object.Job) {
	for j := last.Next; j != nil; {
		next := j.Next
		j.Next = nil
		sh.ReturnReceive(j)
		j = next
	}
	last.Next = nil
}

// endOrder forgets the window of q, if it has one, whose first WQE is that of q.Job.
func (sh *mover) endOrder(q *object.QP) {
	sh.freeAfter(q.Job)
	if f := q.Faults; f != nil && f.Order != nil {
		f.Order.Window.Clear()
		f.Order.Pausing = false
	}
}

// blamesFollower reports whether a fault of memory happened at bytes of a WQE that is not the first one of
// the window of q. The WQE leaves the window, and faults again when it is the first one.
func (sh *mover) blamesFollower(q *object.QP) bool {
	f := q.Faults
	if f == nil || f.Order == nil || !f.Order.Window.Active() || f.Order.Window.First() {
		return false
	}
	_, place := f.Order.Window.Next()
	sh.leaveOrder(q, place)
	return true
}

// moveInOrder moves the next piece of the window of q, or as much of it as the budget allows, and completes
// the WQEs all of whose bytes are there. The first WQE may be executed as it was checked.
func (sh *Executor) moveInOrder(q *object.QP, budget int) (used int) {
	o := q.Faults.Order
	w := &o.Window
	o.Pausing = false
	p, place := w.Next()
	j := q.Job
	for range place {
		j = j.Next
	}
	if place > 0 && (hasChanged(j) || !sh.KeysUnchanged(j)) {
		sh.leaveOrder(q, place)
		return object.PieceCost
	}
	n := min(p.N-w.Moved, uint64(max(budget, Indivisible)))
	if j.Src.Unmapped || j.Dst.Unmapped {
		n = min(n, UnmappedBytes)
	}
	begin := p.Begin + w.Moved
	j.Moved = begin
	j.Src.Skip(begin)
	j.Dst.Skip(begin)
	sh.Sched.Effort = 0
	if !sh.Transfer(j, n) {
		return sh.unreachableInOrder(q, j, place)
	}
	used = int(n) + sh.Sched.Effort
	j.Rewind()
	w.Moved += n
	if w.Moved < p.N {
		return used
	}
	for _, x := range w.Done() {
		used += sh.explainPass(q, j, &x)
	}
	for w.Ends() {
		head := q.Job
		if !sh.Finish(q, head) {
			sh.EndJob(q)
			return used
		}
		q.Job, head.Next = head.Next, nil
		if q.Job == nil {
			sh.FreeJob(head)
		}
	}
	switch {
	case q.Job == nil:
		w.Clear()
		if q.Attr.State == control.StateSQD {
			sh.NotifyDrained(q)
		}
	case q.Attr.State == control.StateRTS:
		if now, long := w.Pauses(); long {
			sh.pause(q, o, LongOrderPause)
		} else if now {
			sh.pause(q, o, OrderPause)
		}
	}
	return used
}

// unreachableInOrder acts on memory of the WQE at a place in the window of q that cannot be reached.
func (sh *Executor) unreachableInOrder(q *object.QP, j *object.Job, place int) (used int) {
	if place > 0 {
		sh.leaveOrder(q, place)
		return CallCost
	}
	sh.endOrder(q)
	if sh.Unreachable(q, j, sh.Scratch.Gap) == object.Lost {
		sh.Finish(q, j)
		sh.EndJob(q)
	}
	return CallCost
}

// explainPass explains that bytes of j became visible against their order: to the client of q and, if they
// are not in its memory, to their owner.
func (sh *Executor) explainPass(q *object.QP, j *object.Job, x *order.Pass) (used int) {
	o := q.Faults.Order
	o.Rules.Act(o.Place)
	b := o.Window.WQE(&x.Piece)
	format, args := o.Explain(x)
	sh.Sched.Effort = 0
	sh.NewFault()
	sh.ExplainSubject(report.Subject{Client: q.Client, Number: q.Num, Index: b.Index}, codes.FaultInjected,
		format, args)
	if p := j.Peer; !b.Reads && p.Client != q.Client {
		sh.ExplainSubject(report.Subject{Client: p.Client, Number: p.Num, Index: uint16(p.SQ.Done)},
			codes.FaultInjected, "request of QP %#06x: "+format, append([]any{q.Num}, args...))
	}
	sh.NewFault() // no error completion is because of that
	used, sh.Sched.Effort = sh.Sched.Effort, 0
	return used
}
