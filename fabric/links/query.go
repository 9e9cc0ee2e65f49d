//go:build linux && (amd64 || arm64)

package links

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/summary"
	"github.com/nicless/nicless/state"
)

// Limits of a survey. An engine that stands still, or is too old to know the question, costs queryTries
// times.
const (
	queriesAtOnce = 128                    // engines: two rings' inboxes of 64 datagrams
	queryTime     = 100 * time.Millisecond // for the first answer to come; twice as long each time
	queryTries    = 3                      // questions for one part: 0.7 s
	queryParts    = 2 * summary.MaxParts   // answers of one engine that are taken: all twice
	queryOpens    = 8                      // nodes of a pool to which it opens rings: half of a part's
	surveyMax     = 5 * time.Second        // for all: 1,000 engines of which none answers
	surveyAge     = 250 * time.Millisecond // a survey that old is given to another reader, too
)

// A survey asks all other engines. Its zero value is ready.
type survey struct {
	running sync.Mutex // held during a survey
	last    []state.Peer
	taken   time.Time // when it ended

	mu      sync.Mutex // guards waiting
	waiting map[uint64]*question
}

// A question waits for an answer, which counts only if it comes from where the question went.
type question struct {
	device uint64     // GUID, over pools and UCX
	remote netip.Addr // over RoCE
	got    chan answered
}

type answered struct {
	head   summary.Head
	body   string
	device uint64 // GUID; 0: not known
}

// takeSummary takes a message for the engine itself: a question, or an answer to one of its own.
func (t *Table) takeSummary(from *nic.Path, m nic.BoxMessage) {
	h, body, err := summary.Parse(m.Value)
	if err != nil {
		return // of a later version, or of nobody who means well
	}
	if h.Question() {
		t.takeQuestion(from, m, h)
		return
	}
	t.survey.mu.Lock()
	q := t.survey.waiting[h.ID]
	t.survey.mu.Unlock()
	switch {
	case q == nil:
		return
	case from == nil && q.remote != netip.AddrFrom16(m.GID).Unmap():
		return
	case from != nil && (q.device != m.Device || q.remote.IsValid()):
		return
	}
	select {
	case q.got <- answered{h, body, m.Device}:
	default: // the same answer twice
	}
}

// A target is an engine to ask.
type target struct {
	state.Peer
	path nic.Path
	pool bool // it is asked over a pool or UCX: in the form with room for a GRH, and known by its GUID
	q    question
	c    summary.Collection

	known  bool // there is nothing to ask
	closed bool // there are no rings yet
}

// Survey asks all engines to which links lead what they do, and returns their answers, with this engine's own
// first. It waits until all have answered, for surveyMax at most. Nobody may change the result, which may be
// some moments old. Safe for concurrent use.
func (t *Table) Survey() []state.Peer {
	s := &t.survey
	s.running.Lock()
	defer s.running.Unlock()
	if s.last != nil && time.Since(s.taken) < surveyAge {
		return s.last
	}
	ctx, end := context.WithTimeout(context.Background(), surveyMax)
	defer end()
	list := t.targets()
	t.lookAtPools(ctx, list)
	work := make(chan *target, len(list))
	for i := range list {
		work <- &list[i]
	}
	close(work)
	var all sync.WaitGroup
	for range min(queriesAtOnce, len(list)) {
		all.Go(func() {
			for to := range work {
				t.query(ctx, to)
			}
		})
	}
	all.Wait()
	s.last = []state.Peer{t.self()}
	for i := range list {
		s.last = append(s.last, list[i].Peer)
	}
	s.taken = time.Now()
	return s.last
}

// self is this engine as it sees itself.
func (t *Table) self() state.Peer {
	p := state.Peer{GUID: fmt.Sprintf("%016x", t.dev.GUID()), Up: true}
	a := t.answerer.Load()
	if a == nil {
		p.Why = "this engine gives no summary"
		return p
	}
	s, _, err := a.summary(t)
	if err != nil {
		p.Why = err.Error()
		return p
	}
	p.Summary = s
	return p
}

// targets returns the other engines to which links lead. Nodes of a pool that have never come are none.
func (t *Table) targets() (list []target) {
	now := t.current.Load()
	for _, l := range now.links {
		for _, p := range l.Peers() {
			if p.GUID == 0 {
				continue
			}
			to := target{Peer: peerOf(l, &p), pool: true, q: question{device: p.GUID}}
			to.GUID = fmt.Sprintf("%016x", p.GUID)
			to.closed = p.Up && p.MTU == 0
			list = append(list, to)
		}
	}
	if now.roce == nil {
		return list
	}
	asked := make(map[string]bool) // there is a peer for each of this engine's addresses
	for _, p := range now.roce.Peers() {
		remote, err := netip.ParseAddr(p.Name)
		if err != nil || asked[p.Name] {
			continue
		}
		asked[p.Name] = true
		path, ok := now.roce.PeerPath(remote)
		if !ok {
			continue // the path has just ended
		}
		list = append(list, target{Peer: peerOf(now.roce, &p), path: path, q: question{remote: remote}})
	}
	return list
}

func peerOf(l fabric.Link, p *fabric.Peer) state.Peer {
	return state.Peer{Link: l.Name(), Name: p.Name, Up: p.Up, Why: p.Why}
}

// query asks an engine for all parts of its summary, and notes why there is none.
func (t *Table) query(ctx context.Context, to *target) {
	if !to.Up || to.known {
		return
	}
	if to.pool {
		path, err := t.reach(nic.Address{GUID: to.q.device}, false)
		if path == nil {
			to.Up, to.Why = to.Summary != nil, "no path leads there"
			if err != nil {
				to.Why = err.Error()
			}
			return
		}
		to.path = *path
	}
	to.q.got = make(chan answered, 1)
	var id [8]byte
	_, _ = rand.Read(id[:])
	number := binary.LittleEndian.Uint64(id[:])
	s := &t.survey
	s.mu.Lock()
	if s.waiting == nil {
		s.waiting = make(map[uint64]*question)
	}
	s.waiting[number] = &to.q
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, number)
	}()
	c := &to.c
	for range queryParts {
		part, missing := c.Next()
		if !missing {
			break
		}
		a, err := t.queryPart(ctx, to, number, part)
		if err == nil {
			err = c.Add(a.head, a.body)
		}
		if err != nil {
			to.Why = err.Error()
			break
		}
		if !to.pool && a.device != 0 {
			to.GUID = fmt.Sprintf("%016x", a.device)
		}
	}
	to.Summary = c.Summary // also if programs are missing: the figures have come
}

// queryPart sends a question until its answer comes.
func (t *Table) queryPart(ctx context.Context, to *target, id uint64, part uint8) (a answered, err error) {
	patience := queryTime
	for range queryTries {
		// A link that is full now has room for the next question.
		_ = t.sendSummary(to.path, to.pool, summary.Query(id, part))
		timer := time.NewTimer(patience)
		select {
		case a = <-to.q.got:
			timer.Stop()
			return a, nil
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return a, fmt.Errorf("not asked in %v: too many engines do not answer", surveyMax)
		case <-t.ends:
			timer.Stop()
			return a, errStops
		}
		patience *= 2
	}
	return a, fmt.Errorf("no answer in %v: it stands still, has ended, or is no engine that knows the question", queryTime*(1<<queryTries-1))
}
