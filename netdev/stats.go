//go:build linux && (amd64 || arm64)

package netdev

import (
	"cmp"
	"net/netip"
	"sync/atomic"
)

// counters are those of a peer.
type counters struct {
	packetsOut, bytesOut, packetsIn, bytesIn, refused atomic.Uint64
}

func (c *counters) sent(length int) {
	c.packetsOut.Add(1)
	c.bytesOut.Add(uint64(length - HeaderSize))
}

func (c *counters) received(length int) {
	c.packetsIn.Add(1)
	c.bytesIn.Add(uint64(length - HeaderSize))
}

// Stats are counts of an interface since it was opened. A packet may be longer than the MTU, because
// the kernel gives segments of TCP and UDP together.
type Stats struct {
	Name        string
	Host        string `json:",omitempty"` // name under which peers find it; "": under none
	Addresses   []netip.Addr
	MTU         int
	Unreachable uint64 // packets to addresses that no peer has
	// Dropped is the number of packets for peers that could not be reached, or that took nothing, and of
	// those that were on the way when a session failed: some of these may have come.
	Dropped  uint64
	Waited   uint64 // packets that have waited for a session
	Sessions int    // that are open, or begin or end
	Peers    []PeerStats
}

// PeerStats are counts of one peer, since it was seen first. Sessions of one life are counted together.
type PeerStats struct {
	Name            string
	Host            string `json:",omitempty"` // as in Stats
	Addresses       []netip.Addr
	Engine          uint64
	MTU             int
	Up              bool   // there is a session
	Slots           bool   // packets to it travel in shared slots
	Why             string `json:",omitempty"` // if not Up: why
	Sent, Received  uint64 // packets
	Bytes, GotBytes uint64
	Refused         uint64 // messages that were refused
}

// noSession is why a peer is not up if nothing is wrong.
const noSession = "there is no session: the next packet opens one"

// Stats returns the counts. It is safe for concurrent use.
func (in *Interface) Stats() Stats {
	s := Stats{Name: in.cfg.Name, Host: in.cfg.Host, Addresses: in.addresses(), MTU: in.cfg.MTU,
		Unreachable: in.stats.unreachable.Load(), Dropped: in.stats.dropped.Load(),
		Waited: in.stats.waited.Load(), Sessions: len(*in.sessions.Load())}
	for _, r := range in.routes.Load().all {
		r.mu.Lock()
		up, slots, why := r.up, r.readsOurs, r.why
		r.mu.Unlock()
		p := PeerStats{
			Name: r.announced.name, Host: r.announced.host, Addresses: r.announced.addresses,
			Engine: r.at.Device, MTU: r.announced.mtu, Slots: slots, Up: up,
			Sent: r.stats.packetsOut.Load(), Bytes: r.stats.bytesOut.Load(),
			Received: r.stats.packetsIn.Load(), GotBytes: r.stats.bytesIn.Load(),
			Refused: r.stats.refused.Load(),
		}
		if !up {
			p.Why = cmp.Or(why, noSession)
		}
		s.Peers = append(s.Peers, p)
	}
	return s
}
