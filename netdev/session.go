//go:build linux && (amd64 || arm64)

package netdev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/nicless/nicless"
)

// MaxSessions is how many sessions an interface has at once: a node of a rack talks with a few dozen others
// at a time. The queue of a session has some 10 KiB. For another one, the session that has been quiet for
// longest is given up.
const MaxSessions = 256

// sendQueue is the room of a queue pair: for packets, and for as many messages without one.
const sendQueue = 2 * sendBuffers

const (
	// openTime is how long a dial may take. Over a pool it takes some milliseconds; when all nodes of a rack
	// dial at once, a busy engine needs seconds for all of them.
	openTime = 10 * time.Second

	// retryTime is how long a peer that could not be reached is left alone before the next try.
	retryTime = 500 * time.Millisecond

	// crossTime is when a dial is repeated that has crossed another, and mostTries how often one after
	// another: mostly the peer's own dial comes before.
	crossTime = 50 * time.Millisecond
	mostTries = 100

	crossing = "this interface dials at the same time, and goes first"
)

// connection has no limit of RNR retries, so a send waits for as long as the peer has no receives left. It
// requests short RNR pauses.
var connection = nicless.Connection{MinRNRTimer: 6}

// A phase is a part of a session's life.
type phase uint8

// Phases.
const (
	closed    phase = iota // there is no session, and no queue pair
	dialling               // this side has dialled
	accepting              // the peer has dialled, and this side connects
	open                   // packets are sent
	ending                 // the last message of this side is sent (quiet.go)
)

// A result is the end of a dial, or of the answer to one.
type result struct {
	p       *peer
	attempt uint64
	qp      *nicless.QP
	err     error
}

// stepAll takes the next step of all sessions.
func (in *Interface) stepAll(now time.Time) error {
	if err := in.takeResults(now); err != nil {
		return err
	}
	in.takeRequests()
	if err := in.answerCalls(now); err != nil {
		return err
	}
	in.sweep(now)
	for p := range in.active {
		if err := p.step(now); err != nil {
			return err
		}
		if p.phase == closed && !p.wanted() {
			delete(in.active, p)
		}
	}
	return nil
}

