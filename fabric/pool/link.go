package pool

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
)

// Offsets in a node's line about another node. The first two words are how the two nodes agree on
// a session (session.go); the other two wake a sleeping engine (wake.go).
const (
	mineAt   = 0  // the session that the node offers, or 0
	yoursAt  = 8  // the session of the other node that it has accepted, or 0
	bellAt   = 16 // 4 bytes: the sleep of the other node that this node has ended
	asleepAt = 20 // 4 bytes: number of the sleep of this node's engine; 0: it is awake
)

// After a peer has written garbage, its link rests for this long. Each time it rests longer.
const (
	firstRest = time.Second
	mostRest  = time.Minute
)

// No engine restarts within this time. A link whose peer seems to do so rests, so a node that changes its
// epoch in each tick does not have a port made in each.
const livesApart = 10 * tick

// A link is the connection with one other node. The goroutine of watch owns it.
type link struct {
	p    *Pool
	peer int

	heartbeat uint64 // the peer's, as last seen
	seen      bool   // heartbeat was seen
	alive     bool   // heartbeat has moved
	moved     time.Time

	epoch    uint64    // the peer's life that the link is for; 0: none
	born     time.Time // when that life was seen first
	sequence uint64    // of desc
	desc     description

	port    nic.Port // nil: the device has none
	send    *packetring.Producer
	receive *packetring.Consumer
	path    atomic.Pointer[nic.Path]
	waker   *waker

	session session
	flow    flow

	boardSequence uint64 // sequence of the peer's board, as last read; 0: not since the link has come up

	up    bool
	why   string // if not up
	since time.Time

	failed    atomic.Pointer[error] // the device has given the port up
	rest      time.Duration
	restUntil time.Time
	faults    uint64 // how often the peer has written garbage
}

func newLink(p *Pool, peer int) *link {
	return &link{p: p, peer: peer, since: p.time.Now(), why: fmt.Sprintf("node %d has not been seen", peer), rest: firstRest}
}

// step looks at the other node and does what follows from that.
func (l *link) step(now time.Time) {
	seen := l.p.view.life(l.peer)
	if why := l.recordLife(&seen, now); why != "" {
		l.down(why)
		return
	}
	if seen.epoch != l.epoch && l.epoch != 0 {
		// The engine's queue pairs are gone with it.
		l.closePort(fmt.Sprintf("node %d has restarted", l.peer))
		l.epoch = 0
	}
	if err := l.readDescription(seen.epoch); err != nil {
		l.down(fmt.Sprintf("node %d: %v", l.peer, err))
		return
	}
	if failed := l.failed.Swap(nil); failed != nil {
		l.suspect(now)
		l.closePort(fmt.Sprintf("node %d has written garbage into its ring: %v", l.peer, *failed))
	}
	if now.Before(l.restUntil) {
		return
	}
	if l.port == nil {
		if err := l.openPort(); err != nil {
			l.down(err.Error())
			l.restUntil = now.Add(firstRest)
			return
		}
	}
	l.handshake()
	if l.up {
		l.receiveBoard()
		if why := l.stands(now); why != "" {
			l.suspect(now)
			l.down(why)
		}
	}
}

// suspect counts that the peer, or another writer in its name, has written what cannot be. The link rests
// before it is made anew, longer each time.
func (l *link) suspect(now time.Time) {
	if l.up && now.Sub(l.since) > mostRest {
		l.rest = firstRest // it was good for long
	}
	l.faults++
	l.p.changed = true
	l.restUntil = now.Add(l.rest)
	l.rest = min(2*l.rest, mostRest)
}

// recordLife records the other node's heartbeat, and returns why the node cannot be used, or "".
func (l *link) recordLife(seen *life, now time.Time) string {
	switch {
	case seen.state == stateLeft && seen.identity == l.p.header.identity:
		l.seen, l.alive = false, false
		return fmt.Sprintf("node %d has left the pool", l.peer)
	case seen.state != statePresent || seen.identity != l.p.header.identity || seen.epoch == 0 ||
		uint32(seen.epoch) != 0:
		l.seen, l.alive = false, false
		return fmt.Sprintf("node %d has not joined the pool", l.peer)
	case !l.seen:
		l.seen, l.alive, l.heartbeat, l.moved = true, false, seen.heartbeat, now
	case seen.heartbeat != l.heartbeat:
		l.alive, l.heartbeat, l.moved = true, seen.heartbeat, now
	case l.alive && now.Sub(l.moved) > l.p.cfg.Dead:
		l.alive = false
	}
	if !l.alive {
		return fmt.Sprintf("node %d gives no sign of life: its heartbeat stands still", l.peer)
	}
	return ""
}

