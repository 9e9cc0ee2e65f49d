//go:build linux && (amd64 || arm64)

package request

import (
	"github.com/nicless/nicless/engine/internal/closers"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/nic"
)

// Bound and the methods after it implement nic.Probe, which tests of servers use.
func (d Device) Bound(b nic.Bounds) {
	for r, n := range map[quota.Resource]int{quota.Descriptors: b.Descriptors,
		quota.Connections: b.Connections, quota.AddressSpace: b.Addresses, quota.Unread: b.Unread} {
		if n != 0 {
			d.Ledger.SetLimit(r, n, "a test")
		}
	}
	if b.Subuid != "" {
		d.Ledger.SetOwners(b.Subuid, b.Passwd)
	}
}

// Held returns what clients and servers hold of the device.
func (d Device) Held() (h nic.Holdings) {
	t := d.Ledger.Taken()
	h.Cost = nic.Cost{Memory: t[quota.Memory], Descriptors: t[quota.Descriptors],
		Connections: t[quota.Connections], Unread: t[quota.Unread], Paths: t[quota.Paths]}
	h.Other = t != chargeOf(h.Cost)
	h.Closing = d.Discarded.Connections.Waiting()
	d.Do(func() {
		for _, sh := range d.Shards {
			for c := range sh.Clients {
				h.Clients = append(h.Clients, c.Name)
			}
			h.Objects += len(sh.Running)
		}
		h.Objects += len(d.QPs) + len(d.CQs) + len(d.SRQs) + d.Keys.Used
	})
	return h
}

// NextSpan ends the present period of the budget of log lines about connections.
func (d Device) NextSpan() { d.Spoken.EndPeriod() }

// StickClosers makes all closers of a user wait until unstick is called.
func (d Device) StickClosers(uid uint32) (unstick func()) {
	stuck := make(chan struct{})
	for range closers.Each {
		d.Discarded.Connections.Add(d.Ledger.Payer(uid), func() { <-stuck })
	}
	return func() { close(stuck) }
}
