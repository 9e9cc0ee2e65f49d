//go:build linux && (amd64 || arm64)

package ucx

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/nic"
)

// A target is an address to which the carrier connects.
type target struct {
	to      string
	conn    uint32        // number of its newest connection; 0: none
	peer    *peer         // the engine that has answered there last; nil: none
	why     string        // if conn is 0: why there is no connection
	since   time.Time     // if conn is 0: since when
	rest    time.Duration // the pause before the next attempt
	resting bool          // no attempt is under way
	again   chan struct{} // requests an attempt at once: the process is ready, or keys have to be renewed
}

// A conn is a connection of the process with a peer that was met.
type conn struct {
	number    uint32
	process   *process
	wire      *wire
	token     [tokenSize]byte
	tickets   [][ticketSize]byte // tickets for connections of the peer's libucx to the process
	peer      *peer
	target    *target       // the target to which this engine has connected; nil: the peer has connected
	up        bool          // a message has come over UCX
	counts    [3]uint64     // packets sent, received and dropped, as the process has reported last
	news      chan struct{} // signals that the hello has changed
	helloSent uint32        // sequence of the hello that was sent last; guarded by Carrier.mu
	renewed   bool          // a newer connection was requested, with new keys
	ousted    bool          // the process was told to end it, to make room for others
	gone      chan struct{} // closed when the connection has ended
	why       string        // why it has ended
}

// A peer is one life of another engine.
type peer struct {
	hello  hello
	number uint32    // number of the path
	remote string    // address of its newest connection
	key    string    // key of the engine; "": no key was requested
	report string    // what nicless links says of the key of its newest connection that was up
	proven bool      // it was up once
	up     bool      // packets can be exchanged
	why    string    // if not up: why
	since  time.Time // since when it is up, or not
	counts *counts
}

type counts struct{ sent, received, dropped atomic.Uint64 }

// mostConns is CONNECTIONS of carrier/carrier.h.
const mostConns = 64

// mostSilent is how many connections that others have begun may be silent: no message has come over UCX. A
// silent connection has a place until a message comes, or until Config.Dead is over. So a stranger that
// connects again and again, and sends nothing, leaves the other places free.
const mostSilent = mostConns / 2

// mostPeers is how many engines are remembered. The program's table of paths is twice as large.
const mostPeers = 128

// pathSlots is PATHS of carrier/carrier.h: no two peers have path numbers that are equal modulo it.
const pathSlots = 256

// ended notes that there is no process now.
func (c *Carrier) ended(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil && !c.closing() {
		c.log.Warn("the carrier's process has ended", "why", why)
	}
	if c.process != nil {
		c.ready = make(chan struct{})
	}
	c.process, c.down = nil, why
	for number := range c.conns {
		c.lost(number, why)
	}
	c.changed()
	c.once.Do(func() { c.first <- fmt.Errorf("ucx: %s", strings.TrimPrefix(why, "ucx: ")) })
}

// handle does what follows from a message of the process.
func (c *Carrier) handle(p *process, m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m.kind {
	case msgReady:
		if p.ready {
			return
		}
		p.ready = true
		for i := range int(m.b) {
			p.doors = append(p.doors, doorName(m.body[i*doorSize:]))
		}
		p.worker = append([]byte(nil), m.body[int(m.b)*doorSize:]...)
		p.version = fmt.Sprintf("%d.%d.%d", m.a>>32, m.a>>16&0xffff, m.a&0xffff)
		c.process, c.down = p, ""
		c.log.Info("UCX works", "version", p.version, "process", p.pid)
		close(c.ready)
		for _, t := range c.targets {
			t.hurry()
		}
		c.once.Do(func() { c.first <- nil })
	case msgFatal:
		p.fatal = text(m.body)
	case msgTry:
		p.trying = m.number
	case msgUp:
		if k := c.conns[m.number]; k != nil {
			k.up = true
			c.raise(k)
		}
	case msgGone:
		c.lost(m.number, text(m.body))
		c.changed()
	case msgCounts:
		c.counted(p, m)
	}
}

