//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/engine/internal/closers"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/nic"
)

// Bound and the methods after it implement nic.Probe, which tests of servers use.
func (d nicDevice) Bound(b nic.Bounds) {
	for r, n := range map[quota.Resource]int{quota.Descriptors: b.Descriptors, quota.Connections: b.Connections, quota.AddressSpace: b.Addresses, quota.Unread: b.Unread} {
		if n != 0 {
			d.ledger.SetLimit(r, n, "a test")
		}
	}
	if b.Subuid != "" {
		d.ledger.SetOwners(b.Subuid, b.Passwd)
	}
}

func (d nicDevice) Held() (h nic.Holdings) {
	t := d.ledger.Taken()
	h.Cost = nic.Cost{Memory: t[quota.Memory], Descriptors: t[quota.Descriptors], Connections: t[quota.Connections], Unread: t[quota.Unread], Paths: t[quota.Paths]}
	h.Other = t != chargeOf(h.Cost)
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
		d.discarded.connections.Add(d.ledger.Payer(uid), func() { <-stuck })
	}
	return func() { close(stuck) }
}
