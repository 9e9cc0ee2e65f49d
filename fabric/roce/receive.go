//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"
	"net/netip"

	"github.com/nicless/nicless/internal/mmsg"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
	"golang.org/x/sys/unix"
)

const (
	receiveBatch = 32
	bufferSize   = 1 << 16 // more than the longest datagram, or several that the kernel has joined
	controlSize  = 192
	share        = 32 // how many datagrams are checked in a step; the engine's answers wait meanwhile
	polled       = 2  // most local addresses that are all tried in a step; of more, epoll says which

	// Strangers are served if no known address has sent anything, and first in every strangersTurn-th step.
	// Few of their messages are taken at a time, because known addresses wait meanwhile.
	strangersTurn  = 16
	strangersBatch = 8
)

// A receiver takes datagrams from the sockets of all local addresses and puts packets into the
// engine's ring. One goroutine uses it, because the ring has one producer.
//
// If the ring is full, the receiver keeps its place and goes on later. Meanwhile the sockets'
// buffers fill up, and then the kernel drops datagrams and counts them.
type receiver struct {
	c    *Carrier
	ring *packetring.Producer

	messages [receiveBatch]mmsg.Message
	vectors  [receiveBatch]unix.Iovec
	names    [receiveBatch][nameSize]byte
	control  [receiveBatch][controlSize]byte
	buffers  []byte

	// The messages that were received last, of which the first at are done.
	from   *local   // the local address that has received them
	n, at  int      // how many there are, and how many are done
	begun  bool     // message at was begun: rest and d are about it
	rest   []byte   // the datagrams of message at that are not done
	opened bool     // the next datagram was sealed, and was opened already
	d      datagram // what is known of message at

	last      memo
	explained [Reasons]bool // reasons that were explained
	put       int           // packets put into the ring in this step
	checked   int           // datagrams checked in this step
	turn      uint          // with which local address the step begins
	steps     uint          // counts steps, for strangersTurn
	limits    limits        // of what strangers may cost
	counts    receiveCounts
}

// A datagram is what is known of a message: one datagram, or several of the same length that
// the kernel has joined.
type datagram struct {
	remote  netip.Addr
	port    uint16
	path    *path // nil: there is none yet
	flow    packet.Flow
	segment int // bytes of each datagram; the last may be shorter
	tos     uint8
	hops    uint8
	label   uint32 // IPv6: flow label
	packets int    // of them: in the ring
}

// A memo is the result of the last look into the table. Most messages come from where the
// previous one came.
type memo struct {
	from  *local
	name  [nameSize]byte
	epoch uint64
	d     datagram
}

func newReceiver(c *Carrier, ring *packetring.Producer) *receiver {
	r := &receiver{c: c, ring: ring, limits: newLimits(), buffers: make([]byte, receiveBatch*bufferSize)}
	for i := range r.messages {
		h := &r.messages[i].Header
		set(&r.vectors[i], r.buffers[i*bufferSize:][:bufferSize])
		h.Name, h.Iov, h.Iovlen, h.Control = &r.names[i][0], &r.vectors[i], 1, &r.control[i][0]
		r.reset(i)
	}
	return r
}

// reset prepares a message for recvmmsg, which has overwritten the lengths.
func (r *receiver) reset(i int) {
	h := &r.messages[i].Header
	h.Namelen, h.Controllen, h.Flags = nameSize, controlSize, 0
}

// step receives what has arrived. did is how many messages are done with. full is true if the
// engine's ring is full: then step is called again later.
func (r *receiver) step() (did int, full bool) {
	r.put, r.checked = 0, 0
	did, full = r.deliver()
	if r.n == 0 {
		var n int
		n, full = r.look()
		did += n
	}
	if r.put > 0 {
		// Add is a full barrier between publishing the packets and finding out, in Arrived, whether
		// the engine sleeps.
		r.counts.packets.Add(uint64(r.put))
		r.c.port().Arrived()
	}
	if full {
		r.counts.full.Add(1)
	}
	return did, full
}

