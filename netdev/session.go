//go:build linux && (amd64 || arm64)

package netdev

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/nicless/nicless"
)

// sendQueue is the room of a queue pair: for packets, and for as many messages without one.
const sendQueue = 2 * sendBuffers

// retryTime is how long a peer that could not be reached is left alone before the next try.
const retryTime = 500 * time.Millisecond

// connection has no limit of RNR retries, so a send waits for as long as the peer has no receives left. It
// requests short RNR pauses.
var connection = nicless.Connection{MinRNRTimer: 6}

// step takes the next step of a session. A session comes up in these steps, each of which one side announces:
//
//  1. Each side makes a queue pair, and offers it.
//  2. A side connects its queue pair to the other side's offer. If the other side has accepted an earlier
//     offer of this side, this side waits until the other side makes another offer.
//  3. A side whose queue pair is connected, and whose offer is accepted, sends packets.
//
// A side that sees another offer than the one it has accepted, or whose queue pair has failed, makes
// another queue pair and offers that.
func (p *peer) step() error {
	if time.Now().Before(p.retryAt) {
		return nil
	}
	theirs := p.announced.about(p.in.life)
	anew := p.accepted != 0 && theirs.offer != p.accepted
	if p.broken.Load() || anew || p.qp == nil {
		why := "its queue pair has failed"
		if anew {
			why = "it begins the connection anew"
		}
		if err := p.end(why); err != nil {
			return err
		}
		if err := p.begin(); err != nil {
			p.unreachable(err)
			return nil
		}
	}
	if s := p.in.slots; s != nil {
		// The signature alone is not enough: with another number of slots, the areas are in other places.
		p.readable = p.announced.slots == s.count && s.signedBy(p.announced.area, p.announced.life)
	}
	acceptedEarlier := theirs.accepted != 0 && theirs.accepted != p.offer
	if p.accepted == 0 && theirs.offer != 0 && !acceptedEarlier {
		err := p.qp.Connect(nicless.Descriptor{Device: p.device, QPN: theirs.qpn, PSN: theirs.psn},
			connection)
		if err != nil {
			p.broken.Store(true)
			p.unreachable(err)
			return nil
		}
		p.accepted = theirs.offer
	}
	up := p.accepted != 0 && theirs.accepted == p.offer
	p.mu.Lock()
	changed := up != p.up
	p.up, p.readsOurs = up, theirs.reads
	p.mu.Unlock()
	switch {
	case up && changed:
		p.why = ""
		p.in.log.Info("peer up", "peer", p, "slots", theirs.reads)
		if s := p.in.slots; s != nil && p.announced.area >= 0 && !p.readable {
			p.in.log.Warn("the slots of a peer are not those of this interface, so packets are sent without: are the file, offset=, size= and nodes= the same?",
				"peer", p, "its slots", p.announced.slots, "own", s.count)
		}
	case !up && p.why == "":
		p.why = "it has not answered yet"
	}
	return nil
}

// unreachable leaves the peer alone for retryTime.
func (p *peer) unreachable(err error) {
	p.warn("peer cannot be reached", err.Error())
	p.retryAt = time.Now().Add(retryTime)
	time.AfterFunc(retryTime, p.in.again)
}

// begin offers another queue pair.
func (p *peer) begin() error {
	qp, err := p.in.pd.CreateQP(nicless.QPConfig{
		SendCQ: p.in.sendCQ, RecvCQ: p.in.recvCQ, SRQ: p.in.srq, MaxSendWR: sendQueue, MaxSendSGE: 1,
		MaxInline: messageSize, SignalAll: true, Deny: nicless.RemoteWrite | nicless.RemoteRead |
			nicless.RemoteAtomic,
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.qp, p.descriptor = qp, qp.Descriptor()
	p.in.offers++
	p.offer = p.in.offers
	return nil
}

// end ends the session. Messages on the way are lost. The completions of its receives
// are taken before the queue pair is closed: otherwise these receives would never be posted again.
func (p *peer) end(why string) error {
	p.mu.Lock()
	wasUp := p.up
	p.up = false
	p.mu.Unlock()
	if p.qp != nil {
		if err := p.qp.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateERR}); err != nil {
			return fmt.Errorf("end the connection with %v: %w", p, err)
		}
		if err := p.in.drain(); err != nil {
			return err
		}
	}
	p.in.sending.Lock()
	p.mu.Lock()
	if p.qp != nil {
		_ = p.qp.Close()
		p.qp = nil
	}
	p.reset()
	p.mu.Unlock()
	p.in.sending.Unlock()
	p.broken.Store(false)
	p.accepted, p.warned, p.readable = 0, false, false
	if wasUp {
		p.warn("peer down", why)
	}
	return nil
}

// fail ends the session soon. Any goroutine may call it.
func (p *peer) fail() {
	if !p.broken.Swap(true) {
		p.in.news()
	}
}

func (p *peer) warn(what, why string) {
	if p.why != what+why {
		p.why = what + why
		p.in.log.Warn(what, "peer", p, "why", why)
	}
}

func (in *Interface) drop(at id, p *peer, why string) error {
	delete(in.peers, at)
	return p.end(why)
}

// rebuild makes the routes.
func (in *Interface) rebuild() {
	r := &routes{byAddress: make(map[netip.Addr]*peer), byQPN: make(map[uint32]*peer)}
	for _, p := range in.peers {
		r.all = append(r.all, route{p, p.announced, p.why})
		for _, ip := range p.announced.addresses {
			r.byAddress[ip] = p
		}
		if p.qp != nil {
			r.byQPN[p.descriptor.QPN] = p
		}
	}
	slices.SortFunc(r.all, func(x, y route) int {
		return x.announced.addresses[0].Compare(y.announced.addresses[0])
	})
	in.routes.Store(r)
}

// announce announces this interface, if its announcement has changed.
func (in *Interface) announce() error {
	a := announcement{life: in.life, mtu: in.cfg.MTU, area: -1, name: in.cfg.Name,
		addresses: in.addresses()}
	if in.slots != nil {
		a.area, a.slots = in.slots.own, in.slots.count
	}
	for _, p := range in.peers {
		if p.qp == nil {
			continue
		}
		a.sessions = append(a.sessions, session{life: p.announced.life, offer: p.offer, accepted: p.accepted,
			qpn: p.descriptor.QPN, psn: p.descriptor.PSN, reads: p.readable})
	}
	slices.SortFunc(a.sessions, func(x, y session) int { return cmp.Compare(x.life, y.life) })
	b := a.put(make([]byte, 0, announceSize))
	if bytes.Equal(b, in.announced) {
		return nil
	}
	announce := in.c.Announce
	if in.cfg.AllUsers {
		announce = in.c.AnnounceToAll
	}
	if err := announce(b); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	in.announced = b
	return nil
}

// engine is the number of an engine for the log.
func engine(device uint64) string { return fmt.Sprintf("%016x", device) }

// LogValue describes the peer in the log.
func (p *peer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", p.announced.name),
		slog.Any("addresses", p.announced.addresses), slog.String("engine", engine(p.device)))
}

func (p *peer) String() string {
	return fmt.Sprintf("interface %s %v of engine %016x", p.announced.name, p.announced.addresses, p.device)
}
