package pool

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
)

// A pair is the two rings between this node and another one, and the engine's port for them. It is opened
// when a queue pair of either node needs the other node, and given back when none has used it for
// quietTime.
type pair struct {
	l *link
	session
	place // in this node's table; Publish of it is in session.go

	index  int    // in the table
	at     uint64 // where it is in the pool
	growth growth // of the ring that this node sends into; place has the ring with which the session began

	port    nic.Port
	send    *packetring.Producer
	receive *packetring.Consumer
	path    nic.Path
	waker   *waker
	flow    flow
	failed  atomic.Pointer[error] // why the device has given the port up; nil: it has not

	wasUp      bool          // the link has been up since the pair was opened
	leaving    bool          // Route returns the path no more: the pair is closed at the next look
	theirsUsed bool          // queue pairs of the other node use the pair
	wantedAt   time.Duration // when somebody asked for the path last
	traffic    uint64        // packets until the last look
	busy       time.Duration // when the pair was used last, on the clock of this node's own run
	next       time.Duration // when its use is looked at next
	counted    nic.PortStats // of the port, read by countUse
	countedAt  time.Duration
}

// Times of pairs that nobody uses. The look asks the engine's thread, and so wakes an engine that sleeps. A
// pair that is used is not given back before quietTime, so the next look at it comes shortly before that.
const (
	quietTime = 10 * time.Second
	lookTime  = 2 * time.Second
)

// openPair takes memory for rings to the peer, and gives the device a port for it.
func (l *link) openPair(ran time.Duration) (err error) {
	p := l.p
	r := &pair{l: l, place: place{peer: l.peer, ring: p.header.ring}, busy: ran}
	r.next = (ran/lookTime + 1) * lookTime
	if err := r.take(); err != nil {
		return err
	}
	defer func() {
		if l.pair != r { // also after a fault
			p.share.give(r.growth.now)
			p.share.pairs[r.index] = false
		}
	}()
	own := packetring.Place{Ring: r.bytes(), Count: p.view.mem[r.at+countAt:][:line]}
	r.send, err = packetring.NewProducerAt(own, r.ring, p.cache())
	if err != nil {
		return err
	}
	r.receive = packetring.NewConsumerAt(own.Count, p.cache())
	if p.header.sums { // an MTU is less than half of a data area, so the buffers of both are less than a ring
		r.send.CheckSums(p.header.mtu + headroom)
		r.receive.CheckSums(p.header.mtu+headroom, &l.wrongSums)
	}
	r.waker = newWaker(r)
	cfg := nic.PortConfig{
		Name: fmt.Sprintf("%s node %d", p.Name(), l.peer), Send: r.send, Receive: r.receive,
		MTU: p.mtu(), Jumbo: true, GRH: true,
		Failed: func(err error) { r.failed.Store(&err) },
	}
	r.waker.configure(&cfg)
	if f := p.cfg.Management; f != nil {
		cfg.Management = func(_ uint32, packet []byte) {
			if path := l.path.Load(); path != nil {
				f(*path, packet)
			}
		}
	}
	p.aside(func() { r.port, err = p.dev.AddPort(cfg) })
	if err != nil {
		return fmt.Errorf("the engine takes no port: %w", err)
	}
	r.path = nic.Path{Port: r.port, MTU: l.mtu()}
	l.path.Store(&r.path)
	l.pair = r
	l.change()
	p.reportRoom()
	return nil
}

// take takes a pair of the table and memory for a first ring. A node that only answers leaves room for one
// ring that its own queue pairs need.
func (r *pair) take() error {
	p, n := r.l.p, pagesOf(r.l.p.header.ring)
	var left uint64
	if !r.l.wanted.Load() {
		left = n
	}
	m, ok := p.takeSound(n, left)
	if !ok {
		return fmt.Errorf("this node's part of the pool has no room for a further ring: each part has %d bytes, and a ring %d; a larger pool (size=), or one for fewer nodes (nodes=), has more%s", p.header.part(), p.header.ring.RingSize(), p.share.aside())
	}
	r.index = p.share.takePair()
	if r.index < 0 {
		p.share.give(m)
		return fmt.Errorf("this node's part of the pool has no room for a further pair: it has %d", p.header.pairs())
	}
	r.growth.now, r.growth.ring = m, r.ring
	r.page, r.at = m.at, p.header.pairAt(p.number, r.index)
	return nil
}

