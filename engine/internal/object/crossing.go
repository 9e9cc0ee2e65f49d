//go:build linux && (amd64 || arm64)

package object

import "time"

// Several shards share the device. The objects of a client may be touched only under the
// ticket lock of its shard. The shard's thread holds this lock during each step. A work
// request whose peer belongs to another shard is a crossing: it also needs the other
// shard's ticket lock. The queue of a crossing is postponed to the end of the step, and is
// then visited with both locks held.
//
// The tables of the device are read by all shards. Only control requests change them, and
// control requests are served while all ticket locks are held. A work request that changes
// a key is executed under the lock of the shard to which the key's client belongs.
//
// A thread that holds a ticket lock does not wait for the lock of a shard with a lower
// number. So threads cannot deadlock.

// CrossPatience is how long a shard continues with its own work while it finds the other
// shard's lock taken. After that time the shard waits for the lock. CrossPause is the time
// between two tries of a queue that waits for a peer in another shard; each try delays the
// other shard. CrossVisits is how many queues are visited before the other shard's lock is
// released for a moment.
const (
	CrossPatience = 5 * time.Microsecond
	CrossPause    = 2 * time.Microsecond
	CrossVisits   = 4
)

// TryLock takes the ticket lock of the shard if it is free.
func (sh *Shard) TryLock() bool { return sh.Ticket.TryLock() }

// Release gives the shard's ticket lock back, which Reporter.Acquire has taken.
func (sh *Shard) Release() {
	if sh.Several {
		sh.Acquired = false
		sh.Ticket.Unlock()
	}
}

// Holds reports whether this shard may touch the objects of m's clients.
func (sh *Shard) Holds(m *Shard) bool { return m == sh || m == sh.PeerShard || sh.Stopped }

// Postpone postpones the visit of q to the end of the step. The visit is then made under
// the lock of m too.
func (sh *Shard) Postpone(q *QP, m *Shard) {
	q.Sched.With = m
	if !q.Postponed {
		q.Postponed = true
		sh.Postponed = append(sh.Postponed, q)
	}
}

// Wake wakes the shard's thread if it sleeps.
func (sh *Shard) Wake() {
	if sh.Asleep.Load() {
		if s := sh.Sleeper.Load(); s != nil {
			s.Wake()
		}
	}
}

// pause takes the ticket locks of all shards, so that no shard works while a control
// request is served.
func (e *Device) pause() {
	if len(e.Shards) > 1 {
		for _, sh := range e.Shards {
			sh.Ticket.Lock()
		}
	}
	e.Stopped = true
	e.Served++
}

// unpause gives the ticket locks back.
func (e *Device) unpause() {
	e.Stopped = false
	if len(e.Shards) > 1 {
		for _, sh := range e.Shards {
			sh.Ticket.Unlock()
			sh.Wake() // the request may have made work for it
		}
	}
}

// CrossLook is among how many stalled queues crossesShards searches. With more, it returns true.
const CrossLook = 256
