//go:build linux && (amd64 || arm64)

package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
)

// A plan is what the first reading of a trace finds out.
type plan struct {
	memory map[uint32][]span   // of each client: the addresses of its registered memory, sorted and disjoint
	out    map[uint32]string   // queue pairs that are left out, and why
	peers  map[uint32]uint32   // of each queue pair with one peer: that peer
	seen   map[uint32]bool     // queue pairs
	rung   map[uint32]bool     // queue pairs of which something was fetched
	gids   map[uint32][16]byte // of each client
}

// A span is addresses: of a client's memory, whole pages.
type span struct{ begin, end uint64 }

// mostMemory bounds the memory that clients have registered, together, so that a damaged trace does not take
// all addresses of this process. Pages that are never touched take no memory.
const mostMemory = 1 << 42

// Where memory of clients may be: below mostAddress, which programs cannot pass, and where an engine has the
// memory of its own that a program gets from ibv_alloc_dm (dmSpace in verbs/dm.go). The replay's own queues
// are between the two.
const (
	mostAddress     = 1 << 56
	deviceMemory    = 1 << 62
	deviceMemoryEnd = 1 << 63
)

// mostSpans bounds the registrations whose addresses are kept before they are joined.
const mostSpans = 1 << 20

// ErrNotRecorded says that a trace has not what a replay needs.
var ErrNotRecorded = errors.New("the trace was not recorded for a replay: it has no payload, and not how queues were made")

func makePlan(in io.Reader) (*plan, error) {
	t, err := trace.NewReader(in)
	if err != nil {
		return nil, err
	}
	p := &plan{memory: map[uint32][]span{}, out: map[uint32]string{}, peers: map[uint32]uint32{},
		seen: map[uint32]bool{}, rung: map[uint32]bool{}, gids: map[uint32][16]byte{}}
	lost := uint64(0)
	for {
		var e trace.Event
		err := t.Next(&e)
		if err == io.EOF {
			break
		}
		if err == nil && e.Kind == trace.KindLost {
			lost += e.Value
		}
		if err == nil {
			err = p.event(&e)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case lost > 0:
		return nil, fmt.Errorf("%d events of the trace were lost, because the watcher was too slow; a replay needs all", lost)
	case len(p.seen) == 0:
		return nil, errors.New("the trace has no queue pair")
	}
	for c := range p.memory {
		if err := p.join(c); err != nil {
			return nil, err
		}
	}
	p.leaveOutPeers()
	return p, nil
}

func (p *plan) event(e *trace.Event) error {
	switch e.Kind {
	case trace.KindQueue:
		return p.queue(e)
	case trace.KindKey:
		return p.key(e)
	case trace.KindFetch:
		if !p.rung[e.Queue] && e.Index != 0 {
			p.leaveOut(e.Queue, fmt.Sprintf("its first WQE in the trace has the index %d: the record began later than the queue pair", e.Index))
		}
		p.rung[e.Queue] = true
	}
	return nil
}

func (p *plan) leaveOut(queue uint32, why string) {
	if p.out[queue] == "" {
		p.out[queue] = why
	}
}

func (p *plan) queue(e *trace.Event) error {
	info, err := trace.ParseQueueInfo(e.Data)
	if err != nil {
		return err
	}
	if _, ok := trace.ParseQueueSetup(e.Data); !ok {
		return ErrNotRecorded
	}
	if e.Value <= math.MaxUint32 {
		p.gids[uint32(e.Value)] = info.GID
	}
	first := !p.seen[e.Queue]
	p.seen[e.Queue] = true
	transport := trace.Transport(e.Count)
	switch {
	case transport != trace.RC && transport != trace.UC && transport != trace.UD:
		p.leaveOut(e.Queue, fmt.Sprintf("%v is not replayed", transport))
	case info.Port != 0:
		p.leaveOut(e.Queue, "its peer is on another device")
	case first && trace.State(e.Index) > trace.INIT:
		p.leaveOut(e.Queue, fmt.Sprintf("it was in %v when the record began", trace.State(e.Index)))
	}
	if transport != trace.UD && info.Peer != 0 {
		p.peers[e.Queue] = info.Peer
	}
	return nil
}

// leaveOutPeers leaves out queue pairs whose peers are not there.
func (p *plan) leaveOutPeers() {
	for changed := true; changed; {
		changed = false
		for q, peer := range p.peers {
			if p.out[q] != "" {
				continue
			}
			switch {
			case !p.seen[peer]:
				p.out[q], changed = fmt.Sprintf("its peer, 0x%x, is not in the trace", peer), true
			case p.out[peer] != "":
				p.out[q], changed = fmt.Sprintf("its peer, 0x%x, is left out", peer), true
			}
		}
	}
}

func (p *plan) key(e *trace.Event) error {
	info, err := trace.ParseKeyInfo(e.Data)
	if err != nil {
		return err
	}
	setup, ok := trace.ParseKeySetup(e.Data)
	if !ok {
		return ErrNotRecorded
	}
	if setup.Window != 0 || setup.Entries != 0 || info.Length == 0 || e.Index == trace.KeyGone {
		return nil
	}
	end := setup.From + info.Length
	ofDevice := setup.From >= deviceMemory && end <= deviceMemoryEnd
	if end < setup.From || (end > mostAddress && !ofDevice) {
		return fmt.Errorf("key 0x%x: %d bytes from address 0x%x on pass the end of all addresses", e.Queue, info.Length, setup.From)
	}
	const page = shm.PageSize
	list := p.memory[info.Client]
	if len(list) >= mostSpans {
		if err := p.join(info.Client); err != nil {
			return err
		}
		if list = p.memory[info.Client]; len(list) >= mostSpans/2 {
			return fmt.Errorf("client %d has registered more than %d pieces of memory", info.Client, mostSpans/2)
		}
	}
	p.memory[info.Client] = append(list, span{setup.From &^ (page - 1), (end + page - 1) &^ (page - 1)})
	return nil
}

// join sorts the memory of a client, and joins what overlaps or touches.
func (p *plan) join(client uint32) error {
	list := p.memory[client]
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
	joined := list[:0]
	total := uint64(0)
	for _, s := range list {
		if n := len(joined); n > 0 && s.begin <= joined[n-1].end {
			joined[n-1].end = max(joined[n-1].end, s.end)
		} else {
			joined = append(joined, s)
		}
	}
	for _, s := range joined {
		total += s.end - s.begin
	}
	if total > mostMemory {
		return fmt.Errorf("client %d has registered %d bytes; at most %d are possible", client, total, uint64(mostMemory))
	}
	p.memory[client] = joined
	return nil
}