// look receives from the sockets of all local addresses, until messages are left that do not fit into the
// share or the ring. The sockets for known addresses come before those for strangers, except in every
// strangersTurn-th step. did is how many messages are done with, full whether the ring is full.
func (r *receiver) look() (did int, full bool) {
	locals := *r.c.locals.Load()
	r.turn++ // another local address comes first, so that none uses up the share each time
	r.steps++
	strangers := r.takeStrangersTurn()
	order := [2]class{fromKnown, fromStranger}
	if strangers && r.steps%strangersTurn == 0 {
		order = [2]class{fromStranger, fromKnown}
	}
	if len(locals) > polled {
		return r.lookAtReady(locals, strangers, order)
	}
	for _, class := range order {
		if class == fromStranger && (!strangers || did > 0) {
			continue
		}
		for i := 0; i < len(locals) && r.n == 0; i++ {
			var n int
			n, full = r.receive(locals[(r.turn+uint(i))%uint(len(locals))], class)
			did += n
		}
	}
	return did, full
}

// lookAtReady is look for many local addresses: it tries only those sockets of which epoll says that they
// have datagrams.
func (r *receiver) lookAtReady(locals []*local, strangers bool, order [2]class) (did int, full bool) {
	ready := r.c.receiveWaiter.ready()
	for _, class := range order {
		for _, e := range ready {
			socketClass, number := fromKnown, uint32(e.Fd)&^strangersBit
			if uint32(e.Fd)&strangersBit != 0 {
				socketClass = fromStranger
			}
			if socketClass != class {
				continue
			}
			if class == fromStranger && (!strangers || did > 0) {
				continue
			}
			for _, l := range locals {
				if l.number == number && r.n == 0 {
					var n int
					n, full = r.receive(l, class)
					did += n
				}
			}
		}
	}
	return did, full
}

// receive receives a batch of messages from the socket of a local address for this class, and delivers them.
func (r *receiver) receive(l *local, from class) (did int, full bool) {
	fd, most := l.receiver, receiveBatch
	l.use.RLock()
	if from == fromStranger {
		fd, most = l.group.strangers, strangersBatch
	}
	if l.closed || fd < 0 {
		l.use.RUnlock()
		return 0, false
	}
	n, errno := mmsg.Receive(fd, r.messages[:most])
	l.use.RUnlock()
	r.counts.calls.Add(1)
	if errno != 0 || n == 0 {
		return 0, false
	}
	r.counts.messages.Add(uint64(n))
	r.from, r.n, r.at, r.begun = l, n, 0, false
	return r.deliver()
}

// deliver checks the messages that were received, and puts good packets into the ring. It stops
// after a message if the step's share is used up.
func (r *receiver) deliver() (did int, full bool) {
	for ; r.at < r.n; r.at++ {
		if r.checked >= share {
			return did, false
		}
		if !r.begun {
			r.begin()
		}
		for len(r.rest) > 0 {
			b := r.rest[:min(r.d.segment, len(r.rest))]
			why := r.checkDatagram(b)
			if why == ringFull {
				return did, true
			}
			r.checked++
			if why != good {
				r.drop(why, r.known())
			}
			r.rest = r.rest[len(b):]
		}
		if r.d.path != nil && r.d.packets > 0 {
			r.d.path.source.received.Add(uint64(r.d.packets))
		}
		r.reset(r.at)
		r.begun = false
		did++
	}
	r.at, r.n = 0, 0
	return did, false
}

