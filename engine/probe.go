package engine

import (
	"time"

	"github.com/nicless/nicless/engine/internal/closers"
	"github.com/nicless/nicless/internal/nic"
)

// Bound is of nic.Probe, as are the others: tests of servers use them.
func (a access) Bound(b nic.Bounds) {
	s := a.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	for g, n := range map[goods]int{descriptors: b.Descriptors, connections: b.Connections, addresses: b.Addresses, unread: b.Unread} {
		if n != 0 {
			s.most[g] = n
		}
	}
	if b.Subuid != "" {
		s.owners.subuid, s.owners.passwd = b.Subuid, b.Passwd
	}
}

func (a access) Held() (h nic.Holdings) {
	a.shares.mu.Lock()
	t := a.shares.taken
	a.shares.mu.Unlock()
	h.Cost = nic.Cost{Memory: t[memory], Descriptors: t[descriptors], Connections: t[connections], Unread: t[unread]}
	h.Other = t != billOf(h.Cost)
	h.Closing = a.discarded.connections.Waiting()
	a.Do(func() {
		for _, sh := range a.shards {
			for c := range sh.clients {
				h.Clients = append(h.Clients, c.name)
			}
			h.Objects += len(sh.running)
		}
		h.Objects += len(a.qps) + len(a.cqs) + len(a.srqs) + a.keys.used
	})
	return h
}

func (a access) NextSpan() {
	l := a.spoken
	l.mu.Lock()
	defer l.mu.Unlock()
	past, span := l.past, l.span
	l.past = func() time.Duration { return past() + span }
}

func (a access) StickClosers(uid uint32) (release func()) {
	stuck := make(chan struct{})
	for range closers.Each {
		a.discarded.connections.Add(a.shares.payer(uid), func() { <-stuck })
	}
	return func() { close(stuck) }
}
