//go:build linux && (amd64 || arm64)

package survey

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/state"
)

// A survey is one answer to a reader.
type survey struct {
	r       *loop.Runner
	uid     uint32 // of the reader
	request *state.Request
	give    func(*state.Line) error // takes lines, in order. It may wait, and its error ends the survey
}

// Answer answers a request of user uid, line by line, without the line that ends an answer. A request that
// cannot be answered gets a line that says why. The error is that of give. Safe for concurrent use.
func Answer(r *loop.Runner, uid uint32, request *state.Request, give func(*state.Line) error) error {
	s := &survey{r, uid, request, give}
	if why := check(request); why != "" {
		return give(&state.Line{Refused: why})
	}
	if why := s.stuck(); why != "" {
		return s.refuse("a thread of the engine is stuck %s", why)
	}
	if request.Ring != nil {
		return s.ring()
	}
	return s.objects()
}

// check says why a request is not one, or returns "".
func check(request *state.Request) string {
	for _, k := range request.Kinds {
		if !slices.Contains([]state.Kind{state.Clients, state.Queues, state.CQs, state.SRQs}, k) {
			return fmt.Sprintf("kind %.40q; %q, %q, %q and %q are possible", string(k),
				state.Clients, state.Queues, state.CQs, state.SRQs)
		}
	}
	if request.PID < 0 || request.Queue > maxNumber {
		return fmt.Sprintf("pid %d, queue %#x; a pid is at least 0, a number of a queue at most %#x",
			request.PID, request.Queue, maxNumber)
	}
	return ""
}

// maxNumber is the highest number of a queue: it has 24 bits.
const maxNumber = 1<<24 - 1

// objects gives the device, its threads and all objects that are asked for.
func (s *survey) objects() error {
	var clients []*object.Client
	device := state.Device{GUID: fmt.Sprintf("%016x", s.r.GUID), Name: s.r.DeviceNames().Of(0),
		PID: os.Getpid(), Started: s.r.Made, Sees: state.SeesOwn}
	threads := make([]state.Thread, len(s.r.Shards))
	s.r.DoWith(mailbox.NoWork, func() {
		for i, sh := range s.r.Shards {
			s.thread(&threads[i], sh)
			for c := range sh.Clients {
				if s.includes(c) {
					clients = append(clients, c)
				}
			}
		}
		s.device(&device, clients)
	})
	slices.SortFunc(clients, func(a, b *object.Client) int { return int(a.Number) - int(b.Number) })
	if err := s.give(&state.Line{Device: &device}); err != nil {
		return err
	}
	s.kernel(threads)
	for i := range threads {
		if err := s.give(&state.Line{Thread: &threads[i]}); err != nil {
			return err
		}
	}
	for _, c := range clients {
		if err := s.client(c); err != nil {
			return err
		}
	}
	return nil
}

// includes reports whether the reader asks for c, and may see it.
func (s *survey) includes(c *object.Client) bool {
	if s.request.PID != 0 && s.request.PID != c.Hosted.PID || !Sees(s.uid, c) {
		return false
	}
	if s.request.Queue != 0 {
		q := s.r.QPs[s.request.Queue]
		return q != nil && q.Client == c
	}
	return true
}

// wants reports whether objects of a kind are asked for.
func (s *survey) wants(k state.Kind) bool {
	return len(s.request.Kinds) == 0 || slices.Contains(s.request.Kinds, k)
}

// device fills in what is known of the device, between two steps.
func (s *survey) device(d *state.Device, clients []*object.Client) {
	d.Clients = len(clients)
	for _, c := range clients {
		d.Queues += len(c.QPs)
		d.CQs += len(c.CQs)
		d.SRQs += len(c.SRQs)
	}
	all := SeesAll(s.uid)
	if all {
		d.Sees, d.Past = state.SeesAll, countsOf(&s.r.Past)
	}
	d.Errors = s.r.PastErrors.All(func(uid uint32) bool { return sees(s.r.Device, s.uid, uid) })
	for _, w := range s.r.Watches {
		if w != nil && (all || w.Owner.UID == s.uid) {
			d.Watches++
		}
	}
	for _, f := range s.r.Faults {
		if all || f.Owner != nil && f.Owner.UID == s.uid {
			d.Faults += len(f.Rules.Rules())
		}
	}
}

// inPortions calls f with each element of a list, between steps, and gives the lines that f makes of them. f
// makes nil of an object that is gone.
func inPortions[T any](s *survey, list []T, f func(T) *state.Line) error {
	lines := make([]*state.Line, 0, object.Portion)
	for some := range slices.Chunk(list, object.Portion) {
		lines = lines[:0]
		s.r.DoWith(mailbox.NoWork, func() {
			for _, x := range some {
				if l := f(x); l != nil {
					lines = append(lines, l)
				}
			}
		})
		for _, l := range lines {
			if err := s.give(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// countsOf returns counts as readers see them.
func countsOf(n *object.Counts) state.Counts {
	return state.Counts{
		WQEs: n[control.CounterWQEs], Bytes: n[control.CounterBytes],
		CQEs: n[control.CounterCQEs], Failed: n[control.CounterFailed],
		Receives: n[control.CounterReceives], Events: n[control.CounterEvents],
		Explained: n[control.CounterExplained], Stalls: n[control.CounterStalls],
	}
}

// nanoseconds returns a time of the kernel's as readers see it.
func nanoseconds(d time.Duration) uint64 { return uint64(max(d, 0)) }
