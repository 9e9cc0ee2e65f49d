//go:build linux && (amd64 || arm64)

package replay

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/trace"
)

// Options of Run. The zero value works.
type Options struct {
	Faults *fault.Rules // the rules that the recorded device obeyed; nil: none
	Log    *slog.Logger // what the device says; nil: nothing

	// Patience is how long a WQE may take; 0: 30 s. Retries of a WQE that fails for want of a receive or of a
	// peer take some seconds with the usual attributes.
	Patience time.Duration
}

// A Report says what a replay has found.
type Report struct {
	Events   uint64 // of the trace
	WQEs     uint64 // executed again, failed ones too
	CQEs     uint64 // compared
	Messages uint64 // whose bytes at the destination were compared
	Bytes    uint64 // of these messages

	// Unseen is messages whose bytes were not compared: they overlap, or it is not known where they are.
	Unseen uint64

	Differences []Difference // the first MostDifferences
	Different   uint64       // number of all differences
	LeftOut     []LeftOut    // sorted by queue
}

// MostDifferences is how many differences a Report describes. After the first, most follow from earlier ones.
const MostDifferences = 100

// A Difference is something that was not the same in the replay.
type Difference struct {
	Event uint64 // number of the event in the trace, from 0 on
	Where string // the object and the index
	What  string
	Diffs []Value // what differs, with both values; it may be empty
}

// A Value is something that has two values.
type Value struct{ Name, Recorded, Replayed string }

// String returns the difference in one line.
func (d *Difference) String() string {
	s := d.Where + ": " + d.What
	for i, v := range d.Diffs {
		s += map[bool]string{true: ": ", false: ", "}[i == 0]
		s += fmt.Sprintf("%s %s, recorded %s", v.Name, v.Replayed, v.Recorded)
	}
	return s
}

// A LeftOut is a queue pair that was not replayed.
type LeftOut struct {
	Queue uint32
	Why   string
}

// Same reports whether nothing differed.
func (r *Report) Same() bool { return r.Different == 0 }

// Run replays a trace, which it reads twice from its begin. It returns an error if the trace is damaged or
// cannot be replayed at all. Differences and queue pairs that were left out are in the report. One goroutine
// steps the device as fast as it can.
func Run(in io.ReadSeeker, o Options) (*Report, error) {
	p, err := makePlan(in)
	if err != nil {
		return nil, err
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	t, err := trace.NewReader(in)
	if err != nil {
		return nil, err
	}
	r, err := newReplayer(p, o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	for {
		var e trace.Event
		err := t.Next(&e)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := r.event(&e); err != nil {
			return nil, fmt.Errorf("event %d (%v of 0x%x): %w", r.report.Events, e.Kind, e.Queue, err)
		}
		r.report.Events++
	}
	r.finish()
	for q, why := range p.out {
		r.report.LeftOut = append(r.report.LeftOut, LeftOut{q, why})
	}
	slices.SortFunc(r.report.LeftOut, func(a, b LeftOut) int { return cmp.Compare(a.Queue, b.Queue) })
	return &r.report, nil
}

// event does what an event says.
func (r *replayer) event(e *trace.Event) error {
	switch e.Kind {
	case trace.KindClient:
		return r.newClient(e)
	case trace.KindClientGone:
		return r.endClient(e.Queue)
	case trace.KindKey:
		return r.key(e)
	case trace.KindCQ:
		return r.completionQueue(e)
	case trace.KindSRQ:
		return r.sharedQueue(e)
	case trace.KindQueue:
		return r.queuePair(e)
	case trace.KindQueueGone:
		return r.endQueue(e.Queue)
	case trace.KindState:
		if q := r.queues[e.Queue]; q != nil {
			q.state = trace.State(e.Count & 0xff)
		}
	case trace.KindCQE:
		r.completion(e)
	case trace.KindFetch, trace.KindReceive, trace.KindPayload, trace.KindExecute, trace.KindFail:
		r.work(e)
	}
	return nil
}

// differ notes a difference.
func (r *replayer) differ(where, what string, values ...Value) {
	r.report.Different++
	if len(r.report.Differences) < MostDifferences {
		r.report.Differences = append(r.report.Differences,
			Difference{Event: r.report.Events, Where: where, What: what, Diffs: values})
	}
}