// bytes returns the memory of the ring that this node sends into.
func (r *pair) bytes() []byte { return r.l.p.ringBytes(r.growth.now.at, r.growth.ring) }

// down makes the port down, and ends the session.
func (r *pair) down(up bool) {
	if up {
		r.l.p.aside(func() { r.port.SetUp(false) })
		r.waker.disconnect()
	}
	r.session = session{}
}

// close takes the port away from the device, and fences the memory. Queue pairs that use the port fail.
func (r *pair) close() {
	p := r.l.p
	last := r.mine
	if last == 0 {
		last = r.offered(p)
	}
	if r.l.up {
		r.l.ended = r.yours // the other node offers another one when it sees that
	}
	r.down(r.l.up)
	p.aside(func() { _ = r.port.Close() })
	r.l.pair = nil
	r.l.path.Store(nil)
	p.fences = append(p.fences, fence{
		l: r.l, peer: r.l.peer, index: r.index, theirs: r.l.theirs, memory: r.growth.all(), session: last,
		epoch: r.l.epoch, until: p.clock.ran + fenceTime,
	})
	r.l.change()
	if p.mute() {
		return
	}
	p.blankPair(r.at)
	p.putName(r.l.peer, false)
	p.reportChange()
	p.strays.due = true
}

// reportUsed says to the other node whether this one uses the pair.
func (r *pair) reportUsed(used bool) {
	if used == r.used {
		return
	}
	r.used = used
	r.l.p.view.putPlace(r.at, &r.place)
	r.l.p.view.writeBack(r.at, line)
}

// offered returns the session that the table says this node offers.
func (r *pair) offered(p *Pool) uint64 {
	if p.mute() {
		return 0
	}
	return p.view.word(r.at + mineAt)
}

// stats returns what the device counts of the port.
func (r *pair) stats() (s nic.PortStats) {
	r.l.p.aside(func() { s = r.port.Stats() })
	return s
}

// countUse reads the counts of all pairs whose use is looked at now, in one wait for the engine's thread: a
// wait costs a goroutine and a timer.
func (p *Pool) countUse(ran time.Duration) {
	var due []*pair
	for _, l := range p.links {
		if l != nil && l.pair != nil && ran >= l.pair.next {
			due = append(due, l.pair)
		}
	}
	if len(due) == 0 {
		return
	}
	p.aside(func() {
		for _, r := range due {
			r.counted = r.port.Stats()
		}
	})
	for _, r := range due {
		r.countedAt = ran
	}
}

// queried reports whether somebody has asked for the path of late: a queue pair may be about to use the pair.
func (r *pair) queried(ran time.Duration) bool {
	return r.l.wanted.Load() || r.wantedAt != 0 && ran-r.wantedAt < 2*lookTime
}

// setTheirsUsed notes whether queue pairs of the other node use the pair. Once they do not, its use is looked
// at soon.
func (r *pair) setTheirsUsed(used bool, ran time.Duration) {
	if r.theirsUsed && !used {
		r.next = min(r.next, (ran/lookTime+1)*lookTime)
	}
	r.theirsUsed = used
}

// quiet reports whether no queue pair of this node or of the other uses the pair, and no packet has come or
// gone and nobody has asked for the path for quietTime. It also says to the other node whether queue pairs
// of this one use it.
func (r *pair) quiet(ran time.Duration) bool {
	if r.l.wanted.Load() {
		r.l.wanted.Store(false)
		r.busy, r.wantedAt = ran, ran
		r.reportUsed(true) // or the other node gives the rings back before the queue pair uses them
	}
	if ran < r.next {
		return false
	}
	r.next = (ran/lookTime + 1) * lookTime // of all pairs at one time, so that the engine's thread wakes once
	s := r.counted
	if r.countedAt != ran {
		s = r.stats()
	}
	r.reportUsed(s.QueuePairs > 0 || r.wantedAt != 0 && ran-r.wantedAt < quietTime)
	if packets := s.Sent + s.Received; packets != r.traffic || s.QueuePairs > 0 || r.theirsUsed {
		r.traffic, r.busy = packets, ran
		r.next = (ran + quietTime) / lookTime * lookTime
	}
	return ran-r.busy > quietTime
}