// counted notes what the process has counted.
func (c *Carrier) counted(p *process, m *message) {
	if m.number == 0 {
		p.unknown = [3]uint64{m.a, m.b, m.c}
		return
	}
	k := c.conns[m.number]
	if k == nil {
		return
	}
	now := [3]uint64{m.a, m.b, m.c}
	sums := k.peer.counts
	for i, sum := range []*atomic.Uint64{&sums.sent, &sums.received, &sums.dropped} {
		sum.Add(now[i] - k.counts[i])
	}
	k.counts = now
	if max(m.a, m.b) > mostPackets {
		c.renew(k)
	}
}

// hurry ends the pause before the next attempt.
func (t *target) hurry() {
	select {
	case t.again <- struct{}{}:
	default:
	}
}

// pursue connects to a target, and again when the connection is lost, until Close.
func (c *Carrier) pursue(t *target) {
	defer c.loops.Done()
	type end struct {
		call int
		err  error
	}
	ended := make(chan end)
	call, running := 0, 0
	begin := func() {
		c.mu.Lock()
		t.resting = false
		c.mu.Unlock()
		call++
		running++
		this := call
		go func() { ended <- end{this, c.connectTo(t)} }()
	}
	defer func() {
		for ; running > 0; running-- {
			<-ended
		}
	}()
	begin()
	var pause <-chan time.Time
	for {
		select {
		case e := <-ended:
			running--
			switch {
			case e.call != call || c.closing():
			case running > 0: // the connection whose keys were to be renewed is still there
				call--
				c.notRenewed(t, e.err.Error())
			default:
				pause = time.After(c.noteFailure(t, e.err.Error()))
			}
		case <-pause:
			pause = nil
			begin()
		case <-t.again:
			if c.needsAttempt(t) {
				pause = nil
				begin()
			}
		case <-c.stop:
			return
		}
	}
}

// needsAttempt reports whether an attempt that was requested is needed: no attempt is under way, or the keys
// of the connection have to be renewed.
func (c *Carrier) needsAttempt(t *target) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.conns[t.conn]
	return t.resting || k != nil && k.renewed
}

// noteFailure notes that there is no connection to a target,
// and returns how long to wait before the next attempt.
func (c *Carrier) noteFailure(t *target, why string) (rest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.why != why || t.conn != 0 {
		c.log.Warn("not connected; it is tried again", "peer", t.to, "why", why, "within", mostRest)
		t.why, t.since = why, time.Now()
	}
	t.conn, t.resting = 0, true
	rest = t.rest
	t.rest = min(2*t.rest, mostRest)
	c.changed()
	return rest
}

// join makes a connection with an engine that was met: it checks the engine's offer, and tells the process
// how the process of the other engine is reached. active says whether this engine has connected.
func (c *Carrier) join(k *conn, o *offer, active bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := k.wire
	switch {
	case c.closing():
		return errors.New(closedHere)
	case c.process != k.process:
		return errNoProcess
	case len(c.conns) >= mostConns:
		return fmt.Errorf("%d connections are there already", len(c.conns))
	case c.banned(w, &o.hello):
		return errBanned
	}
	q, err := c.admitPeer(o.hello, w.key)
	if err != nil {
		return err
	}
	c.renewHello(q, o.hello)
	q.remote = w.conn.RemoteAddr().String()
	c.connNumbers++
	k.number, k.peer, k.gone = c.connNumbers, q, make(chan struct{})
	if k.target != nil {
		k.target.conn, k.target.peer, k.target.resting = k.number, q, false
	}
	if k.target == nil {
		c.makeRoom()
	}
	c.conns[k.number] = k
	for _, t := range k.tickets {
		c.tickets[t] = struct{}{}
	}
	open := opening{
		number: k.number, path: q.number, here: k.token, there: o.token, active: active,
		to: nameOf(netip.AddrPortFrom(w.remote, o.port)), any: o.anywhere,
		doors: o.doors, tickets: o.tickets, worker: o.worker,
	}
	w.keys(&open)
	if err := c.send(k.process, open.message()); err != nil {
		c.lost(k.number, err.Error())
		return errNoProcess
	}
	c.changed()
	return nil
}

