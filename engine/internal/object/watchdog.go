//go:build linux && (amd64 || arm64)

package object

import (
	"fmt"
	"log/slog"
	"slices"
)

// Stuck returns where threads of the engine are stuck, as the watchdog's last check found
// it. Safe for concurrent use.
func (e *Device) Stuck() []Stuck {
	e.Watchdog.Mu.Lock()
	defer e.Watchdog.Mu.Unlock()
	return slices.Clone(e.Watchdog.Stuck)
}

func (o *queueOwners) Put(at uint64, client string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queues == nil {
		o.queues = make(map[uint64]owner)
	}
	o.queues[at] = owner{client: client}
}

// Connect records the peer of a queue pair.
func (o *queueOwners) Connect(at uint64, peer uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queues[at]
	q.peer = peer
	o.queues[at] = q
}

func (o *queueOwners) Drop(at uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.queues, at)
}

// Find returns the client of a queue, and the client of its peer.
func (o *queueOwners) Find(at uint64) (s Stuck) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q, ok := o.queues[at]
	if !ok {
		return s
	}
	s.Client, s.Queue, s.CQ = q.client, uint32(at), at&TouchedCQ != 0
	if p, ok := o.queues[uint64(q.peer)]; ok && !s.CQ && q.peer != 0 && uint64(q.peer) != at {
		s.Peer, s.PeerQueue = p.client, q.peer
	}
	return s
}

func (s *Stuck) Attrs() (list []any) {
	if s.Client != "" {
		list = append(list, slog.String("client", s.Client))
	}
	switch {
	case s.Request != "":
		list = append(list, slog.String("request", s.Request))
	case s.CQ:
		list = append(list, slog.String("cq", fmt.Sprintf("%#06x", s.Queue)))
	case s.Client != "":
		list = append(list, slog.String("queue", fmt.Sprintf("%#06x", s.Queue)))
	}
	if s.Peer != "" {
		list = append(list, slog.String("peer", s.Peer),
			slog.String("peer_queue", fmt.Sprintf("%#06x", s.PeerQueue)))
	}
	if s.Thread != "" {
		list = append(list, slog.String("thread", s.Thread))
	}
	return list
}
