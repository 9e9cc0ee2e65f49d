//go:build linux && (amd64 || arm64)

package roce

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/nic"
)

// Stats are counts since the carrier was made.
type Stats struct {
	Sent     SendStats
	Received ReceiveStats
	Auth     AuthStats
	Paths    int // paths in the table
	Held     int // paths that Hold has returned and that were not released

	// Strangers is how many addresses have a path in the table and are none of [Carrier.Peers], and
	// StrangerPackets how many packets have come on these paths.
	Strangers       int
	StrangerPackets uint64
}

// SendStats are counts of the sender. Bytes are those of packets from the BTH to the ICRC.
type SendStats struct {
	Packets, Bytes uint64
	Messages       uint64 // handed to the kernel: each is one datagram or several
	Segmented      uint64 // packets in messages of several datagrams
	Calls          uint64 // of sendmmsg
	Waits          uint64 // times that a socket's buffer was full
	Refused        uint64 // messages of several datagrams that the kernel refused; these were sent one by one

	// Packets that were dropped.
	NoPath     uint64 // the path has ended
	NoSession  uint64 // there was no session with the peer
	NoWay      uint64 // the path or the local address cannot send
	TooLong    uint64 // longer than the network allows
	Busy       uint64 // the kernel had no memory or room
	Impossible uint64 // headers or payload of an impossible length
}

// ReceiveStats are counts of the receiver. Bytes are those of packets from the BTH to the ICRC.
type ReceiveStats struct {
	Packets, Bytes uint64 // handed to the engine
	Messages       uint64 // received from the kernel: each is one datagram or several
	Joined         uint64 // datagrams that came in messages of several
	Calls          uint64 // of recvmmsg
	Full           uint64 // times that the engine's ring was full
	Weak           uint64 // packets whose ICRC was checked with 16 bits only
	Marked         uint64 // packets with a mark of congestion (ECN CE)
	Strangers      uint64 // remote addresses that have begun to send without a requested path

	Dropped          [Reasons]uint64 // datagrams that the carrier dropped, by reason
	DroppedStrangers [Reasons]uint64 // of these: from addresses to which this engine has requested no path
	Rests            uint64          // times that strangers were not served: they had sent too much in vain

	// Datagrams that the kernel dropped: from addresses that are known, and from strangers,
	// because the buffer for them was full; and those that are no packets, of connections with
	// strangers, or from addresses that are not allowed. If strangers have no buffer of their own,
	// KernelDropped is all of these.
	KernelDropped, KernelDroppedStrangers, KernelUnfit uint64
}

// AuthStats are counts of handshakes. All are 0 on links without keys.
type AuthStats struct {
	Asked      uint64 // messages 1 that have come
	Cookies    uint64 // of these: answered with a cookie
	Answered   uint64 // of these: answered with message 2
	OverBudget uint64 // of these: not answered, because the budget was used up
	Begun      uint64 // handshakes that this end has begun
	Done       uint64 // handshakes that have made a session
	Refused    uint64 // handshakes that one of the ends has refused
	Failed     uint64 // handshakes without an answer, and datagrams that were no valid message
}

// An AddressState is the state of a local address.
type AddressState struct {
	Address   netip.Addr
	Device    string // network device; empty if not known
	DeviceMTU int
	MTU       int // IB MTU
	Up        bool
	Reason    string    // why it is not up
	Since     time.Time // since when it is not up

	Segments, Joins           bool // UDP_SEGMENT and UDP_GRO are in use
	SendBuffer, ReceiveBuffer int  // bytes, as the kernel counts
	SourcePorts               []uint16
	Received, Bytes, Dropped  uint64 // datagrams, their bytes, and datagrams that the kernel dropped
}

// A PathState is the state of a path.
type PathState struct {
	Number, Source uint32
	Local, Remote  netip.Addr
	Class, Hops    uint8
	MTU            int    // IB MTU
	Held           int    // calls of Hold without Release
	Sent, Received uint64 // packets; those received are counted in the path with number Source
	Reason         string // why packets are dropped; empty if they are not
}

type sendCounts struct {
	packets, bytes, messages, segmented, calls, waits, refused atomic.Uint64
	noPath, noWay, tooLong, busy, impossible, noSession        atomic.Uint64
}

type receiveCounts struct {
	packets, bytes, messages, joined, calls, full, weak, marked, strangers, rests atomic.Uint64

	dropped, droppedStrangers [Reasons]atomic.Uint64
	kernel                    [classes]atomic.Uint64
}

type addressCounts struct{ datagrams, bytes, dropped atomic.Uint64 }

