package pool

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
)

// Offsets in a node's line about another node. The first two words are how the two nodes agree on
// a session (session.go); the other two wake a sleeping engine (wake.go).
const (
	mineAt   = 0  // the session that the node offers; 0: none
	yoursAt  = 8  // the session of the other node that the node has accepted; 0: none
	bellAt   = 16 // 4 bytes: number of the other node's sleep that the node has ended
	asleepAt = 20 // 4 bytes: number of the sleep of the node's engine; 0: it is awake
)

// How long a link rests after its peer has written garbage: longer each time, from firstRest to mostRest.
const (
	firstRest = time.Second
	mostRest  = time.Minute
)

// A link is the connection with one other node, its peer. The goroutine of watch uses it; other goroutines
// use only the atomic fields and the waker.
type link struct {
	p    *Pool
	peer int // number of the other node

	// Whether the peer lives (peer_life.go).
	heartbeat uint64        // the heartbeat that was seen last
	seen      bool          // a heartbeat was seen
	alive     bool          // the heartbeat has moved since it was seen first
	moved     time.Duration // when it was seen to move last, on the clock of this node's own run

	epoch    uint64      // the life of the peer that the link is for; 0: none
	born     time.Time   // when that life was seen first
	desc     description // what the peer says of itself
	sequence uint64      // sequence of desc

	port    nic.Port // nil: the device has no port for this peer
	send    *packetring.Producer
	receive *packetring.Consumer
	path    atomic.Pointer[nic.Path]
	waker   *waker

	session session
	flow    flow

	boardSequence uint64 // sequence of the peer's board that was read last; 0: none since the link is up

	up    bool
	why   string    // if not up: why
	since time.Time // since when the link is up, or is not up because of why

	failed    atomic.Pointer[error] // why the device has given the port up; nil: it has not
	faults    uint64                // how often the peer has written garbage
	rest      time.Duration         // how long the link rests after the next fault
	restUntil time.Time             // until when it rests
}

func newLink(p *Pool, peer int) *link {
	return &link{p: p, peer: peer, since: p.time.Now(), why: fmt.Sprintf("node %d has not been seen", peer), rest: firstRest}
}

// step looks at the other node, and opens, closes or changes the link as the other node requires. ran is
// the time in which this node itself ran (silence.go).
func (l *link) step(now time.Time, ran time.Duration) {
	seen := l.p.view.life(l.peer)
	if why := l.recordLife(&seen, ran); why != "" {
		l.down(why)
		return
	}
	l.noticeRestart(seen.epoch)
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
		if why := l.stands(ran); why != "" {
			l.suspect(now)
			l.down(why)
		}
	}
}

// suspect counts that the peer, or another writer in its name, has written what cannot be. The link rests
// before it is made anew, longer each time.
func (l *link) suspect(now time.Time) {
	if l.up && now.Sub(l.since) > mostRest {
		l.rest = firstRest // the link was good for a long time
	}
	l.faults++
	l.p.changed = true
	l.restUntil = now.Add(l.rest)
	l.rest = min(2*l.rest, mostRest)
}

// openPort gives the device a port for this peer. The port is down at first.
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

// down makes the link down if it is up, and records why it is down.
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

// wait records why the link is not up yet. The session goes on. The format has the number of the other node.
func (l *link) wait(format string) {
	if why := fmt.Sprintf(format, l.peer); l.why != why {
		l.why, l.since, l.p.changed = why, l.p.time.Now(), true
	}
}

// closePort makes the link down, and takes the port away from the device. Queue pairs that use the port fail.
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

// setUp makes the link up: both nodes have agreed on a session.
func (l *link) setUp() {
	l.up, l.why, l.since = true, "", l.p.time.Now()
	l.p.changed = true
	l.flow.begin(l.p.clock.ran)
	l.p.cfg.Log.Info("link up", "link", l.p.Name(), "node", l.peer,
		"engine", fmt.Sprintf("%016x", l.desc.guid), "name", l.desc.name, "mtu", l.path.Load().MTU)
	l.p.aside(func() { l.port.SetUp(true) })
}
