//go:build linux && (amd64 || arm64)

package netdev

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless"
)

// A peer is another interface. The goroutine that receives owns the fields that mu does not guard.
type peer struct {
	in        *Interface
	announced announcement // the peer's last announcement
	device    uint64       // number of the peer's engine
	client    uint32       // number of the peer as a client of its engine
	seen      bool         // whether the current look (Interface.look) has found the peer's announcement
	why       string       // why the peer cannot be used; "": it can be used

	// The session (session.go).
	offer      uint32             // number of this side's offer
	accepted   uint32             // the peer's offer to which the queue pair is connected; 0: none
	readable   bool               // this interface can read the peer's slots
	retryAt    time.Time          // no step of the session is taken before this time
	descriptor nicless.Descriptor // of the queue pair

	warned bool // the log has a message of this session that was refused

	broken atomic.Bool // the session has failed

	// How many packets in the peer's slots this interface has consumed in this session. Only the goroutine
	// that receives writes it.
	consumed atomic.Uint32

	mu          sync.Mutex // guards the fields down to sge
	qp          *nicless.QP
	up          bool              // both queue pairs are connected
	readsOurs   bool              // the peer reads the slots of this interface
	posted      int               // number of sends without a completion
	held        int               // number of buffers and slots that are on the way to the peer
	buffersSent [sendBuffers]bool // which buffers are on the way to the peer
	slotsSent   []uint16          // numbers of the slots that are on the way to the peer, oldest first
	slotsFreed  uint32            // number of slots that the peer has freed in this session
	reported    uint32            // value of consumed that was last sent to the peer
	waitCredit  time.Duration     // how long packets may still wait for the peer
	stalled     bool              // waitCredit is used up, and packets for the peer are dropped
	post        nicless.SendWR    // reused by each send
	head        [messageSize]byte // reused by each message without a packet
	sge         [1]nicless.SGE    // reused by each send

	progress chan struct{} // gets a value when buffers or slots come back
	stats    counters
}

// stallTime is how long packets wait for a peer that holds as much as it may. Each packet that the peer takes
// then gives packetTime of this time back. So a peer that has stopped delays the other peers by stallTime
// once, and a peer that takes few packets delays them by a small part of their time.
const (
	stallTime  = 100 * time.Millisecond
	packetTime = 4 * time.Millisecond
)

// collectTime is how often a goroutine that waits for completions of sends polls for them.
const collectTime = 100 * time.Microsecond

func newPeer(in *Interface) *peer {
	return &peer{in: in, waitCredit: stallTime, progress: make(chan struct{}, 1)}
}

// reset frees all buffers and slots that are on the way to the peer, for the next session. mu is held.
func (p *peer) reset() {
	for n := range p.buffersSent {
		if p.buffersSent[n] {
			p.in.free <- uint16(n)
		}
	}
	p.buffersSent = [sendBuffers]bool{}
	for _, n := range p.slotsSent {
		p.in.freeSlots <- n
	}
	p.slotsSent = p.slotsSent[:0]
	p.posted, p.held, p.slotsFreed, p.reported = 0, 0, 0, 0
	p.consumed.Store(0)
	p.up, p.readsOurs, p.stalled = false, false, false
	p.wakeSender()
}

// tookPackets notes that the peer has taken n packets. mu is held.
func (p *peer) tookPackets(n int) {
	p.waitCredit = min(stallTime, p.waitCredit+time.Duration(n)*packetTime)
	p.stalled = false
	p.wakeSender()
}

// wakeSender wakes the goroutine that sends, if it waits for this peer. mu is held.
func (p *peer) wakeSender() {
	select {
	case p.progress <- struct{}{}:
	default:
	}
}

// errDropped says that a packet was not sent. The buffer or slot of the packet is still the caller's.
var errDropped = errors.New("dropped")

// mostHeld is how many buffers and slots a peer can hold. It is three quarters of the buffers.
const mostHeld = sendBuffers * 3 / 4

// full reports whether the peer holds as much as it may. free is the list of the free buffers, or that of
// the free slots.
//
// The limit falls with the length of the list. One entry of the list is reserved for each peer that can come
// (of a short list, a quarter is reserved), and a peer may hold three times the unreserved entries. So a peer
// that holds nothing finds an entry, however much other peers hold.
//
// Sends with packets fill the send queue by half at most. The other half is for messages that report freed
// slots. mu is held.
func (p *peer) full(free freeList) bool {
	reserved := min(MaxPeers, cap(free)/4)
	unreserved := len(free) - reserved
	overShare := p.held > 0 && p.held >= 3*unreserved
	return p.held >= mostHeld || p.posted >= sendQueue/2 || overShare
}

