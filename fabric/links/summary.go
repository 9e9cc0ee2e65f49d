//go:build linux && (amd64 || arm64)

package links

import (
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/rendezvous"
	"github.com/nicless/nicless/internal/summary"
	"github.com/nicless/nicless/state"
)

// Engines ask each other for a summary of what they do (nicless links --all), or read it (published.go). A
// question is a message from the engine itself, so no client can ask. Pools and UCX know which engine asks;
// over RoCE only those are answered with whom this engine exchanges packets because it wants to.

// A Disclosure says what an engine tells the other engines of its fabric.
type Disclosure int

// Values of Disclosure. The zero value is the default: names of programs are about users, who have not agreed
// that other machines know them.
const (
	DiscloseCounts Disclosure = iota
	DisclosePrograms
	DiscloseNothing
)

// ParseDisclosure reads a value of nicless engine --disclose; "" is the default.
func ParseDisclosure(s string) (Disclosure, error) {
	switch s {
	case "", "counts":
		return DiscloseCounts, nil
	case "programs":
		return DisclosePrograms, nil
	case "nothing":
		return DiscloseNothing, nil
	}
	return 0, fmt.Errorf("%q; counts, programs and nothing are possible", s)
}

// Limits of those who ask. One reader of nicless links --all asks two times in half a second, for one part,
// or for as many as there are if programs are told.
const (
	answersOfPeer = 64   // answers that one engine is given in a second
	answersOfAll  = 4096 // in all: a rack of 1,000 engines may ask at once
	mostWaiting   = 256  // questions that wait for the goroutine that answers; more are dropped
	mostPeers     = 4096 // engines that are counted apart

	// summaryAge is how old a summary may be: so often the threads of the engine are held up for some
	// microseconds, whoever asks.
	summaryAge = 200 * time.Millisecond
)

// A request is a question of another engine.
type request struct {
	answer func(value string) // sends an answer back
	who    any                // uint64 GUID or netip.Addr: whose budget it is
	head   summary.Head
}

// An answerer answers questions, on a goroutine of its own.
type answerer struct {
	disclose Disclosure
	gives    func() (*state.Summary, error)
	now      func() time.Time

	mu         sync.Mutex // guards these
	last       *state.Summary
	taken      time.Time // when last was taken
	generation uint32

	// Of the goroutine:
	second time.Time
	all    int
	given  map[any]int // answers in this second
}

// SetSummary makes the table answer other engines that ask what this one does, as d allows. f reads the
// state of the engine. Call it once, after Open.
func (t *Table) SetSummary(d Disclosure, f func() (*state.Summary, error)) {
	a := &answerer{disclose: d, gives: f, now: time.Now, given: make(map[any]int)}
	questions := make(chan request, mostWaiting)
	t.answering.Go(func() {
		for {
			select {
			case q := <-questions:
				a.answer(t, q)
			case <-t.ends:
				return
			}
		}
	})
	t.answerer.Store(a)
	for _, l := range t.current.Load().links {
		if pool, ok := l.(summarizer); ok {
			pool.SetSummary(func() string { return a.published(t) })
		}
	}
	t.questions.Store(&questions)
}

// takeQuestion notes a question, if it may be answered. remote is the address by which it came over RoCE.
func (t *Table) takeQuestion(from *nic.Path, m nic.BoxMessage, h summary.Head) {
	questions := t.questions.Load()
	if questions == nil {
		return
	}
	q := request{who: m.Device, head: h}
	var path nic.Path
	if from != nil {
		path = *from
	} else {
		remote, ok := netip.AddrFrom16(m.GID).Unmap(), false
		q.who = remote
		if path, ok = t.peerOfRoCE(remote); !ok {
			return // a stranger
		}
	}
	q.answer = func(value string) { _ = t.sendSummary(path, from != nil, value) }
	select {
	case *questions <- q:
	default: // the other engine asks again
	}
}

// peerOfRoCE returns the path to an address with which this engine exchanges packets over RoCE.
func (t *Table) peerOfRoCE(remote netip.Addr) (nic.Path, bool) {
	c := t.current.Load().roce
	if c == nil {
		return nic.Path{}, false
	}
	return c.PeerPath(remote)
}

// sendSummary sends a question or an answer. Over pools and UCX datagrams have room for a GRH in front.
func (t *Table) sendSummary(p nic.Path, grh bool, value string) error {
	d := rendezvous.Datagram{Device: t.dev.GUID(), From: answerBox, To: answerBox, Value: value}
	mad := d.Put()
	payload := mad[:]
	if grh {
		payload = append(make([]byte, grhSize), mad[:]...)
	}
	return p.Port.SendManagement(p.Number, gsiHeader(), payload)
}

// answer answers a question.
func (a *answerer) answer(t *Table, q request) {
	if !a.allow(q.who) {
		return
	}
	if a.disclose == DiscloseNothing {
		q.answer(summary.Silent(q.head.ID))
		return
	}
	s, generation, err := a.summary(t)
	if err != nil {
		return
	}
	if a.disclose != DisclosePrograms {
		s = withoutPrograms(s)
	}
	if value := summary.Put(s, generation, q.head.ID, q.head.Part); value != "" {
		q.answer(value)
	}
}

// allow counts an answer, and reports whether it is within the limits.
func (a *answerer) allow(who any) bool {
	if now := a.now(); now.Sub(a.second) >= time.Second {
		clear(a.given)
		a.second, a.all = now, 0
	}
	if _, known := a.given[who]; !known && len(a.given) == mostPeers {
		return false
	}
	if a.given[who] == answersOfPeer || a.all == answersOfAll {
		return false
	}
	a.given[who]++
	a.all++
	return true
}

// summary returns the summary of this engine, which may be as old as summaryAge. Nobody changes it.
func (a *answerer) summary(t *Table) (*state.Summary, uint32, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != nil && a.now().Sub(a.taken) < summaryAge {
		return a.last, a.generation, nil
	}
	s, err := a.gives()
	if err != nil {
		return nil, 0, err
	}
	s.Host, _ = os.Hostname()
	s.Host = s.Host[:min(len(s.Host), state.MaxHost)]
	t.addLinks(s)
	a.last, a.taken = s, a.now()
	a.generation++
	return s, a.generation, nil
}

// addLinks adds the counts of this engine's links to a summary. Nodes of pools that have never come are no
// peers.
func (t *Table) addLinks(s *state.Summary) {
	add := func(list []fabric.Peer, numbered bool) {
		for i := range list {
			p := &list[i]
			s.Resent += p.Stats.Resent
			s.Timeouts += p.Stats.Timeouts
			switch {
			case p.Up:
				s.PeersUp++
			case p.GUID != 0 || !numbered:
				s.PeersDown++
			}
		}
	}
	now := t.current.Load()
	for _, l := range now.links {
		add(l.Peers(), true)
	}
	if now.roce != nil {
		add(now.roce.Peers(), false)
	}
}

func withoutPrograms(s *state.Summary) *state.Summary {
	c := *s
	c.Disclosed, c.Programs = false, nil
	return &c
}
