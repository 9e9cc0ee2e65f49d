//go:build linux && (amd64 || arm64)

package transport

import (
	"fmt"
	"slices"
	"time"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/wheel"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/packetring"
)

const (
	// mostHeld is how many packets of one queue pair wait at most, as in the usual queue of Linux's netem.
	mostHeld = 1000

	// mostHeldBytes is how many bytes of all queue pairs of a shard wait at most: eight windows of links that
	// lose nothing. Any user may set rules that delay, so there must be a bound.
	mostHeldBytes = 64 << 20

	// mostBehind is how long a packet waits for the next one, which is to overtake it: less than all timeouts
	// that programs use, so a requester that sends nothing more notices nothing.
	mostBehind = time.Millisecond
)

// mostWait says how many packets wait at most.
var mostWait = fmt.Sprintf("%d packets of the queue pair, or %d MiB of all", mostHeld, mostHeldBytes>>20)

// A held has packets of a queue pair that rules have held back. It exists as long as there are some.
type held struct {
	ready   []heldPacket // leave in this order as soon as the link's ring has room
	delayed []heldPacket // leave at their times, in this order
	behind  []heldPacket // leave after the next packet, the last first
	timer   wheel.Timer[*object.Wire]
	wire    object.Wire // names the queue pair for the timer; nothing else uses it
}

// A heldPacket is a copy of a packet.
type heldPacket struct {
	port  *object.Port
	path  uint32
	head  int    // bytes of the headers
	bytes []byte // headers and payload
	at    uint64 // device clock at which it leaves
}

// hold returns what holds the packets of q, and a copy of a packet for it; h is nil if too many wait already.
func (sh *wires) hold(q *object.QP, p *object.Port, k *packetring.Packet, at uint64) (h *held, c heldPacket) {
	d := &sh.detours
	h = d.held[q]
	n := k.N + len(k.Payload)
	if d.size+n > mostHeldBytes || h != nil && len(h.ready)+len(h.delayed)+len(h.behind) >= mostHeld {
		return nil, c
	}
	if h == nil {
		h = &held{wire: object.Wire{Q: q, Port: p}}
		h.timer.Of = &h.wire
		if d.held == nil {
			d.held = make(map[*object.QP]*held)
		}
		d.held[q] = h
	}
	d.size += n
	c = heldPacket{port: p, path: k.Path, head: k.N, bytes: make([]byte, 0, n), at: at}
	c.bytes = append(append(c.bytes, k.Head[:k.N]...), k.Payload...)
	return h, c
}

// pass gives a packet to the link so many times, and those behind it.
func (sh *wires) pass(q *object.QP, p *object.Port, k *packetring.Packet, times int) {
	for range times {
		h := sh.detours.held[q]
		if (h == nil || len(h.ready) == 0) && give(p, k.Path, k.Head[:k.N], k.Payload) {
			continue
		}
		h, c := sh.hold(q, p, k, 0)
		if h == nil {
			sh.explainPacket(q, p, k, "link %s has no room: %v%s", p.Settings.Name,
				" is lost, because too many wait already: "+mostWait)
			continue
		}
		h.ready = append(h.ready, c)
		sh.leave(q, h)
	}
	sh.overtaken(q)
}

// overtaken lets the packets of q leave that have waited for the next one.
func (sh *wires) overtaken(q *object.QP) {
	if h := sh.detours.held[q]; h != nil && len(h.behind) > 0 {
		h.release()
		sh.leave(q, h)
	}
}

// release makes the packets ready that wait for the next one.
func (h *held) release() {
	slices.Reverse(h.behind)
	h.ready = append(h.ready, h.behind...)
	h.behind = nil
}

// holdBehind holds a packet back until the next one has passed, and reports whether there was room.
func (sh *wires) holdBehind(q *object.QP, p *object.Port, k *packetring.Packet, now uint64) bool {
	h, c := sh.hold(q, p, k, now+clock.Cycles(mostBehind))
	if h == nil {
		return false
	}
	h.behind = append(h.behind, c)
	sh.leave(q, h)
	return true
}

