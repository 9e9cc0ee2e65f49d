//go:build linux && (amd64 || arm64)

package object

import (
	"slices"

	"github.com/nicless/nicless/internal/control"
)

const AloneShare = 8

// The patience of a shard is the number of idle visits after which a queue turns cold. With
// few warm queues a queue stays warm for almost a millisecond. With many warm queues the
// patience is lower, so that long warm lists shrink quickly.
const (
	MostIdleVisits  = 1 << 15 // the patience is this number divided by the number of warm queues
	leastIdleVisits = 1 << 6  // but at least this
)

const (
	// A shard with at most fewQueues queues keeps all of them warm: visiting so few queues
	// costs less than keeping warm and cold apart.
	fewQueues = 8

	// UnknownWord is the Watch.Word of a queue that can get work while its send record stays as
	// it is. No record has this value, so patrol examines the queue each time.
	UnknownWord = 1 << 32
)

// AddRunning adds q to its shard's running queues. If the shard has few running queues, q is
// warm from now on. AddRunning also makes room in every list to which a step appends, so that
// no step allocates.
func (sh *Shard) AddRunning(q *QP) {
	own := q.Client.Shard
	s := &q.Client.Sched
	q.Sched.RunningIndex, q.Sched.WatchIndex = int32(len(own.Running)), int32(len(s.Watches))
	own.Running = append(own.Running, q)
	s.Watches = append(s.Watches, Watch{Rec: q.SQ.Record, Q: q, Num: q.Num, Word: UnknownWord})
	own.Sched.Watchers.Add(q.Client)
	s.Stalled = slices.Grow(s.Stalled, len(s.Watches)-len(s.Stalled))
	q.Client.Sched.Warm = slices.Grow(q.Client.Sched.Warm, len(q.Client.QPs)-len(q.Client.Sched.Warm))
	own.Sched.Active = slices.Grow(own.Sched.Active, max(len(own.Clients)-len(own.Sched.Active), 0))
	if own.Several {
		own.Postponed = slices.Grow(own.Postponed, len(own.Running))
		own.Visiting = slices.Grow(own.Visiting, len(own.Running))
	}
	if len(own.Running) <= own.Sched.Few {
		own.MarkWarm(q)
	}
}

// IsRunning reports whether q is among the running queues of this shard. A queue in RST
// is not.
func (sh *Shard) IsRunning(q *QP) bool {
	return int(q.Sched.RunningIndex) < len(sh.Running) && sh.Running[q.Sched.RunningIndex] == q
}

// RemoveRunning removes q from the running queues and moves the last running queue to the
// place of q. Patrol goes from the last queue to the first, so it does not miss the queue
// that was moved.
func (sh *Shard) RemoveRunning(q *QP) {
	own := q.Client.Shard
	if !own.IsRunning(q) {
		return
	}
	own.UnmarkWarm(q)
	s := &q.Client.Sched
	end := len(s.Watches) - 1
	s.Watches[q.Sched.WatchIndex] = s.Watches[end]
	s.Watches[q.Sched.WatchIndex].Q.Sched.WatchIndex = q.Sched.WatchIndex
	s.Watches[end], s.Watches = Watch{}, s.Watches[:end]
	if end == 0 {
		own.Sched.Watchers.Remove(q.Client)
	}
	last := len(own.Running) - 1
	own.Running[q.Sched.RunningIndex] = own.Running[last]
	own.Running[q.Sched.RunningIndex].Sched.RunningIndex = q.Sched.RunningIndex
	own.Running[last], own.Running = nil, own.Running[:last]
	if own.Sched.Unswept > 0 {
		// Sweep (execution/overrun_sweep.go) may not have checked the moved queue yet.
		own.Sched.Unswept = last
	}
}

// MarkWarm puts q on its client's warm list, because it has work or may have.
func (sh *Shard) MarkWarm(q *QP) {
	c := q.Client
	own := c.Shard
	if own != sh {
		own.GotWork = true
	}
	q.Sched.IdleVisits = 0
	if q.Sched.Warm != 0 || !own.IsRunning(q) {
		return
	}
	c.Sched.Warm = append(c.Sched.Warm, q)
	q.Sched.Warm = int32(len(c.Sched.Warm))
	c.Sched.Watches[q.Sched.WatchIndex].Rec = nil
	if !c.Sched.Active {
		c.Sched.Active = true
		own.Sched.Active = append(own.Sched.Active, c)
	}
	own.countWarm(1)
}

// UnmarkWarm removes q from its client's warm list and moves the last queue of the list to
// the place of q. If q was next to be visited, the moved queue is visited next.
func (sh *Shard) UnmarkWarm(q *QP) {
	if q.Sched.Warm == 0 {
		return
	}
	c, at := q.Client, int(q.Sched.Warm)-1
	last := len(c.Sched.Warm) - 1
	c.Sched.Warm[at] = c.Sched.Warm[last]
	c.Sched.Warm[at].Sched.Warm = q.Sched.Warm
	c.Sched.Warm[last], c.Sched.Warm = nil, c.Sched.Warm[:last]
	q.Sched.Warm = 0
	if c.Sched.Next == at+1 {
		c.Sched.Next = at
	}
	if c.Sched.Next >= last {
		c.Sched.Next = 0
	}
	sh.countWarm(-1)
}

// countWarm changes the number of warm queues by more, which can be negative, and sets the
// patience accordingly.
func (sh *Shard) countWarm(more int) {
	sh.Sched.Warm += more
	sh.Sched.Patience = uint32(max(MostIdleVisits/max(sh.Sched.Warm, 1), leastIdleVisits))
}

// Flushes reports whether q is in a state in which its WQEs, and perhaps its receives, are
// flushed.
func (q *QP) Flushes() bool {
	return q.Attr.State == control.StateERR || q.Attr.State == control.StateSQE
}