// makeRoom ends a silent connection if there are too many: the oldest one of the source with the most. c.mu
// is held.
func (c *Carrier) makeRoom() {
	var silent []*conn
	for _, k := range c.conns {
		if k.target == nil && !k.up && !k.ousted {
			silent = append(silent, k)
		}
	}
	if len(silent) < mostSilent {
		return
	}
	slices.SortFunc(silent, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
	sources := make([]string, len(silent))
	for i, k := range silent {
		sources[i] = k.wire.source()
	}
	k := silent[oldestOfLargest(sources)]
	k.ousted = true
	_ = c.send(k.process, &message{kind: msgClose, number: k.number, body: []byte("others have called, and it says nothing over UCX")})
}

// renewHello notes a peer's hello, if it is not older than the last one: a peer may have two connections.
func (c *Carrier) renewHello(q *peer, h hello) {
	if q.hello.life != h.life || int32(h.sequence-q.hello.sequence) >= 0 {
		q.hello = h
	}
}

// renewed notes a hello that has come over a connection.
func (c *Carrier) renewed(k *conn, h hello) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.guid != k.peer.hello.guid || h.life != k.peer.hello.life {
		return errors.New("it says that it is another engine now")
	}
	c.renewHello(k.peer, h)
	c.changed()
	return nil
}

// hangUp ends a connection. It waits until the process has ended it, and returns why it has ended.
func (c *Carrier) hangUp(k *conn, why string) error {
	c.mu.Lock()
	if c.conns[k.number] == k {
		_ = c.send(k.process, &message{kind: msgClose, number: k.number, body: []byte(why)})
	}
	c.mu.Unlock()
	<-k.gone
	return errors.New(k.why)
}

// admitPeer returns the peer that sends this hello, or an error that says why it is refused. key is the one
// that it has proved to have.
func (c *Carrier) admitPeer(h hello, key string) (*peer, error) {
	if h.guid == c.hello.guid {
		return nil, fmt.Errorf("its GUID %016x is that of this engine", h.guid)
	}
	q := c.peers[h.guid]
	switch {
	case q != nil && q.key != "" && q.key != key:
		return nil, fmt.Errorf("the GUID %016x belongs to an engine with another key", h.guid)
	case q != nil && q.hello.life == h.life:
		return q, nil
	case q != nil && q.up:
		return nil, fmt.Errorf("another engine with the GUID %016x is connected", h.guid)
	case q == nil && len(c.peers) >= mostPeers && !c.dropOldPeer():
		return nil, fmt.Errorf("%d engines are connected already", len(c.peers))
	}
	if q != nil {
		c.log.Info("a peer has restarted; its queue pairs are gone", "engine", fmt.Sprintf("%016x", h.guid))
	}
	q = &peer{hello: h, key: key, why: "not connected yet", since: time.Now(), counts: &counts{}}
	for taken := true; taken; {
		c.numbers = max(1, c.numbers+1)
		taken = false
		for _, o := range c.peers {
			taken = taken || o.number%pathSlots == c.numbers%pathSlots
		}
	}
	q.number = c.numbers
	c.peers[h.guid] = q
	return q, nil
}

// dropOldPeer drops the peer that has been down for the longest time, one that has never been up if there is
// one. So the GUID of an engine that was up stays that of its key. It returns false if no peer is down.
func (c *Carrier) dropOldPeer() bool {
	var oldest *peer
	for _, q := range c.peers {
		if q.up {
			continue
		}
		if oldest == nil || (oldest.proven && !q.proven) ||
			(oldest.proven == q.proven && q.since.Before(oldest.since)) {
			oldest = q
		}
	}
	if oldest != nil {
		delete(c.peers, oldest.hello.guid)
	}
	return oldest != nil
}