// readDescription reads the other node's description if it has changed.
//
// Observe: sequence of the description, published by view.describe.
func (l *link) readDescription(epoch uint64) error {
	sequence := l.p.view.load(nodeAt(l.peer) + describeAt)
	if l.epoch == epoch && l.sequence == sequence {
		return nil
	}
	d, sequence, err := l.p.view.described(l.peer)
	switch {
	case errors.Is(err, errTorn) && l.epoch == epoch:
		return nil // what is known is good until it can be read
	case err != nil:
		return err
	case d.guid == l.p.dev.GUID():
		return fmt.Errorf("it says that it is this engine, %016x", d.guid)
	case l.epoch == epoch && (d.guid != l.desc.guid || d.mtu != l.desc.mtu || d.host != l.desc.host):
		return fmt.Errorf("it has changed what cannot change: GUID, MTU or host")
	}
	if l.epoch != epoch {
		now := l.p.time.Now()
		if now.Sub(l.born) < livesApart {
			l.restUntil = now.Add(firstRest)
		} else {
			l.rest, l.restUntil = firstRest, time.Time{}
		}
		l.born = now
	}
	l.epoch, l.sequence, l.desc = epoch, sequence, d
	l.p.changed = true
	return nil
}

// openPort gives the device a port for this peer. It begins down.
func (l *link) openPort() (err error) {
	p, me := l.p, l.p.cfg.Node
	ring := func(from, to int) []byte { return p.view.mem[p.header.ringAt(from, to):][:p.header.ring.Size()] }
	l.send, err = packetring.NewProducer(ring(me, l.peer), p.header.ring, p.cache())
	if err != nil {
		return err
	}
	l.receive, err = packetring.NewConsumer(ring(l.peer, me), p.header.ring, p.cache())
	if err != nil {
		return err
	}
	if err := l.flow.open(p, ring(me, l.peer), ring(l.peer, me)); err != nil {
		return err
	}
	l.waker = newWaker(l)
	cfg := nic.PortConfig{
		Name: fmt.Sprintf("%s node %d", p.Name(), l.peer), Send: l.send, Receive: l.receive,
		MTU: p.mtu(), Jumbo: true, GRH: true,
		Failed: func(err error) { l.failed.Store(&err) },
	}
	l.waker.configure(&cfg)
	if p.cfg.Management != nil {
		cfg.Management = func(_ uint32, packet []byte) {
			if path := l.path.Load(); path != nil {
				p.cfg.Management(*path, packet)
			}
		}
	}
	p.aside(func() { l.port, err = p.dev.AddPort(cfg) })
	if err != nil {
		l.port, l.waker = nil, nil
		return fmt.Errorf("the engine takes no port: %w", err)
	}
	l.path.Store(&nic.Path{Port: l.port, MTU: min(p.mtu(), l.desc.mtu&^3)})
	l.waker.listen(l.port)
	p.changed = true
	return nil
}

// down makes sure that the link is down, and says why.
func (l *link) down(why string) {
	if l.up {
		l.p.aside(func() {
			l.port.SetUp(false)
			l.withdrawBoard()
		})
		l.p.cfg.Log.Log(context.Background(), levelOf(why), "link down", "link", l.p.Name(), "node", l.peer,
			"why", why)
	}
	l.session.end(l)
	if l.up || l.why != why {
		l.up, l.why, l.since = false, why, l.p.time.Now()
		l.p.changed = true
	}
}

// wait says why the link is not up yet. The session goes on.
func (l *link) wait(why string) {
	if why = fmt.Sprintf(why, l.peer); l.why != why {
		l.why, l.since, l.p.changed = why, l.p.time.Now(), true
	}
}

// closePort takes the port away from the device. Its queue pairs fail.
func (l *link) closePort(why string) {
	l.down(why)
	if l.port == nil {
		return
	}
	l.p.aside(func() {
		_ = l.port.Close()
		l.waker.close()
	})
	l.failed.Store(nil)
	l.port, l.waker = nil, nil
	l.path.Store(nil)
	l.p.changed = true
}

// setUp makes the link usable.
func (l *link) setUp() {
	l.up, l.why, l.since = true, "", l.p.time.Now()
	l.p.changed = true
	l.flow.begin(l.since)
	l.p.cfg.Log.Info("link up", "link", l.p.Name(), "node", l.peer,
		"engine", fmt.Sprintf("%016x", l.desc.guid), "name", l.desc.name, "mtu", l.path.Load().MTU)
	l.p.aside(func() { l.port.SetUp(true) })
}
