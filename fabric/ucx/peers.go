//go:build linux && (amd64 || arm64)

package ucx

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/nic"
)

// A target is an address to which the carrier connects.
type target struct {
	number uint32
	to     string
	conn   uint32 // number of its connection; 0: none
	peer   *peer  // the engine that has answered there last; nil: none
	why    string // if conn is 0: why
	since  time.Time
	rest   time.Duration // before the next attempt
}

// A conn is a connection of the process that has said hello.
type conn struct {
	peer   *peer
	target *target // nil: the peer has connected
	up     bool
	counts [3]uint64 // as the process has told last
}

// A peer is one life of another engine.
type peer struct {
	hello  hello
	number uint32 // of the path
	remote string
	up     bool
	why    string
	since  time.Time
	counts *counts
}

type counts struct{ sent, received, dropped atomic.Uint64 }

// mostPeers is how many engines are remembered. The program's table of paths is twice as large.
const mostPeers = 128

// pathSlots is PATHS of carrier/carrier.h: no two peers have path numbers that are equal modulo it.
const pathSlots = 256

// begin tells a new process what it must know.
func (c *Carrier) begin(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.send(p, &message{kind: msgHello, body: c.hello.append(nil)})
}

// ended notes that there is no process now.
func (c *Carrier) ended(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil && !c.closing() {
		c.log.Warn("the carrier's process has ended", "why", why)
	}
	c.process, c.down = nil, why
	for number := range c.conns {
		c.drop(number, why)
	}
	for _, t := range c.targets {
		t.conn, t.why, t.since = 0, why, time.Now()
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
		c.process, c.down = p, ""
		c.log.Info("UCX works", "version", fmt.Sprintf("%d.%d.%d", m.a>>32, m.a>>16&0xffff, m.a&0xffff), "process", p.pid)
		for _, t := range c.targets {
			c.connect(p, t)
		}
		c.once.Do(func() { c.first <- nil })
	case msgFatal:
		p.fatal = text(m.body)
	case msgMet:
		c.met(p, m)
	case msgUp:
		if k := c.conns[m.number]; k != nil {
			k.up = true
			c.raise(k)
		}
	case msgGone:
		c.gone(p, m)
	case msgCounts:
		if k := c.conns[m.number]; k != nil {
			now := [3]uint64{m.a, m.b, m.c}
			for i, sum := range []*atomic.Uint64{&k.peer.counts.sent, &k.peer.counts.received, &k.peer.counts.dropped} {
				sum.Add(now[i] - k.counts[i])
			}
			k.counts = now
		}
	}
}

// connect asks the process to connect to a target. Names are looked up on a goroutine, because
// that can take long.
func (c *Carrier) connect(p *process, t *target) {
	to := t.to
	go func() {
		a, err := net.ResolveTCPAddr("tcp", to)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.process != p || t.conn != 0 {
			return
		}
		if err != nil {
			c.retry(p, t, err.Error())
			return
		}
		host := a.IP.String()
		if a.Zone != "" {
			host += "%" + a.Zone
		}
		_ = c.send(p, &message{kind: msgConnect, number: t.number, body: fmt.Appendf(nil, "%s\x00%d\x00", host, a.Port)})
	}()
}

// retry connects to a target again after a pause.
func (c *Carrier) retry(p *process, t *target, why string) {
	if t.why != why || t.conn != 0 {
		c.log.Warn("not connected; it is tried again", "peer", t.to, "why", why, "within", mostRest)
		t.why, t.since = why, time.Now()
	}
	t.conn = 0
	time.AfterFunc(t.rest, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.process == p && t.conn == 0 {
			c.connect(p, t)
		}
	})
	t.rest = min(2*t.rest, mostRest)
	c.changed()
}

// met judges a hello: the first of a connection, or a new one.
func (c *Carrier) met(p *process, m *message) {
	remote := text(m.body[:m.b])
	h, err := parseHello(m.body[m.b:])
	known := c.conns[m.number]
	var q *peer
	if err == nil {
		q, err = c.judge(h, known)
	}
	if err != nil {
		c.log.Warn("peer refused", "peer", remote, "why", err)
		_ = c.send(p, &message{kind: msgRefuse, number: m.number, body: []byte("refused: " + err.Error())})
		return
	}
	if q.hello.life != h.life || int32(h.sequence-q.hello.sequence) >= 0 { // UCX may deliver an older one later
		q.hello = h
	}
	if known != nil {
		c.changed()
		return
	}
	q.remote = remote
	k := &conn{peer: q}
	if i := int(m.a) - 1; i >= 0 && i < len(c.targets) {
		k.target = c.targets[i]
		k.target.conn, k.target.peer = m.number, q
	}
	c.conns[m.number] = k
	_ = c.send(p, &message{kind: msgAccept, number: m.number, a: uint64(q.number)})
	c.changed()
}

