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

// A peer is another interface. The goroutine that receives owns what is not under mu.
type peer struct {
	in        *Interface
	announced announcement
	device    uint64 // its engine
	client    uint32 // in that engine
	seen      bool   // in the announcements that are being looked at
	why       string // if it cannot be used: why

	// The session; session.go
	offer    uint32             // number of the own queue pair
	accepted uint32             // the peer's offer to which the queue pair is connected; 0: none
	reads    bool               // its slots can be read
	rest     time.Time          // until when the peer is left alone
	own      nicless.Descriptor // of the queue pair

	warned bool // a packet that was refused is in the log

	broken atomic.Bool // the session has failed

	// How many packets in its slots are done with, in this session. The goroutine that receives writes it.
	consumed atomic.Uint32

	mu       sync.Mutex
	qp       *nicless.QP
	up       bool              // both queue pairs are connected
	shared   bool              // the peer reads the slots of this interface
	posted   int               // sends without a completion
	held     int               // buffers and slots that are on the way to the peer
	sent     [sendBuffers]bool // buffers among them
	order    []uint16          // slots among them, oldest first
	freed    uint32            // slots that the peer has done with, in this session
	reported uint32            // consumed, as last sent to the peer
	credit   time.Duration     // how long packets wait for the peer from now on
	stalled  bool              // the credit is used up, and packets for the peer are dropped
	post     nicless.SendWR    // reused
	head     [messageSize]byte // reused
	sge      [1]nicless.SGE    // reused

	progress chan struct{} // gets a value when buffers or slots come back
	stats    counters
}

// stallTime is how long packets wait for a peer that holds as much as it may, and packetTime how much of that
// comes back with each packet that it takes. So a peer that is stopped costs the others stallTime once, and
// one that takes few packets a small part of their time.
const (
	stallTime  = 100 * time.Millisecond
	packetTime = 4 * time.Millisecond
)

// collectTime is how often the completions of sends are looked at while one is waited for.
const collectTime = 100 * time.Microsecond

func newPeer(in *Interface) *peer {
	return &peer{in: in, credit: stallTime, progress: make(chan struct{}, 1)}
}

// reset begins a session: nothing is on the way. mu is held.
func (p *peer) reset() {
	for n := range p.sent {
		if p.sent[n] {
			p.in.free <- uint16(n)
		}
	}
	p.sent = [sendBuffers]bool{}
	for _, n := range p.order {
		p.in.freeSlots <- n
	}
	p.order = p.order[:0]
	p.posted, p.held, p.freed, p.reported = 0, 0, 0, 0
	p.consumed.Store(0)
	p.up, p.shared, p.stalled = false, false, false
	p.moved()
}

// back notes that the peer has taken n packets. mu is held.
func (p *peer) back(n int) {
	p.credit = min(stallTime, p.credit+time.Duration(n)*packetTime)
	p.stalled = false
	p.moved()
}

// moved wakes a sender that waits for progress. mu is held.
func (p *peer) moved() {
	select {
	case p.progress <- struct{}{}:
	default:
	}
}

// errDropped says that a packet was not sent. The caller has its buffer still.
var errDropped = errors.New("dropped")

// mostHeld is how many buffers and slots a peer can hold. It is three quarters of the buffers.
const mostHeld = sendBuffers * 3 / 4

// full reports whether the peer holds as much as it may. The limit falls with the number of free ones: it is
// three times those that are free beside one for each peer that can come. So some are left for peers that
// hold none, however many others keep theirs. The last half of the send queue is for messages that report
// freed slots. mu is held.
func (p *peer) full(free freeList) bool {
	left := len(free) - min(MaxPeers, cap(free)/4)
	overShare := p.held > 0 && p.held >= 3*left
	return p.held >= mostHeld || p.posted >= sendQueue/2 || overShare
}

// wait waits until the peer can take a packet that is in a buffer or a slot of a list, but not for a peer
// that is stalled. It returns with mu held.
func (p *peer) wait(free freeList) error {
	p.in.collect() // also for a peer that is stalled: this is how it ceases to be
	p.mu.Lock()
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
		p.credit = max(0, p.credit-now.Sub(since))
		p.stalled = p.full(free) && p.credit == 0
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

// sendBuffer sends the virtio header and the packet, together length bytes, that are in a buffer behind
// the room for a message's head.
func (p *peer) sendBuffer(n uint16, length int) error {
	defer p.mu.Unlock()
	if err := p.wait(p.in.free); err != nil {
		return err
	}
	m := message{kind: kindPacket, length: uint32(length), freed: p.consumed.Load()}
	m.put((*[messageSize]byte)(p.in.send.at(int(n))))
	p.sge[0] = p.in.send.sge(int(n), messageSize+length)
	p.post = nicless.SendWR{ID: uint64(n), Op: nicless.Send, SGE: p.sge[:]}
	if err := p.postSend(); err != nil {
		return errDropped
	}
	p.sent[n] = true
	p.held++
	p.reported = m.freed
	p.stats.sent(length)
	return nil
}

// sendSlot sends the packet in a slot.
func (p *peer) sendSlot(n uint16, length int) error {
	defer p.mu.Unlock()
	if err := p.wait(p.in.freeSlots); err != nil {
		return err
	}
	p.in.tag = max(1, p.in.tag+1)
	s := p.in.slots
	s.publish(s.slot(s.own, int(n)), p.in.tag, length)
	m := message{kind: kindSlot, slot: n, length: uint32(length), freed: p.consumed.Load(), tag: p.in.tag}
	if err := p.postHead(m); err != nil {
		return errDropped
	}
	p.order = append(p.order, n)
	p.held++
	p.stats.sent(length)
	return nil
}

// noBuffer is the ID of a send that has no buffer.
const noBuffer = 1 << 16

// postHead posts a message of its head only. mu is held.
func (p *peer) postHead(m message) error {
	m.put(&p.head)
	p.post = nicless.SendWR{ID: noBuffer, Op: nicless.Send, Data: p.head[:]}
	err := p.postSend()
	if err == nil {
		p.reported = m.freed
	}
	return err
}

// reportFreed reports to the peer which of its slots are done with, if there are at least n more than
// reported. If the queue has no room, later messages will report them.
func (p *peer) reportFreed(n uint32) {
	if !p.tryReport(n) {
		p.in.collect() // makes room
		p.tryReport(n)
	}
}

func (p *peer) tryReport(n uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.consumed.Load(); p.up && now-p.reported >= n {
		return p.postHead(message{kind: kindFreed, freed: now}) == nil
	}
	return true
}

// sendDone takes back the buffer of a send that has ended.
func (p *peer) sendDone(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posted--
	p.moved()
	if n := uint16(id); id < sendBuffers && p.sent[n] {
		p.sent[n] = false
		p.held--
		p.in.free <- n
		p.back(1)
	}
}

var errFreed = errors.New("it says that it has done with more slots than it was sent")

// slotsDone takes back the slots that the peer has done with: so many in this session.
func (p *peer) slotsDone(freed uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := freed - p.freed
	if n == 0 {
		return nil
	}
	if uint64(n) > uint64(len(p.order)) {
		return errFreed
	}
	for _, slot := range p.order[:n] {
		p.in.freeSlots <- slot
	}
	p.order = slices.Delete(p.order, 0, int(n))
	p.held -= int(n)
	p.freed = freed
	p.back(int(n))
	return nil
}
