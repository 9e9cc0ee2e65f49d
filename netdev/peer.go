//go:build linux && (amd64 || arm64)

package netdev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless"
)

// A peer is another interface. The goroutine that receives owns the fields that mu does not guard.
type peer struct {
	in        *Interface
	announced announcement         // of the peer; it never changes: then the peer is another one
	at        nicless.Announcement // the client, without its Value; it never changes

	// The session (session.go).
	phase      phase
	connecting bool               // a goroutine has the queue pair, and connects it
	underWay   int                // number of goroutines that connect a queue pair, also of sessions given up
	attempt    uint64             // number of the session
	cancel     context.CancelFunc // ends the connecting
	called     bool               // a dial of the peer waits for its answer
	readable   bool               // this interface can read the peer's slots
	ended      bool               // the peer sends nothing more in this session
	tries      int                // how many dials one after another have crossed others
	retryAt    time.Time          // this side does not dial before this time
	answerAt   time.Time          // dials of the peer are not answered before this time
	since      time.Time          // when the phase began
	quietSince time.Time          // when the last packet was noticed (quiet.go)
	counted    uint64             // number of packets that had travelled then
	took       uint64             // number of packets that the peer had taken at the last look for buffers

	warned     bool // the log has a message of this session that was refused
	unreported bool // is in Interface.unreported

	broken atomic.Bool // the session has failed

	// How many packets in the peer's slots this interface has consumed in this session. Only the goroutine
	// that receives writes it.
	consumed atomic.Uint32

	mu          sync.Mutex // guards the fields down to sge
	why         string     // why there is no session, if it is not for want of packets
	wants       bool       // a session is wanted, also without a packet
	gone        bool       // the peer is one no more
	waits       [][]byte   // packets that wait for the session (waits.go)
	waitBytes   int64      // of waits
	qp          *nicless.QP
	up          bool              // both queue pairs are connected, and neither side ends the session
	readsTheirs bool              // this interface reads the peer's slots
	readsOurs   bool              // the peer reads the slots of this interface
	posted      int               // number of sends without a completion
	held        int               // number of buffers and slots that are on the way to the peer
	buffersSent [sendBuffers]bool // which buffers are on the way to the peer
	slotsSent   []uint16          // numbers of the slots that are on the way to the peer, oldest first
	slotsFreed  uint32            // number of slots that the peer has freed in this session
	reported    uint32            // value of consumed that was last sent to the peer
	taken       uint64            // number of packets that the peer has taken
	heads       int               // number of messages without a packet that have no completion
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

func newPeer(in *Interface, found announcement, a nicless.Announcement) *peer {
	a.Value = nil
	return &peer{in: in, announced: found, at: a, waitCredit: stallTime, progress: make(chan struct{}, 1)}
}

// reset frees all buffers and slots that are on the way to the peer, for the next session, and counts their
// packets as dropped: nobody knows whether the peer has taken them. mu is held.
func (p *peer) reset() {
	for n := range p.buffersSent {
		if p.buffersSent[n] {
			p.in.stats.dropped.Add(1)
			p.in.free <- uint16(n)
		}
	}
	p.buffersSent = [sendBuffers]bool{}
	p.in.stats.dropped.Add(uint64(len(p.slotsSent)))
	for _, n := range p.slotsSent {
		p.in.freeSlots <- n
	}
	p.slotsSent = p.slotsSent[:0]
	p.in.heads.Add(int32(-p.heads))
	p.posted, p.held, p.heads, p.slotsFreed, p.reported = 0, 0, 0, 0, 0
	p.consumed.Store(0)
	p.up, p.readsOurs, p.readsTheirs, p.stalled = false, false, false, false
	p.wakeSender()
}

// tookPackets notes that the peer has taken n packets. mu is held.
func (p *peer) tookPackets(n int) {
	p.taken += uint64(n)
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

const mostReserved = 15

// mostHeld is how many buffers and slots a peer can hold. It is three quarters of the buffers.
const mostHeld = sendBuffers * 3 / 4

// full reports whether the peer holds as much as it may. free is the list of the free buffers, or that of
// the free slots.
//
// The limit falls with the length of the list. A quarter of the list, but at most mostReserved entries, is
// reserved for peers that hold nothing, and a peer may hold three times the unreserved entries. Should all be
// held for all that, relieve (quiet.go) ends the sessions of peers that take nothing.
//
// Sends with packets fill the send queue by half at most. The other half is for messages that report freed
// slots. mu is held.
func (p *peer) full(free freeList) bool {
	reserved := min(mostReserved, cap(free)/4)
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

// readyFor waits until a packet can be sent, or puts a copy of it, as it is in b, aside until there is a
// session: then it returns errWaits. mu is held as for waitForRoom.
func (p *peer) readyFor(b []byte, free freeList) error {
	if !p.up || len(p.waits) > 0 {
		return p.putAside(b)
	}
	return p.waitForRoom(free)
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
	if err := p.readyFor(p.in.send.at(int(n))[messageSize:][:length], p.in.free); err != nil {
		return err
	}
	return p.postBuffer(n, length)
}

// postBuffer posts buffer n. mu is held.
func (p *peer) postBuffer(n uint16, length int) error {
	m := message{kind: kindPacket, length: uint32(length), freed: p.consumed.Load(), reads: p.readsTheirs}
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
	s := p.in.slots
	if err := p.readyFor(s.slot(s.own, int(n))[packetAt:][:length], p.in.freeSlots); err != nil {
		return err
	}
	p.in.tag = max(1, p.in.tag+1)
	s.publish(s.slot(s.own, int(n)), p.in.tag, length)
	m := message{kind: kindSlot, slot: n, length: uint32(length), freed: p.consumed.Load(), tag: p.in.tag}
	if err := p.postHead(m, hasSlot); err != nil {
		return errDropped
	}
	p.slotsSent = append(p.slotsSent, n)
	p.held++
	p.stats.sent(length)
	return nil
}

// IDs of sends without a buffer. They are larger than the number of any buffer.
const (
	noPacket = 1<<16 + iota
	hasSlot
)

// mostHeads is how many messages without a packet may have no completion, so that the CQ has room for all:
// four for each session.
const mostHeads = 4 * MaxSessions

// peerHeads is how many of them may be of one peer: what its queue has room for beside packets. 15 peers with
// slots that take nothing leave some for others.
const peerHeads = sendQueue / 2

var errHeads = fmt.Errorf("%d messages without a packet have no completion, or %d of one peer", mostHeads, peerHeads)

// postHead posts a message that has only its head. id is noPacket or hasSlot. mu is held.
func (p *peer) postHead(m message, id uint64) error {
	if id == noPacket && (p.heads >= peerHeads || p.in.heads.Load() >= mostHeads) {
		return errHeads
	}
	m.reads = p.readsTheirs
	m.put(&p.head)
	p.post = nicless.SendWR{ID: id, Op: nicless.Send, Data: p.head[:]}
	if err := p.postSend(); err != nil {
		return err
	}
	if id == noPacket {
		p.heads++
		p.in.heads.Add(1)
	}
	p.reported = m.freed
	return nil
}

// reportFreed reports to the peer how many packets in its slots this interface has consumed, if these are at
// least n more than were reported. It returns false if the send queue has no room: later messages report
// them.
func (p *peer) reportFreed(n uint32) bool {
	if p.tryReport(n) {
		return true
	}
	p.in.collect() // makes room
	return p.tryReport(n)
}

// tryReport is reportFreed without a second try. It reports false if the send queue has no room.
func (p *peer) tryReport(n uint32) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	consumed := p.consumed.Load()
	if !p.up || consumed-p.reported < n {
		return true
	}
	return p.postHead(message{kind: kindFreed, freed: consumed}, noPacket) == nil
}

// sendDone notes that a send has ended, and frees its buffer if it has one. id is the ID of the send. ok is
// false if the queue pair has failed: then a packet in a buffer is counted here, and one in a slot by reset.
func (p *peer) sendDone(id uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posted--
	p.wakeSender()
	if id == noPacket {
		p.heads--
		p.in.heads.Add(-1)
	}
	if id >= sendBuffers || !p.buffersSent[id] {
		return
	}
	p.buffersSent[id] = false
	p.held--
	p.in.free <- uint16(id)
	if !ok {
		p.in.stats.dropped.Add(1)
		return
	}
	p.tookPackets(1)
}

var errFreed = errors.New("it says that it has done with more slots than it was sent")

// slotsDone frees the slots that the peer has consumed. freed is how many slots the peer has freed in this
// session, by its own count. It returns errFreed if that is more than were sent. reads says whether the peer
// reads the slots of this interface.
func (p *peer) slotsDone(freed uint32, reads bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readsOurs = reads
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