// judge returns the peer that says this hello, or an error that says why it is refused.
func (c *Carrier) judge(h hello, known *conn) (*peer, error) {
	if h.guid == c.hello.guid {
		return nil, fmt.Errorf("its GUID %016x is that of this engine", h.guid)
	}
	q := c.peers[h.guid]
	switch {
	case known != nil && (q != known.peer || q.hello.life != h.life):
		return nil, fmt.Errorf("it says that it is another engine now")
	case q != nil && q.hello.life == h.life:
		return q, nil
	case q != nil && q.up:
		return nil, fmt.Errorf("another engine with the GUID %016x is connected", h.guid)
	case q == nil && len(c.peers) >= mostPeers && !c.forget():
		return nil, fmt.Errorf("%d engines are connected already", len(c.peers))
	}
	if q != nil {
		c.log.Info("a peer has restarted; its queue pairs are gone", "engine", fmt.Sprintf("%016x", h.guid))
	}
	q = &peer{hello: h, why: "not connected yet", since: time.Now(), counts: &counts{}}
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

// forget forgets the peer that has been down for the longest time. It returns false if there is none.
func (c *Carrier) forget() bool {
	var oldest *peer
	for _, q := range c.peers {
		if !q.up && (oldest == nil || q.since.Before(oldest.since)) {
			oldest = q
		}
	}
	if oldest != nil {
		delete(c.peers, oldest.hello.guid)
	}
	return oldest != nil
}

// raise notes that packets can be exchanged over a connection.
func (c *Carrier) raise(k *conn) {
	if k.target != nil {
		k.target.rest = firstRest
	}
	if q := k.peer; !q.up {
		q.up, q.why, q.since = true, "", time.Now()
		c.log.Info("peer up", "peer", q.remote, "engine", fmt.Sprintf("%016x", q.hello.guid), "name", q.hello.name, "mtu", c.mtu(q))
	}
	c.changed()
}

// gone notes that a connection has ended, or was never made.
func (c *Carrier) gone(p *process, m *message) {
	why := text(m.body)
	if c.conns[m.number] == nil && m.a == 0 {
		c.log.Warn("a connection has ended before it was accepted", "why", why)
	}
	c.drop(m.number, why)
	if i := int(m.a) - 1; i >= 0 && i < len(c.targets) {
		c.retry(p, c.targets[i], why)
	}
	c.changed()
}

// drop forgets a connection.
func (c *Carrier) drop(number uint32, why string) {
	k := c.conns[number]
	if k == nil {
		return
	}
	delete(c.conns, number)
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

// changed tells the engine whether the port works, which is whether there is a peer, and publishes
// the state.
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
			Peer:      fabric.Peer{Name: name, GUID: q.hello.guid, Up: q.up, Why: q.why, Since: q.since, MTU: c.mtu(q)},
			path:      nic.Path{Port: c.port, Number: q.number, Source: q.number, MTU: c.mtu(q)},
			addresses: q.hello.addresses, counts: q.counts,
		})
	}
	slices.SortFunc(s.peers, func(a, b peerState) int { return int(int64(a.path.Number) - int64(b.path.Number)) })
	for _, t := range c.targets {
		if t.conn == 0 && (t.peer == nil || c.peers[t.peer.hello.guid] != t.peer) { // else it is among the peers
			s.peers = append(s.peers, peerState{Peer: fabric.Peer{Name: t.to, Why: t.why, Since: t.since}})
		}
	}
	if c.port != nil && up != c.up {
		c.up = up
		c.port.SetUp(up) // first, so that a peer that is up can be sent to
	}
	c.state.Store(s)
	c.tellEngine()
}

// tellEngine tells the engine what the clients of those peers announce that are up, as far as that is new.
func (c *Carrier) tellEngine() {
	for guid := range c.told {
		if q := c.peers[guid]; q == nil || !q.up || len(q.hello.announced) == 0 {
			delete(c.told, guid)
			c.dev.SetAnnounced(c, guid, nil)
		}
	}
	for guid, q := range c.peers {
		if list := q.hello.announced; q.up && !slices.Equal(list, c.told[guid]) {
			c.told[guid] = list
			c.dev.SetAnnounced(c, guid, list)
		}
	}
}
