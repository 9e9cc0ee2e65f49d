//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A Watcher records what some clients do, for one client to read.
type Watcher struct {
	Owner   *Client     // who reads
	Rings   *shm.Region // a ring for each shard
	Size    int         // bytes of a ring
	Replay  bool        // records what a replay needs, too
	All     bool        // which clients: all that the owner may see,
	PID     int         // those of a process,
	Program string      // those of processes of this name,
	QP      *QP         // or one queue pair
}

// SetAside is called when q has come onto a wire or has left it, and when its watches or faults have changed.
func (q *QP) SetAside() {
	more := q.Watched != 0 || q.Faults != nil || q.Source != nil
	q.Aside, q.OnlyWire = q.Wire != nil || more, q.Wire != nil && !more
	q.FastPath = !q.Signed && q.Transport < control.QPTypeUD && q.Faults == nil && q.Replayable() == 0
	if w := q.Wire; w != nil && w.Watched != (q.Watched != 0 || q.Faults.OnPackets()) {
		w.Watched = !w.Watched
		w.Port.Watched += sign(w.Watched)
	}
}

// Replayable returns the watches that record what a replay of q needs.
func (q *QP) Replayable() uint32 { return q.Watched & q.Client.Device.WatchesReplay }

func sign(more bool) int {
	if more {
		return 1
	}
	return -1
}

// setWatched says which watches record what q does.
func (q *QP) setWatched(mask uint32) {
	if watched := mask != 0; q.Transport == control.QPTypeUD && watched != (q.Watched != 0) {
		q.Client.Device.DatagramsSeen += sign(watched)
	}
	q.Watched = mask
	q.SetAside()
}

// Watch adds the watches of a mask to q, to its completion queues and to its client.
func (q *QP) Watch(mask uint32) {
	q.setWatched(q.Watched | mask)
	q.Client.Watched |= mask
	for _, c := range [...]*CQ{q.SQ.CQ, q.RQ.CQ} {
		if c != nil {
			c.SetWatched(c.Watched | mask)
		}
	}
}

// Unwatch takes watches away from q. Its completion queues are not changed.
func (q *QP) Unwatch(mask uint32) {
	q.setWatched(q.Watched &^ mask)
	if q.SQ.BlueFlame != nil {
		q.SQ.BlueFlame.Observe() // visits have not read the register while q was watched
	}
}

// SetWatched says which watches record the completions of q.
func (q *CQ) SetWatched(mask uint32) { q.Watched, q.Aside = mask, q.Collapsed || mask != 0 }
