package engine

import (
	"github.com/nicless/nicless/engine/internal/closers"
	"github.com/nicless/nicless/internal/nic"
)

// Bound is of nic.Probe, as are the others: tests of servers use them.
func (d nicDevice) Bound(b nic.Bounds) {
	s := d.shares
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

func (d nicDevice) Held() (h nic.Holdings) {
	d.shares.mu.Lock()
	t := d.shares.taken
	d.shares.mu.Unlock()
	h.Cost = nic.Cost{Memory: t[memory], Descriptors: t[descriptors], Connections: t[connections], Unread: t[unread]}
	h.Other = t != billOf(h.Cost)
	h.Closing = d.discarded.connections.Waiting()
	d.Do(func() {
		for _, sh := range d.shards {
			for c := range sh.clients {
				h.Clients = append(h.Clients, c.name)
			}
			h.Objects += len(sh.running)
		}
		h.Objects += len(d.qps) + len(d.cqs) + len(d.srqs) + d.keys.used
	})
	return h
}

func (d nicDevice) NextSpan() { d.spoken.EndPeriod() }

func (d nicDevice) StickClosers(uid uint32) (release func()) {
	stuck := make(chan struct{})
	for range closers.Each {
		d.discarded.connections.Add(d.shares.payer(uid), func() { <-stuck })
	}
	return func() { close(stuck) }
}
