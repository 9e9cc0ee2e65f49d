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
	helloSent uint32        // sequence of the hello that was sent last; guarded by Carrier.mu
	renewed   bool          // a newer connection was requested, with new keys
	ousted    bool          // the process was told to end the connection, to make room for others
	gone      chan struct{} // closed when the connection has ended
	why       string        // why the connection has ended

	helloChanged chan struct{} // signals that the hello of this engine has changed
}

// A peer is one life of another engine.
type peer struct {
	hello  hello
	number uint32    // number of the path
	remote string    // address of the newest connection
	key    string    // key of the engine; "": no key was requested
	report string    // what nicless links says of the key of the newest connection that was up
	proven bool      // the peer was up once
	up     bool      // packets can be exchanged
	why    string    // if up is false: why
	since  time.Time // when up has changed last
	counts *counts
}

// counts has the packets of all connections with a peer.
type counts struct{ sent, received, dropped atomic.Uint64 }

// mostConns is CONNECTIONS of carrier/carrier.h.
const mostConns = 64

// mostSilent is how many connections that other engines have begun may be silent. A connection is silent
// until a message has come over UCX. It ends if it is still silent after Config.Dead. So a stranger that
// connects again and again, and sends nothing, takes at most mostSilent of the mostConns places.
const mostSilent = mostConns / 2

// mostPeers is how many engines are remembered. The program's table of paths is twice as large.
const mostPeers = 128

// pathSlots is PATHS of carrier/carrier.h. No two peers have path numbers that are equal modulo pathSlots.
const pathSlots = 256

// ended notes that there is no process now. why is the reason.
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
		worker := m.body[int(m.b)*doorSize:] // behind the names of m.b doors
		p.worker = append([]byte(nil), worker...)
		major, minor, release := m.a>>32, m.a>>16&0xffff, m.a&0xffff
		p.version = fmt.Sprintf("%d.%d.%d", major, minor, release)
		c.process, c.down = p, ""
		c.log.Info("UCX works", "version", p.version, "process", p.pid)
		close(c.ready)
		for _, t := range c.targets {
			t.attemptNow()
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

// counted adds up what the process has counted since its last message of this kind.
func (c *Carrier) counted(p *process, m *message) {
	if m.number == 0 { // messages of no connection
		p.unknown = [3]uint64{m.a, m.b, m.c}
		return
	}
	k := c.conns[m.number]
	if k == nil {
		return
	}
	counts := [3]uint64{m.a, m.b, m.c} // of this connection, since it began
	sums := k.peer.counts
	for i, sum := range []*atomic.Uint64{&sums.sent, &sums.received, &sums.dropped} {
		sum.Add(counts[i] - k.counts[i])
	}
	k.counts = counts
	if max(m.a, m.b) > mostPackets {
		c.renew(k)
	}
}

// join makes a connection with an engine that was met: it checks the engine's offer, and tells the process of
// this engine how to reach the process of the other engine. active says whether this engine has connected.
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
	c.lastConnNumber++
	k.number, k.peer, k.gone = c.lastConnNumber, q, make(chan struct{})
	if t := k.target; t != nil {
		t.conn, t.peer, t.pausing = k.number, q, false
	} else {
		c.makeRoom()
	}
	c.conns[k.number] = k
	for _, t := range k.tickets {
		c.tickets[t] = struct{}{}
	}
	open := opening{
		number: k.number, path: q.number, here: k.token, there: o.token, active: active,
		to: nameOf(netip.AddrPortFrom(w.remote, o.port)), any: o.onAllAddresses,
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

// makeRoom ends a silent connection if there are too many silent connections that other engines have begun.
// It chooses the source that has the most of them, and ends the oldest of this source. c.mu is held.
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
	// The oldest first.
	slices.SortFunc(silent, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
	sources := make([]string, len(silent))
	for i, k := range silent {
		sources[i] = k.wire.source()
	}
	k := silent[oldestOfLargest(sources)]
	k.ousted = true
	_ = c.send(k.process, &message{kind: msgClose, number: k.number, body: []byte("others have called, and it says nothing over UCX")})
}

// renewHello notes a peer's hello, unless it is older than the hello that was noted last: a peer may have two
// connections, so hellos may come in another order.
func (c *Carrier) renewHello(q *peer, h hello) {
	isOlder := int32(h.sequence-q.hello.sequence) < 0 // sequences wrap around
	if q.hello.life != h.life || !isOlder {
		q.hello = h
	}
}

// renewed notes a hello that has come over a connection. The error says why the hello is refused.
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

// hangUp ends a connection because of why. It waits until the process has ended the connection, and returns
// why the connection has ended: another reason may have been first.
func (c *Carrier) hangUp(k *conn, why string) error {
	c.mu.Lock()
	if c.conns[k.number] == k {
		_ = c.send(k.process, &message{kind: msgClose, number: k.number, body: []byte(why)})
	}
	c.mu.Unlock()
	<-k.gone
	return errors.New(k.why)
}

// admitPeer returns the peer that sends a hello, or an error that says why the peer is refused. key is the
// key that the peer has proved to have; "": none.
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
		c.lastPathNumber = max(1, c.lastPathNumber+1) // not 0 after it wraps around
		taken = false
		for _, o := range c.peers {
			taken = taken || o.number%pathSlots == c.lastPathNumber%pathSlots
		}
	}
	q.number = c.lastPathNumber
	c.peers[h.guid] = q
	return q, nil
}

// dropOldPeer drops the peer that has been down for the longest time. Peers that have never been up are
// dropped before all others, so the GUID of an engine that was up stays bound to the engine's key.
// dropOldPeer returns false if no peer is down.
func (c *Carrier) dropOldPeer() bool {
	var oldest *peer
	for _, q := range c.peers {
		if q.up {
			continue
		}
		switch {
		case oldest == nil:
			oldest = q
		case oldest.proven != q.proven:
			if !q.proven {
				oldest = q
			}
		case q.since.Before(oldest.since):
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
		k.target.pause = firstPause
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

// changed publishes the state, and reports to the engine whether the port works: it works if a peer is up.
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
		isPeer := t.peer != nil && c.peers[t.peer.hello.guid] == t.peer // then it is in the list above
		if t.conn == 0 && !isPeer {
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

// reportAnnounced gives the engine the announcements of the peers that are up, if they have changed, and
// takes back those of the other peers.
func (c *Carrier) reportAnnounced() {
	for guid := range c.reported {
		q := c.peers[guid]
		announces := q != nil && q.up && len(q.hello.announced) > 0
		if !announces {
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