// delay holds a packet back for a time, and reports whether there was room for it.
func (sh *wires) delay(q *object.QP, p *object.Port, k *packetring.Packet, now uint64,
	d fault.Duration) bool {
	h, c := sh.hold(q, p, k, clock.After(now, time.Duration(d)))
	if h == nil {
		return false
	}
	i := len(h.delayed)
	for i > 0 && h.delayed[i-1].at > c.at {
		i--
	}
	h.delayed = slices.Insert(h.delayed, i, c)
	sh.leave(q, h)
	return true
}

// give puts a packet into the ring of a link, and reports whether that is done: not if the ring has no room.
// A link that is down loses it.
func give(p *object.Port, path uint32, head, payload []byte) bool {
	if p.Dead || !p.Up {
		return true
	}
	h, to, ok := p.Reserve(len(head), len(payload))
	if !ok {
		return false
	}
	copy(h, head)
	copy(to, payload)
	p.Settings.Send.Publish(path) // the port has counted it
	p.Sent(0, 0)
	return true
}

// portOf returns the port by which a packet of q that has waited leaves, or nil: it is lost. The port that
// it was sent through may have gone down since.
func (sh *wires) portOf(q *object.QP, c *heldPacket) *object.Port {
	switch {
	case q.Wire != nil:
		return q.Wire.Port
	case sh.Outages.Down(q.Client.Hosted.Port):
		return nil
	}
	return c.port
}

// leave gives those packets of q to the link whose time has come, and sets the timer for the others.
func (sh *wires) leave(q *object.QP, h *held) {
	now := sh.Now()
	if len(h.behind) > 0 && h.behind[0].at <= now {
		h.release()
	}
	for len(h.delayed) > 0 && h.delayed[0].at <= now {
		h.ready, h.delayed = append(h.ready, h.delayed[0]), h.delayed[1:]
	}
	for len(h.ready) > 0 {
		c := &h.ready[0]
		if p := sh.portOf(q, c); p != nil && !give(p, c.path, c.bytes[:c.head], c.bytes[c.head:]) {
			break
		}
		sh.detours.size -= len(c.bytes)
		h.ready = h.ready[1:]
	}
	next := ^uint64(0)
	if len(h.ready) > 0 {
		next = now + sh.Timers.PerTick() // it tries again
	}
	if len(h.delayed) > 0 {
		next = min(next, h.delayed[0].at)
	}
	if len(h.behind) > 0 {
		next = min(next, h.behind[0].at)
	}
	if len(h.ready)+len(h.delayed)+len(h.behind) == 0 {
		sh.Timers.Disarm(&h.timer)
		delete(sh.detours.held, q)
		return
	}
	sh.Timers.Arm(&h.timer, now, next)
}

// leaveInTime is leave when the timer of held packets of q has run out.
func (sh *wires) leaveInTime(q *object.QP) {
	h := sh.detours.held[q]
	p := h.wire.Port
	if sh.Several && !sh.Holds(p.Shard) {
		if !p.Shard.TryLock() {
			now := sh.Now()
			sh.Timers.Arm(&h.timer, now, now+sh.Timers.PerTick())
			return
		}
		sh.PeerShard = p.Shard
		defer sh.UnlockPeerShard()
		p.Shard.GotWork = true // the port's thread wakes the carrier
	}
	sent := p.Settings.Send.Sent()
	sh.leave(q, h)
	if own := q.Client.Shard; own == &sh.Shard {
		sh.RecordSent(q, p, sent)
		sh.MarkWarm(q) // it may have waited for room
	}
}

// DropHeld drops the packets of q that wait, because q is reset or destroyed, or its client moves to another
// shard: a client moves when it connects, and then only datagrams can be waiting, which may get lost.
func (sh *wires) DropHeld(q *object.QP) {
	h := sh.detours.held[q]
	if h == nil {
		return
	}
	sh.Timers.Disarm(&h.timer)
	for _, list := range [...][]heldPacket{h.ready, h.delayed, h.behind} {
		for i := range list {
			sh.detours.size -= len(list[i].bytes)
		}
	}
	delete(sh.detours.held, q)
}