// waitForRoom waits until the peer may hold one more buffer or slot. It returns errDropped if the peer is not
// up, or if it is full and stalled. free is the list of the free buffers, or that of the free slots. mu is
// held before and after the call; waitForRoom unlocks it while it waits.
//
// The caller calls collect first: a stall ends only when completions of sends are collected.
func (p *peer) waitForRoom(free freeList) error {
	for since := time.Now(); p.up && p.full(free) && !p.stalled; {
		p.mu.Unlock()
		p.in.collect()
		p.in.timer.Reset(collectTime)
		select {
		case <-p.progress:
		case <-p.in.timer.C:
		}
		p.mu.Lock()
		now := time.Now()
		p.waitCredit = max(0, p.waitCredit-now.Sub(since))
		p.stalled = p.full(free) && p.waitCredit == 0
		since = now
	}
	if !p.up || p.full(free) {
		return errDropped
	}
	return nil
}

// postSend posts p.post. mu is held.
func (p *peer) postSend() error {
	err := p.qp.PostSend(&p.post)
	if err == nil {
		p.posted++
	}
	return err
}

// sendBuffer sends buffer n. The virtio header and the packet, together length bytes, are in the buffer
// behind the room for the head of the message.
func (p *peer) sendBuffer(n uint16, length int) error {
	p.in.collect()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.waitForRoom(p.in.free); err != nil {
		return err
	}
	m := message{kind: kindPacket, length: uint32(length), freed: p.consumed.Load()}
	m.put((*[messageSize]byte)(p.in.send.at(int(n))))
	p.sge[0] = p.in.send.sge(int(n), messageSize+length)
	p.post = nicless.SendWR{ID: uint64(n), Op: nicless.Send, SGE: p.sge[:]}
	if err := p.postSend(); err != nil {
		return errDropped
	}
	p.buffersSent[n] = true
	p.held++
	p.reported = m.freed
	p.stats.sent(length)
	return nil
}

// sendSlot publishes slot n, which has a virtio header and a packet of together length bytes, and sends the
// message that names the slot.
func (p *peer) sendSlot(n uint16, length int) error {
	p.in.collect()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.waitForRoom(p.in.freeSlots); err != nil {
		return err
	}
	p.in.tag = max(1, p.in.tag+1)
	s := p.in.slots
	s.publish(s.slot(s.own, int(n)), p.in.tag, length)
	m := message{kind: kindSlot, slot: n, length: uint32(length), freed: p.consumed.Load(), tag: p.in.tag}
	if err := p.postHead(m); err != nil {
		return errDropped
	}
	p.slotsSent = append(p.slotsSent, n)
	p.held++
	p.stats.sent(length)
	return nil
}

// noBuffer is the ID of a send that has no buffer. It is larger than the number of any buffer.
const noBuffer = 1 << 16

// postHead posts a message that has only its head, no packet. mu is held.
func (p *peer) postHead(m message) error {
	m.put(&p.head)
	p.post = nicless.SendWR{ID: noBuffer, Op: nicless.Send, Data: p.head[:]}
	err := p.postSend()
	if err == nil {
		p.reported = m.freed
	}
	return err
}

// reportFreed reports to the peer how many packets in its slots this interface has consumed, if these are at
// least n more than were reported. If the send queue has no room, later messages report them.
func (p *peer) reportFreed(n uint32) {
	if !p.tryReport(n) {
		p.in.collect() // makes room
		p.tryReport(n)
	}
}

// tryReport is reportFreed without a second try. It reports false if the send queue has no room.
func (p *peer) tryReport(n uint32) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	consumed := p.consumed.Load()
	if !p.up || consumed-p.reported < n {
		return true
	}
	return p.postHead(message{kind: kindFreed, freed: consumed}) == nil
}

// sendDone notes that a send has ended, and frees its buffer if it has one. id is the ID of the send.
func (p *peer) sendDone(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posted--
	p.wakeSender()
	if id >= sendBuffers || !p.buffersSent[id] {
		return
	}
	p.buffersSent[id] = false
	p.held--
	p.in.free <- uint16(id)
	p.tookPackets(1)
}

var errFreed = errors.New("it says that it has done with more slots than it was sent")

// slotsDone frees the slots that the peer has consumed. freed is how many slots the peer has freed in this
// session, by its own count. It returns errFreed if that is more than were sent.
func (p *peer) slotsDone(freed uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := freed - p.slotsFreed
	if n == 0 {
		return nil
	}
	if uint64(n) > uint64(len(p.slotsSent)) {
		return errFreed
	}
	for _, slot := range p.slotsSent[:n] {
		p.in.freeSlots <- slot
	}
	p.slotsSent = slices.Delete(p.slotsSent, 0, int(n))
	p.held -= int(n)
	p.slotsFreed = freed
	p.tookPackets(int(n))
	return nil
}
