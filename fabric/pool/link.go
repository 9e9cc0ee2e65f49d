package pool

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/nic"
)

// How long a link rests after its peer has written garbage: longer each time, from firstRest to mostRest.
const (
	firstRest = time.Second
	mostRest  = time.Minute
)

// A link is what this node knows of another one, its peer, and the rings between them, if they are open. The
// goroutine of watch uses it; other goroutines use only the atomic fields.
type link struct {
	p    *Pool
	peer int    // number of the other node
	part uint64 // where the peer's part of the pool begins

	// Whether the peer lives (peer_life.go).
	heartbeat uint64        // the heartbeat that was seen last
	seen      bool          // a heartbeat was seen
	alive     bool          // the heartbeat has moved since it was seen first
	moved     time.Duration // when it was seen to move last, on the clock of this node's own run
	room      uint64        // how many rings the peer has room for, as it says
	looks     uint32        // how often the peer has looked at summaries

	epoch         uint64      // the life of the peer that the link is for; 0: none
	born          time.Time   // when that life was seen first
	desc          description // what the peer says of itself
	sequence      uint64      // sequence of desc
	describedSeen uint64      // the sequence that the peer's first line had then

	boardSequence uint64        // sequence of the peer's board that was read last; 0: none
	postedSeen    uint64        // the sequence that the peer's first line had then
	announced     []board.Entry // what the board has, until the device is given it
	listed        bool          // the device has what a board has, or is to be given it

	theirs  int    // index of the pair that names this node in the peer's table; -1: none
	changes uint64 // changes of that table when it was searched last
	ended   uint64 // session of the peer that this node has ended by closing its pair

	pair   *pair // nil: the rings are not open
	path   atomic.Pointer[nic.Path]
	wanted atomic.Bool // a queue pair of this node needs the peer

	up    bool
	why   string    // if not up: why
	since time.Time // since when the link is up, or is not up because of why

	stale bool // what the state has of the link is to be replaced

	wrongSums atomic.Uint64 // how often a packet of the peer was looked at whose check sum was wrong
	faults    uint64        // how often the peer has written garbage
	rest      time.Duration // how long the link rests after the next fault
	restUntil time.Time     // until when it rests
}

func newLink(p *Pool, peer int) *link {
	return &link{
		p: p, peer: peer, part: p.header.partAt(peer), theirs: -1, since: p.time.Now(), rest: firstRest,
		why: fmt.Sprintf("node %d has not been seen", peer),
	}
}

// change notes that what the state has of the link is to be replaced.
func (l *link) change() {
	l.p.changed = true
	if !l.stale {
		l.stale = true
		l.p.stale = append(l.p.stale, l)
	}
}

// mtu returns the most bytes of payload in a packet to the peer.
func (l *link) mtu() int { return min(l.p.mtu(), l.desc.mtu&^3) }

// space returns the memory of the peer's rings.
func (l *link) space() []byte {
	h := &l.p.header
	return l.p.view.mem[l.part+h.ringsAt():][:h.pages()<<12]
}

// theirsAt returns where the pair is that names this node in the peer's table. There is one.
func (l *link) theirsAt() uint64 { return l.p.header.pairAt(l.peer, l.theirs) }

// step looks at the other node, and opens, closes or changes the link as the other node requires. ran is
// the time in which this node itself ran (silence.go).
func (l *link) step(now time.Time, ran time.Duration) {
	seen := l.p.view.life(l.part)
	if why := l.recordLife(&seen, ran); why != "" {
		l.withdrawBoard()
		l.down(why)
		if l.pair != nil {
			l.pair.setTheirsUsed(false, ran) // or this node would never give them back
		}
		l.giveBack(ran)
		return
	}
	l.noticeRestart(seen.epoch)
	if err := l.readDescription(&seen); err != nil {
		l.down(fmt.Sprintf("node %d: %v", l.peer, err))
		return
	}
	l.receiveBoard(seen.posted)
	l.search(seen.changes)
	l.takeFailure(now, ran)
	if now.Before(l.restUntil) {
		return
	}
	if why := l.apart(); why != "" {
		l.close(why)
		return
	}
	if l.pair == nil {
		l.open(now, ran)
	}
	if l.pair != nil {
		l.stepPair(now, ran)
	}
}

// apart returns why this node uses no rings with the peer whatever happens, or "".
func (l *link) apart() string {
	p := l.p
	if p.host == 0 || l.desc.host == 0 || p.host == l.desc.host || p.header.incoherent || p.header.coherent {
		return ""
	}
	return fmt.Sprintf("node %d is on another host, and nothing says that caches of different hosts are coherent: format the pool with coherence=none, or with coherence=full if the hardware keeps them coherent", l.peer)
}

// mostSearches is how many tables a node searches in each tick: 131,072 lines in a pool of parts with 2,048
// pairs, whoever says that tables have changed. The others come with later ticks.
const mostSearches = 64

// search finds the pair that names this node in the peer's table, if the table has changed and names this
// node, as far as the peer says so.
func (l *link) search(changes uint64) {
	if changes == l.changes {
		return
	}
	if l.theirs < 0 && l.desc.names && !l.p.view.names(l.part, l.p.number) {
		l.changes = changes
		return
	}
	if l.p.searches >= mostSearches {
		return
	}
	l.p.searches++
	l.changes, l.theirs = changes, l.p.view.find(&l.p.header, l.peer, l.p.number)
}