// begin finds out the sender, the path and the options of message at.
func (r *receiver) begin() {
	r.begun = true
	m := &r.messages[r.at]
	n := int(m.N)
	r.rest = r.buffers[r.at*bufferSize:][:n]
	r.from.counts.datagrams.Add(1)
	r.from.counts.bytes.Add(uint64(n))
	r.source(r.names[r.at][:min(m.Header.Namelen, nameSize)])
	r.d.segment, r.d.packets = max(n, 1), 0
	r.options(r.control[r.at][:min(m.Header.Controllen, controlSize)])
	if r.d.segment < n {
		r.counts.joined.Add(uint64((n + r.d.segment - 1) / r.d.segment))
	}
	switch {
	case n == 0 || m.Header.Flags&unix.MSG_TRUNC != 0:
		r.rest = nil
		r.drop(BadLength, r.known())
	case r.d.path == nil && !r.c.allowed(r.d.remote):
		r.rest = nil
		r.drop(NotAllowed, false)
	}
}

// source finds out from whom message at comes, and on which path. name is the sender's address as the kernel
// gives it. The path is nil if there is none yet.
func (r *receiver) source(name []byte) {
	epoch := r.c.paths.epoch.Load()
	if r.last.from == r.from && r.last.epoch == epoch &&
		string(r.last.name[:len(name)]) == string(name) && len(name) > 0 {
		r.d = r.last.d
		return
	}
	r.d = datagram{port: binary.BigEndian.Uint16(r.names[r.at][2:])}
	if r.from.plain.Is4() {
		r.d.remote = netip.AddrFrom4([4]byte(r.names[r.at][4:8]))
	} else {
		r.d.remote = netip.AddrFrom16([16]byte(r.names[r.at][8:24])).Unmap()
	}
	if r.d.remote.Is4() != r.from.plain.Is4() {
		r.d.remote = r.from.plain // a mapped address cannot come on an IPv6 socket; the ICRC will be wrong
	}
	r.d.path = r.c.paths.known(r.key())
	if r.d.path == nil {
		r.d.flow = packet.MakeFlow(netip.AddrPortFrom(r.d.remote, r.d.port),
			netip.AddrPortFrom(r.from.plain, packet.Port))
		r.last.from = nil
		return
	}
	r.d.flow = r.d.path.receive.From(r.d.port)
	r.last.from, r.last.epoch, r.last.d = r.from, epoch, r.d
	copy(r.last.name[:], name)
}

// key returns the key of the path on which packets of message at come.
func (r *receiver) key() key {
	return key{local: r.from.number, remote: r.d.remote.As16(), hops: defaultHops}
}

// options reads the ancillary data of a message.
func (r *receiver) options(control []byte) {
	r.d.tos, r.d.hops, r.d.label = 0, 0, 0
	for {
		level, kind, data, rest, ok := mmsg.Control(control)
		if !ok {
			return
		}
		control = rest
		value := mmsg.Int(data)
		switch [2]int32{level, kind} {
		case [2]int32{unix.IPPROTO_IP, unix.IP_TOS}, [2]int32{unix.IPPROTO_IPV6, unix.IPV6_TCLASS}:
			r.d.tos = uint8(value)
		case [2]int32{unix.IPPROTO_IP, unix.IP_TTL}, [2]int32{unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT}:
			r.d.hops = uint8(value)
		case [2]int32{unix.IPPROTO_IPV6, ipv6FlowInfo}:
			if len(data) == 4 {
				r.d.label = binary.BigEndian.Uint32(data) & 0xfffff
			}
		case [2]int32{unix.IPPROTO_UDP, udpGRO}:
			if value > 0 && int(value) < r.d.segment {
				r.d.segment = int(value)
			}
		}
	}
}

// known reports whether this engine has requested a path to the sender of the message.
func (r *receiver) known() bool { return r.d.path != nil && r.d.path.requested.Load() }

// drop counts a datagram that was dropped, and explains the first one of each kind.
func (r *receiver) drop(why Reason, known bool) {
	r.counts.dropped[why].Add(1)
	if !known {
		r.counts.droppedStrangers[why].Add(1)
		r.limits.wasted(r.d.remote)
	}
	if !r.explained[why] {
		r.explained[why] = true
		r.c.log.Warn("datagram dropped; more of this kind are only counted", "reason", why.String(),
			"from", r.d.remote.String(), "port", r.d.port, "to", r.from.addr.String())
	}
}
