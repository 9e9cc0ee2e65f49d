//go:build linux && (amd64 || arm64)

package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/text"
)

// Limits of a trace that a page takes.
const (
	mostTrace  = 500 * time.Millisecond
	mostEvents = 5000
	traceRing  = 16 * trace.LeastRing // bytes of each thread of the engine, for a reader without a core
)

// A recording is a short trace of a queue.
type recording struct {
	Events []recorded `json:"events"`
	Lost   uint64     `json:"lost"` // events that came faster than they were read
	Full   bool       `json:"full"` // it ended because it has mostEvents
}

// A recorded event is one line on one of the page's lanes.
type recorded struct {
	At    int64  `json:"at"` // ns since the first event
	Lane  string `json:"lane"`
	Kind  string `json:"kind"`
	Queue uint32 `json:"queue"` // queue pair
	Index uint16 `json:"index"` // of the first block of its send queue that the event is about
	Count uint16 `json:"count"` // of blocks; 0: it is about none of the send queue
	Text  string `json:"text"`
}

// lanes go from the kinds of events that a page shows to where they happen in the life of a WQE.
var lanes = map[trace.Kind]string{
	trace.KindDoorbell: "poster",
	trace.KindFetch:    "engine", trace.KindExecute: "engine", trace.KindWait: "engine",
	trace.KindSlice: "engine", trace.KindFail: "engine", trace.KindState: "engine",
	trace.KindExplanation: "engine",
	trace.KindSent:        "link", trace.KindReceived: "peer", trace.KindCQE: "completion",
}

// errOver ends a recording.
var errOver = errors.New("web: the time of a trace is over")

// record takes a trace of a queue pair for some time.
func record(ctx context.Context, socket string, queue uint32, d time.Duration) (rec *recording, err error) {
	c, err := nicless.Dial(socket)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	w, err := c.Watch(nicless.WatchFilter{QPN: queue, Bytes: traceRing})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, d, errOver)
	defer cancel()
	var line bytes.Buffer
	rec, words := &recording{Events: []recorded{}}, text.New(&line)
	first := uint64(0)
	for !rec.Full {
		var e trace.Event
		err := w.Next(ctx, &e)
		switch {
		case errors.Is(err, errOver), errors.Is(err, io.EOF):
			return rec, nil
		case err != nil:
			return nil, err
		case e.Kind == trace.KindLost:
			rec.Lost += e.Value
		}
		line.Reset()
		_ = words.Event(&e, w.Clock()) // a buffer takes all
		lane, shown := lanes[e.Kind]
		if !shown || line.Len() == 0 {
			continue
		}
		if len(rec.Events) == 0 {
			first = e.Time
		}
		one := recordedOf(&e)
		one.At, one.Lane = nanoseconds(int64(e.Time-first), w.Clock().Hz), lane
		one.Text = wordsOf(line.String())
		rec.Events = append(rec.Events, one)
		rec.Full = len(rec.Events) >= mostEvents
	}
	return rec, nil
}

// recordedOf returns which blocks of which send queue an event is about. A completion has the number of its
// CQ and of the entry there: its bytes have queue pair and block.
func recordedOf(e *trace.Event) recorded {
	r := recorded{Kind: e.Kind.String(), Queue: e.Queue, Index: e.Index, Count: max(e.Count, 1)}
	switch e.Kind {
	case trace.KindSent, trace.KindReceived:
		r.Index, r.Count = 0, 0 // its Index is no block
	case trace.KindCQE:
		r.Queue, r.Index, r.Count = 0, 0, 0
		if len(e.Data) < cqe.Size {
			break
		}
		c := cqe.ParseCQE((*[cqe.Size]byte)(e.Data))
		r.Queue = c.QPN
		if o := c.OpOwn.Opcode(); o == cqe.Req || o == cqe.ReqErr {
			r.Index, r.Count = c.Counter, max(e.Count, 1) // those that one event has follow each other
		}
	}
	return r
}

// nanoseconds converts ticks. Those of threads whose rings are read one after the other may be less than 0.
func nanoseconds(ticks int64, hz uint64) int64 {
	return int64(float64(ticks) * 1e9 / float64(max(hz, 1)))
}

// wordsOf takes the dates and times off the lines of an event: the page has its own.
func wordsOf(lines string) string {
	var out []string
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, "# ") {
			continue
		}
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		out = append(out, rest)
	}
	return strings.Join(out, "\n")
}
