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
	bufferSize   = 1 << 16 // room for the longest datagram, or for several that the kernel has joined
	controlSize  = 192
	flowLabel    = 1<<20 - 1 // the bits of the flow label in the first 4 bytes of an IPv6 header
	stepShare    = 32        // how many datagrams are checked in a step; the engine's answers wait meanwhile

	// mostPolled is the greatest number of local addresses for which each step tries all sockets. With more
	// local addresses, a step asks epoll which sockets have datagrams.
	mostPolled = 2

	// A step takes messages of strangers only if it has found none of known addresses; but in every
	// strangersTurn-th step, strangers come first. At most strangersBatch of their messages are taken at a
	// time, because known addresses wait meanwhile.
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

	// The batch of messages that was received last. The current message is messages[at].
	from   *local   // the local address that has received the batch
	n, at  int      // how many messages the batch has, and how many of them are done
	begun  bool     // begin was called for the current message, so rest and d are about it
	rest   []byte   // the datagrams of the current message that are not done
	opened bool     // the first datagram of rest was sealed, and was opened already
	d      datagram // what is known of the current message

	last      memo
	explained [Reasons]bool // the reasons that the log has explained
	put       int           // how many packets this step has put into the ring
	found     bool          // this step has found messages of known addresses, or not looked everywhere
	checked   int           // how many datagrams this step has checked
	turn      uint          // the place in Carrier.locals, modulo their number, with which the step begins
	steps     uint          // how many steps there were, for strangersTurn
	limits    limits        // the limits of what strangers may cost
	counts    receiveCounts
}

// A datagram is what is known of a message: one datagram, or several of the same length that
// the kernel has joined.
type datagram struct {
	remote  netip.Addr
	port    uint16
	path    *path // nil: there is no path yet
	flow    packet.Flow
	segment int // bytes of each datagram; the last may be shorter
	tos     uint8
	hops    uint8
	label   uint32 // IPv6: flow label
	packets int    // how many of the message's packets were put into the ring
}

// A memo is the result of the last look into the table of paths. Most messages have the sender of the message
// before them, so they need no look.
type memo struct {
	from  *local         // the local address that has received the message; nil: the memo is not valid
	name  [nameSize]byte // the sender's address as the kernel gives it
	epoch uint64         // the table's epoch at the look
	d     datagram       // what the look has found
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

// step receives what has arrived. did is how many messages are done with. If the engine's ring is full, full
// is true, and step is to be called again later.
func (r *receiver) step() (did int, full bool) {
	r.put, r.checked, r.found = 0, 0, false
	did, full = r.deliver() // what the last step has left
	wanted, emptied := r.c.looks.wanted.Load(), false
	if r.n == 0 {
		var n int
		n, full = r.look()
		did += n
		emptied = !r.found
	}
	if r.put > 0 {
		// Add is a full barrier between publishing the packets and finding out, in Arrived, whether
		// the engine sleeps.
		r.counts.packets.Add(uint64(r.put))
		r.c.port().Arrived()
	}
	if emptied {
		r.c.looks.finish(wanted)
	}
	if full {
		r.counts.full.Add(1)
	}
	return did, full
}

// look receives from the sockets of all local addresses. It stops when messages are left because the step's
// share is used up or the ring is full. The sockets for known addresses come before those for strangers,
// except in every strangersTurn-th step. did is how many messages are done with, full whether the ring is
// full.
func (r *receiver) look() (did int, full bool) {
	locals := *r.c.locals.Load()
	r.turn++ // another local address comes first, so that no address uses up the share each time
	r.steps++
	strangers := r.takeStrangersTurn()
	order := [2]class{fromKnown, fromStranger}
	if strangers && r.steps%strangersTurn == 0 {
		order = [2]class{fromStranger, fromKnown}
	}
	if len(locals) > mostPolled {
		return r.lookAtReady(locals, strangers, order)
	}
	for _, class := range order {
		if class == fromStranger && (!strangers || did > 0) {
			continue
		}
		r.found = r.found || class == fromKnown && r.n > 0
		for i := 0; i < len(locals) && r.n == 0; i++ {
			var n int
			n, full = r.receive(locals[(r.turn+uint(i))%uint(len(locals))], class)
			did += n
		}
	}
	return did, full
}

// lookAtReady is look for many local addresses: it tries only the sockets that have datagrams according to
// epoll.
func (r *receiver) lookAtReady(locals []*local, strangers bool, order [2]class) (did int, full bool) {
	ready := r.c.receiveWaiter.ready()
	r.found = len(ready) == len(r.c.receiveWaiter.events) // there may be more
	for _, class := range order {
		r.found = r.found || class == fromKnown && r.n > 0
		for _, e := range ready {
			watched := uint32(e.Fd) // what watch was given: the number of a local address, and the class
			socketClass, number := fromKnown, watched&^strangersBit
			if watched&strangersBit != 0 {
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

// receive receives a batch of messages from the socket that a local address has for a class of senders, and
// delivers them.
func (r *receiver) receive(l *local, senders class) (did int, full bool) {
	fd, most := l.receiver, receiveBatch
	l.use.RLock()
	if senders == fromStranger {
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
	r.found = r.found || senders == fromKnown
	r.from, r.n, r.at, r.begun = l, n, 0, false
	return r.deliver()
}

// deliver checks the messages that were received, and puts good packets into the ring. It stops if the ring
// is full, and after a message with which the step's share is used up. did is how many messages are done
// with, full whether the ring is full.
func (r *receiver) deliver() (did int, full bool) {
	for ; r.at < r.n; r.at++ {
		if r.checked >= stepShare {
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

// begin finds out the sender, the path and the options of the current message.
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
		datagrams := (n + r.d.segment - 1) / r.d.segment // the last may be shorter
		r.counts.joined.Add(uint64(datagrams))
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

// source finds out from whom the current message comes, and on which path. name is the sender's address as
// the kernel gives it. The path is nil if there is no path yet.
func (r *receiver) source(name []byte) {
	epoch := r.c.paths.epoch.Load()
	isCurrent := r.last.from == r.from && r.last.epoch == epoch
	if isCurrent && len(name) > 0 && string(r.last.name[:len(name)]) == string(name) {
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
		// A mapped address, which a datagram on an IPv6 socket cannot have. With another address in its
		// place, the datagram is dropped because its ICRC is wrong.
		r.d.remote = r.from.plain
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

// key returns the key of the path on which packets of the current message come.
func (r *receiver) key() key {
	return key{local: r.from.number, remote: r.d.remote.As16(), hops: defaultHops}
}

// options reads the ancillary data of the current message.
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
				r.d.label = binary.BigEndian.Uint32(data) & flowLabel
			}
		case [2]int32{unix.IPPROTO_UDP, udpGRO}:
			if value > 0 && int(value) < r.d.segment {
				r.d.segment = int(value)
			}
		}
	}
}

// known reports whether this engine has requested a path to the sender of the current message.
func (r *receiver) known() bool { return r.d.path != nil && r.d.path.requested.Load() }

// drop counts a datagram that was dropped. The log explains the first datagram that is dropped for each
// reason. known says whether the sender is known.
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
