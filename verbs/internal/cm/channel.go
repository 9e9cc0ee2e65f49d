//go:build linux && (amd64 || arm64)

package cm

import (
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// A Channel is one open of rdma_cm. Its descriptor has a token for each event that waits.
type Channel struct {
	m      *Manager
	uid    uint32
	tokens Tokens
	events []*event // oldest first
	full   bool     // an event was lost, and this was explained to the user
}

// Tokens are what a program waits for on the descriptor of a channel.
type Tokens interface {
	Put()       // adds a token; does not wait
	Take(n int) // takes up to n tokens back, as many as the program has not taken; does not wait
	Gone() bool // whether no program has the descriptor any more
}

// maxEvents is how many events may wait in a channel. The events after that are lost.
const maxEvents = 4096

// Open makes a channel for a program.
func (m *Manager) Open(p *Program, t Tokens) (*Channel, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.removed {
		return nil, refuse(unix.EIO, "the device has gone")
	}
	if err := m.Accounts.Charge(p.UID, channelCost); err != nil {
		return nil, err
	}
	ch := &Channel{m: m, uid: p.UID, tokens: t}
	m.channels[ch] = true
	return ch, nil
}

// put adds an event to the queue.
func (ch *Channel) put(e *event) bool {
	if len(ch.events) >= maxEvents || ch.m.Accounts.Charge(ch.uid, eventCost) != nil {
		if !ch.full {
			ch.full = true
			e.id.explain("an event (%s) is lost: %d events wait to be read", eventNames[e.kind], len(ch.events))
		}
		return false
	}
	ch.full = false
	ch.events = append(ch.events, e)
	ch.tokens.Put()
	return true
}

// drop takes back the events for which unwanted returns true, and returns them.
func (ch *Channel) drop(unwanted func(*event) bool) (dropped []*event) {
	var kept []*event
	for _, e := range ch.events {
		if unwanted(e) {
			dropped = append(dropped, e)
			ch.m.Accounts.Refund(ch.uid, eventCost)
		} else {
			kept = append(kept, e)
		}
	}
	ch.events = kept
	if len(dropped) > 0 {
		ch.tokens.Take(len(dropped))
	}
	return dropped
}

// getEvent serves GET_EVENT. The program takes a token from the descriptor, waiting if there
// is none, and gets the oldest event for it. If that event has meanwhile gone together with
// its id, the program waits for the next one.
func (m *Manager) getEvent(c *Call, req []byte) error {
	ch := c.Channel
	token, err := c.result(Need{Kind: NeedToken})
	switch {
	case err != nil:
		return err
	case token.Errno == unix.EAGAIN || token.Errno == unix.EINTR:
		return expected(token.Errno, "no event: %v", token.Errno)
	case token.Errno != 0:
		return refuse(token.Errno, "GET_EVENT: %v", token.Errno)
	case len(ch.events) == 0:
		c.Needs = append(c.Needs, Need{Kind: NeedToken})
		return ErrAgain
	}
	e := ch.events[0]
	ch.events[0] = nil
	ch.events = ch.events[1:]
	m.Accounts.Refund(ch.uid, eventCost)
	e.read()
	c.respond(le.Uint64(req[abi.CMGetEventResponse:]), e.record)
	return nil
}