// Stats returns the counts of the carrier.
func (c *Carrier) Stats() Stats {
	c.countDropped()
	s, r := &c.sender.counts, &c.receiver.counts
	stats := Stats{
		Sent: SendStats{
			Packets: s.packets.Load(), Bytes: s.bytes.Load(), Messages: s.messages.Load(),
			Segmented: s.segmented.Load(), Calls: s.calls.Load(), Waits: s.waits.Load(),
			Refused: s.refused.Load(), NoPath: s.noPath.Load(), NoSession: s.noSession.Load(),
			NoWay: s.noWay.Load(), TooLong: s.tooLong.Load(), Busy: s.busy.Load(),
			Impossible: s.impossible.Load(),
		},
		Received: ReceiveStats{
			Packets: r.packets.Load(), Bytes: r.bytes.Load(), Messages: r.messages.Load(),
			Joined: r.joined.Load(), Calls: r.calls.Load(), Full: r.full.Load(), Weak: r.weak.Load(),
			Marked: r.marked.Load(), Strangers: r.strangers.Load(), Rests: r.rests.Load(),
			KernelDropped: r.kernel[fromKnown].Load(), KernelDroppedStrangers: r.kernel[fromStranger].Load(),
			KernelUnfit: r.kernel[unfit].Load(),
		},
	}
	if c.guard != nil {
		stats.Auth = c.guard.counts.stats()
	}
	for i := range stats.Received.Dropped {
		stats.Received.Dropped[i] = r.dropped[i].Load()
		stats.Received.DroppedStrangers[i] = r.droppedStrangers[i].Load()
	}
	c.paths.each(func(p *path) {
		stats.Paths++
		if p.routes > 0 {
			stats.Held++
		}
		if p.source == p && p.isStranger() {
			stats.Strangers++
			stats.StrangerPackets += p.received.Load()
		}
	})
	return stats
}

// Addresses returns the states of the local addresses.
func (c *Carrier) Addresses() []AddressState {
	c.countDropped()
	var states []AddressState
	for _, l := range *c.locals.Load() {
		s := AddressState{
			Address: l.addr, Device: *l.device.Load(), DeviceMTU: int(l.deviceMTU.Load()),
			MTU: int(l.mtu.Load()), Up: true, Segments: l.segment.Load(), Joins: l.join,
			SendBuffer: l.buffers[0], ReceiveBuffer: l.buffers[1],
			Received: l.counts.datagrams.Load(), Bytes: l.counts.bytes.Load(),
			Dropped: l.counts.dropped.Load(),
		}
		if f := l.fault.Load(); f != nil {
			s.Up, s.Reason, s.Since = false, "cannot send: "+f.errno.Error(), f.since
		}
		if g := l.lost.Load(); g != nil {
			s.Up, s.Reason, s.Since = false, g.reason, g.since
		}
		for _, from := range l.senders {
			s.SourcePorts = append(s.SourcePorts, from.port)
		}
		states = append(states, s)
	}
	return states
}

// Name returns the name of the link.
func (c *Carrier) Name() string { return c.cfg.Name }

// Peers returns a peer for each remote address of each local address, without strangers: addresses to which
// this engine has requested no path, and which no key has proven. Anybody can forge those, so they are only
// counted (Stats.Strangers). The counts of a peer are packets: received by its source path, sent by all its
// paths, of which each traffic class and hop limit has one.
func (c *Carrier) Peers() []fabric.Peer {
	var peers []fabric.Peer
	sent := make(map[*path]uint64)
	var losses map[uint32]nic.PathCounts
	if port := c.port(); port != nil {
		losses = port.PathCounts()
	}
	c.paths.each(func(p *path) { sent[p.source] += p.sent.Load() })
	c.paths.each(func(p *path) {
		if p.source != p || p.isStranger() {
			return
		}
		peer := fabric.Peer{Name: p.remote.String(), Up: true, MTU: p.MTU()}
		if l := p.from.lost.Load(); l != nil {
			peer.Up, peer.Why, peer.Since = false, l.reason, l.since
		}
		for _, f := range []*fault{p.from.fault.Load(), p.fault.Load()} {
			if f != nil {
				peer.Up, peer.Why, peer.Since = false, fmt.Sprintf("cannot send from %v: %v", p.from.addr, f.explain(p)), f.since
			}
		}
		p.peer.report(&peer)
		peer.Stats = nic.PortStats{Up: peer.Up, Sent: sent[p], Received: p.received.Load(),
			Resent: losses[p.number].Resent, Timeouts: losses[p.number].Timeouts}
		peers = append(peers, peer)
	})
	slices.SortFunc(peers, func(a, b fabric.Peer) int { return strings.Compare(a.Name, b.Name) })
	return peers
}

var _ fabric.Link = (*Carrier)(nil)

// Paths returns the states of all paths, in the order of their numbers.
func (c *Carrier) Paths() []PathState {
	var states []PathState
	c.paths.each(func(p *path) {
		s := PathState{
			Number: p.number, Source: p.source.number, Local: p.from.addr, Remote: p.remote, Class: p.class,
			Hops: p.hops, MTU: p.MTU(), Held: p.routes, Sent: p.sent.Load(), Received: p.received.Load(),
		}
		if f := p.fault.Load(); f != nil {
			s.Reason = "cannot send: " + f.explain(p)
		}
		states = append(states, s)
	})
	slices.SortFunc(states, func(a, b PathState) int { return int(int64(a.Number) - int64(b.Number)) })
	return states
}