// raise notes that packets can be exchanged over a connection: its peer is up.
func (c *Carrier) raise(k *conn) {
	if k.target != nil {
		k.target.rest = firstRest
	}
	c.age(k)
	q := k.peer
	q.report = k.wire.report
	if !q.up {
		q.up, q.proven, q.why, q.since = true, true, "", time.Now()
		c.log.Info("peer up", "peer", q.remote, "engine", fmt.Sprintf("%016x", q.hello.guid),
			"name", q.hello.name, "mtu", c.mtu(q))
	}
	c.changed()
}

// lost removes a connection that has ended.
func (c *Carrier) lost(number uint32, why string) {
	k := c.conns[number]
	if k == nil {
		return
	}
	delete(c.conns, number)
	for _, t := range k.tickets {
		delete(c.tickets, t)
	}
	k.why = why
	close(k.gone)
	c.loops.Add(1)
	go func() {
		defer c.loops.Done()
		k.wire.bye(why)
	}()
	q := k.peer
	for _, o := range c.conns {
		if o.peer == q && o.up {
			return // there is another connection with this peer
		}
	}
	if q.up && !c.closing() {
		c.log.Warn("peer down", "peer", q.remote, "engine", fmt.Sprintf("%016x", q.hello.guid), "why", why)
	}
	if q.up {
		q.since = time.Now()
	}
	q.up, q.why = false, why
}

// mtu returns the MTU of the path to a peer.
func (c *Carrier) mtu(q *peer) int { return min(c.cfg.MTU, q.hello.mtu) &^ 3 }

// changed reports to the engine whether the port works,
// which is whether there is a peer, and publishes the state.
func (c *Carrier) changed() {
	s := &state{}
	up := false
	for _, q := range c.peers {
		up = up || q.up
		name := q.hello.name
		if name == "" {
			name = q.remote
		}
		s.peers = append(s.peers, peerState{
			Peer: fabric.Peer{
				Name: name, GUID: q.hello.guid, Up: q.up, Why: q.why, Since: q.since,
				MTU: c.mtu(q), Keys: c.keysOf(q.up, q.report),
			},
			path:      nic.Path{Port: c.port, Number: q.number, Source: q.number, MTU: c.mtu(q)},
			addresses: q.hello.addresses, counts: q.counts,
		})
	}
	slices.SortFunc(s.peers, func(a, b peerState) int {
		return int(int64(a.path.Number) - int64(b.path.Number))
	})
	for _, t := range c.targets {
		// Otherwise it is among the peers.
		if t.conn == 0 && (t.peer == nil || c.peers[t.peer.hello.guid] != t.peer) {
			p := fabric.Peer{Name: t.to, Why: t.why, Since: t.since, Keys: c.keysOf(false, "")}
			s.peers = append(s.peers, peerState{Peer: p})
		}
	}
	if c.port != nil && up != c.up {
		c.up = up
		c.port.SetUp(up) // before the state is published: Route returns no peer to which the port cannot send
	}
	c.state.Store(s)
	c.reportAnnounced()
}

// reportAnnounced gives the engine the announcements of those peers that are up, as far as they are new.
func (c *Carrier) reportAnnounced() {
	for guid := range c.reported {
		if q := c.peers[guid]; q == nil || !q.up || len(q.hello.announced) == 0 {
			delete(c.reported, guid)
			c.dev.SetAnnounced(c, guid, nil)
		}
	}
	for guid, q := range c.peers {
		if list := q.hello.announced; q.up && !slices.Equal(list, c.reported[guid]) {
			c.reported[guid] = list
			c.dev.SetAnnounced(c, guid, list)
		}
	}
}