// read returns the pair that names this node in the peer's table, noEntry if there is none.
func (l *link) read() entry {
	if l.theirs < 0 {
		return noEntry
	}
	e := l.p.view.pair(l.theirsAt())
	if e.peer != l.p.number {
		l.theirs = -1
		return noEntry
	}
	return e
}

// open opens the rings if a queue pair of this node needs the peer, or if the peer offers a session.
func (l *link) open(now time.Time, ran time.Duration) {
	offered := l.read().offered
	called := offered>>32 == l.epoch>>32 && offered != l.ended
	if !called && !l.wanted.Load() {
		l.idle()
		return
	}
	if fenced(l.p.fences, l.peer) {
		l.down(fmt.Sprintf("node %d does not let rings go that have ended", l.peer))
		return
	}
	if err := l.openPair(ran); err != nil {
		l.down(err.Error())
		l.restUntil = now.Add(firstRest)
	}
	l.wanted.Store(false)
}

// idle notes that the peer can be reached as soon as somebody wants to.
func (l *link) idle() {
	if l.why != "" {
		l.why, l.since = "", l.p.time.Now()
		l.change()
		l.p.cfg.Log.Info("node seen", "link", l.p.Name(), "node", l.peer,
			"engine", fmt.Sprintf("%016x", l.desc.guid), "name", l.desc.name)
	}
}

// stepPair takes the next step of open rings.
func (l *link) stepPair(now time.Time, ran time.Duration) {
	l.handshake()
	if !l.up {
		l.p.strays.due = true
		l.giveBack(ran)
		return
	}
	if why := l.stands(ran); why != "" {
		l.suspect(now)
		l.down(why)
		return
	}
	l.pair.grow()
	l.giveBack(ran)
}

// giveBack closes the rings if nobody has used them for some time.
func (l *link) giveBack(ran time.Duration) {
	r := l.pair
	switch {
	case r == nil:
	case r.leaving:
		r.next = ran
		if r.quiet(ran) {
			l.idleAgain("nobody uses them")
			return
		}
		r.leaving = false
		l.change()
	case r.quiet(ran):
		r.leaving = true
		l.change() // nobody gets the path from the end of this look on
	}
}

// idleAgain closes the rings. They are opened again by need.
func (l *link) idleAgain(why string) {
	l.p.cfg.Log.Info("rings given back", "link", l.p.Name(), "node", l.peer, "why", why)
	l.pair.close()
	l.up = false
	if l.alive {
		l.why, l.since = "", l.p.time.Now()
	}
}

// suspect counts that the peer, or another writer in its name, has written what cannot be. The link rests
// before it is made anew, longer each time.
func (l *link) suspect(now time.Time) {
	l.faults++
	l.restAgain(now)
}

// restAgain makes the link rest, longer each time.
func (l *link) restAgain(now time.Time) {
	if l.up && now.Sub(l.since) > mostRest {
		l.rest = firstRest // it was right for long
	}
	l.restUntil = now.Add(l.rest)
	l.rest = min(2*l.rest, mostRest)
	l.change()
}

// down makes the link down if it is up, and records why it is down.
func (l *link) down(why string) {
	up := l.up
	if l.pair != nil {
		l.pair.down(up)
	}
	if up {
		l.p.cfg.Log.Log(context.Background(), levelOf(why), "link down", "link", l.p.Name(), "node", l.peer,
			"why", why)
	}
	if up || l.why != why {
		l.up, l.why, l.since = false, why, l.p.time.Now()
		l.change()
	}
}

// wait records why the link is not up yet. The session goes on. The format has the number of the other node.
func (l *link) wait(format string) {
	if why := fmt.Sprintf(format, l.peer); l.why != why {
		l.why, l.since = why, l.p.time.Now()
		l.change()
	}
}

// unanswered returns the format of why the peer has not begun the link.
func (l *link) unanswered() string {
	if l.room == 0 && l.theirs < 0 {
		return "node %d has no room for a further ring in its part of the pool; a larger pool (size=), or one for fewer nodes (nodes=), has more"
	}
	return "node %d has not begun the link"
}

// close makes the link down, and takes the port away from the device. Queue pairs that use the port fail.
func (l *link) close(why string) {
	l.down(why)
	if l.pair != nil {
		l.pair.close()
	}
}

// setUp makes the link up: both nodes have agreed on a session.
func (l *link) setUp() {
	r, p := l.pair, l.p
	l.up, r.wasUp, l.why, l.since = true, true, "", p.time.Now()
	l.change()
	r.giveOld()
	r.flow.begin(r, p.clock.ran)
	p.cfg.Log.Info("link up", "link", p.Name(), "node", l.peer,
		"engine", fmt.Sprintf("%016x", l.desc.guid), "name", l.desc.name, "mtu", r.path.MTU)
	r.waker.connect(l.theirsAt())
	p.aside(func() { r.port.SetUp(true) })
	r.waker.listen(r.port)
}
