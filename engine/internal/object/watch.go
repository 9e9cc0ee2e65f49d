//go:build linux && (amd64 || arm64)

package object

import "github.com/nicless/nicless/internal/shm"

// A Watcher records what some clients do, for one client to read.
type Watcher struct {
	Owner   *Client     // who reads
	Rings   *shm.Region // a ring for each shard
	Size    int         // bytes of a ring
	All     bool        // which clients: all that the owner may see,
	PID     int         // those of a process,
	Program string      // those of processes of this name,
	QP      *QP         // or one queue pair
}

// SetAside is called when q comes onto a wire or leaves it, and when its watches change.
func (q *QP) SetAside() { q.Aside = q.Wire != nil || q.Watched != 0 }

// Watch adds the watches of a mask to q, to its completion queues and to its client.
func (q *QP) Watch(mask uint32) {
	q.Watched |= mask
	q.Client.Watched |= mask
	for _, c := range [...]*CQ{q.SQ.CQ, q.RQ.CQ} {
		if c != nil {
			c.SetWatched(c.Watched | mask)
		}
	}
	q.SetAside()
}

// Unwatch takes watches away from q. Its completion queues are not changed.
func (q *QP) Unwatch(mask uint32) {
	q.Watched &^= mask
	if q.SQ.BlueFlame != nil {
		q.SQ.BlueFlame.Observe() // visits have not read the register while q was watched
	}
	q.SetAside()
}

// SetWatched says which watches record the completions of q.
func (q *CQ) SetWatched(mask uint32) { q.Watched, q.Aside = mask, q.Collapsed || mask != 0 }