// takeResults acts on dials and answers that have ended.
func (in *Interface) takeResults(now time.Time) error {
	in.mu.Lock()
	results := in.results
	in.results = nil
	in.mu.Unlock()
	for _, r := range results {
		var err error
		r.p.underWay--
		current := r.attempt == r.p.attempt
		r.p.connecting = r.p.connecting && !current
		switch {
		case !current: // it was given up
			err = in.discard(r.qp)
		case r.err != nil:
			err = r.p.failed(r.err, now)
		default:
			r.p.opened(now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takeRequests makes the peers active for which packets wait.
func (in *Interface) takeRequests() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, p := range in.requests {
		if in.peers[id{p.at.Device, p.at.Client}] == p {
			in.active[p] = true
		}
	}
	in.requests = nil
}

// step takes the next step of a session.
func (p *peer) step(now time.Time) error {
	if p.broken.Load() && p.phase == closed {
		p.broken.Store(false)
	}
	if p.broken.Load() {
		was := p.phase
		if err := p.end("its queue pair has failed"); err != nil {
			return err
		}
		if was == open { // so that the peer need not find out
			p.want()
		}
	}
	switch {
	case p.phase == closed && !p.called && p.wanted() && !now.Before(p.retryAt):
		return p.dial(now)
	case p.phase == open && p.ended:
		p.finish(now)
	case p.phase == open:
		p.sendWaiting()
	}
	if p.phase == ending && p.finished(now) {
		return p.end("")
	}
	return nil
}

// dial begins a session, if there is room.
func (p *peer) dial(now time.Time) error {
	err := p.in.room(now)
	switch {
	case errors.Is(err, errRoomSoon):
		return nil
	case err != nil:
		p.unreachable(err, now)
		return nil
	}
	return p.begin(dialling, now, func(ctx context.Context, qp *nicless.QP) error {
		_, err := p.in.c.DialClient(ctx, &p.at, dialled, qp, connection)
		return err
	})
}

// begin makes a queue pair, and has another goroutine connect it.
func (p *peer) begin(as phase, now time.Time, connect func(context.Context, *nicless.QP) error) error {
	in := p.in
	qp, err := in.pd.CreateQP(nicless.QPConfig{
		SendCQ: in.sendCQ, RecvCQ: in.recvCQ, SRQ: in.srq, MaxSendWR: sendQueue, MaxSendSGE: 1,
		MaxInline: messageSize, SignalAll: true, Deny: nicless.RemoteWrite | nicless.RemoteRead |
			nicless.RemoteAtomic,
	})
	if err != nil {
		p.unreachable(err, now)
		return nil
	}
	if s := in.slots; s != nil {
		// The signature alone is not enough: with another number of slots, the areas are in other places.
		p.readable = p.announced.slots == s.count && s.signedBy(p.announced.area, p.announced.life)
	}
	p.mu.Lock()
	p.qp, p.readsTheirs = qp, p.readable
	p.mu.Unlock()
	p.phase, p.since, p.connecting = as, now, true
	p.attempt++
	in.active[p] = true
	in.opened++
	in.setSession(qp.QPN(), p) // messages of the peer may come before this side knows that it is connected
	ctx, cancel := context.WithTimeout(in.running, in.openTime)
	p.cancel = cancel
	attempt := p.attempt
	p.underWay++
	in.connecting.Go(func() {
		defer cancel()
		err := connect(ctx, qp)
		in.mu.Lock()
		in.results = append(in.results, result{p, attempt, qp, err})
		in.mu.Unlock()
		in.again()
	})
	return nil
}

// opened says that both queue pairs are connected.
func (p *peer) opened(now time.Time) {
	p.phase, p.since, p.quietSince, p.tries = open, now, now, 0
	p.mu.Lock()
	p.up, p.wants, p.why = true, false, ""
	p.mu.Unlock()
	p.in.log.Info("peer up", "peer", p, "slots", p.readable)
	if s := p.in.slots; s != nil {
		if p.readable {
			p.greet()
		} else if p.announced.area >= 0 {
			p.in.log.Warn("the slots of a peer are not those of this interface, so packets are sent without: are the file, offset=, size= and nodes= the same?",
				"peer", p, "its slots", p.announced.slots, "own", s.count)
		}
	}
}

// greet tells the peer that this interface reads its slots.
func (p *peer) greet() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.postHead(message{kind: kindFreed, freed: p.consumed.Load()}, noPacket)
}

// failed says that no session could be made.
func (p *peer) failed(err error, now time.Time) error {
	wasDial := p.phase == dialling
	if err := p.end(""); err != nil {
		return err
	}
	if p.in.running.Err() != nil {
		return nil
	}
	crossed := errors.Is(err, nicless.ErrRejected) && strings.Contains(err.Error(), crossing)
	p.tries++
	if p.tries < mostTries && (crossed || !wasDial) {
		p.retryAt = now.Add(crossTime)
		p.in.later(crossTime)
		return nil
	}
	p.unreachable(err, now)
	return nil
}

// unreachable leaves the peer alone for retryTime. Packets that wait for it are dropped. A reader of Stats
// who sees them counted finds why.
func (p *peer) unreachable(err error, now time.Time) {
	p.warn("peer cannot be reached", err.Error())
	p.dropWaiting()
	p.tries = 0
	p.retryAt = now.Add(retryTime)
	p.in.later(retryTime)
}

// end ends the session. Messages on the way are lost, and their packets counted. The completions of its
// receives are taken before the queue pair is closed: otherwise these receives would never be posted again.
func (p *peer) end(why string) error {
	if p.phase == closed {
		return nil
	}
	in := p.in
	p.mu.Lock()
	wasUp, qp := p.up, p.qp
	p.up = false
	p.mu.Unlock()
	p.phase = closed
	p.attempt++
	in.opened--
	p.cancel()
	if p.connecting { // the goroutine that connects it gives it back (takeResults)
		in.setSession(qp.QPN(), nil)
		p.mu.Lock()
		p.qp = nil
		p.reset()
		p.mu.Unlock()
		p.renew()
		return nil
	}
	if err := in.stop(qp); err != nil {
		return fmt.Errorf("end the connection with %v: %w", p, err)
	}
	in.collect() // what the peer has taken is not counted as dropped
	in.sending.Lock()
	p.mu.Lock()
	_ = qp.Close()
	p.qp = nil
	p.reset()
	p.mu.Unlock()
	in.setSession(qp.QPN(), nil)
	in.sending.Unlock()
	p.renew()
	if wasUp && why != "" {
		p.warn("peer down", why)
	}
	return nil
}

// renew makes the peer ready for its next session.
func (p *peer) renew() {
	p.broken.Store(false)
	p.connecting, p.warned, p.readable, p.ended = false, false, false, false
}

// stop takes a queue pair out of use. Its receives are taken back.
func (in *Interface) stop(qp *nicless.QP) error {
	if err := qp.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateERR}); err != nil {
		return err
	}
	return in.drain()
}

// discard closes a queue pair that no peer has.
func (in *Interface) discard(qp *nicless.QP) error {
	if err := in.stop(qp); err != nil {
		return fmt.Errorf("end a connection: %w", err)
	}
	in.sending.Lock()
	defer in.sending.Unlock()
	_ = qp.Close()
	return nil
}

// setSession says which peer has a queue pair; nil: none.
func (in *Interface) setSession(qpn uint32, p *peer) {
	sessions := maps.Clone(*in.sessions.Load())
	if p == nil {
		delete(sessions, qpn)
	} else {
		sessions[qpn] = p
	}
	in.sessions.Store(&sessions)
}

// fail ends the session soon. Any goroutine may call it.
func (p *peer) fail() {
	if !p.broken.Swap(true) {
		p.in.again()
	}
}

func (p *peer) warn(what, why string) {
	p.mu.Lock()
	known := p.why == what+": "+why
	p.why = what + ": " + why
	p.mu.Unlock()
	if !known {
		p.in.log.Warn(what, "peer", p, "why", why)
	}
}

// engine is the number of an engine for the log.
func engine(device uint64) string { return fmt.Sprintf("%016x", device) }

// LogValue describes the peer in the log.
func (p *peer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", p.announced.name),
		slog.Any("addresses", p.announced.addresses), slog.String("engine", engine(p.at.Device)))
}

func (p *peer) String() string {
	return fmt.Sprintf("interface %s %v of engine %016x", p.announced.name, p.announced.addresses, p.at.Device)
}
