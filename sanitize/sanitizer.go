package sanitize

import (
	"math/rand/v2"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
)

// Options say what a Sanitizer reports. The zero Options are right for any program.
type Options struct {
	// Clock says what the times of events mean. Without it reports have ticks, and a queue pair that was
	// destroyed just before its client ended counts as destroyed because the client ended.
	Clock trace.Clock

	// Strict says that the programs synchronise by nothing but the device: messages, atomics, completions,
	// and memory that they poll. Then accesses that are not in flight at the same time are races, too, if
	// the device has brought no order between them. With it, programs that also use sockets, pipes, or memory
	// that processes share get reports of races that are none.
	Strict bool

	// Notes reports also what correct programs may do.
	Notes bool

	// Stack returns the stack of the poster of a request, innermost function first, or nil if it is not
	// known. It is called when the request is found: at most once for each, in the order of its queue. Nil:
	// stacks are not known.
	Stack func(Post) []string
}

// A Post names a request that the device has found.
type Post struct {
	Client uint32
	Queue  uint32 // number of the queue pair, or of the shared receive queue
	Of     PostOf
	Index  uint16 // of the first block of a WQE, of a receive, or of the entry of a shared receive queue
}

// A PostOf says to which kind of queue a request was posted.
type PostOf uint8

const (
	Sends PostOf = iota
	Receives
	SharedReceives
)

// stackOf returns the stack of the poster of a request.
func (s *Sanitizer) stackOf(p Post) []string {
	if s.options.Stack == nil {
		return nil
	}
	return s.options.Stack(p)
}

// mostReported bounds how many different reports there are. A program that has made so many mistakes has
// enough to repair.
const mostReported = 1 << 12

// A Sanitizer finds mistakes in the events of a watch, or of a trace. It is a state machine: it has no time
// and no goroutines of its own. It is not safe for concurrent use.
type Sanitizer struct {
	options Options
	table   objects.Table
	now     uint64 // the moment: events are counted
	ticks   uint64 // time of the event

	processes map[processID]*process
	clients   map[uint32]*client
	queues    map[uint32]*queue
	held      map[holder]struct{} // have something in flight, or had since the last loss of events
	lostAt    uint64              // moment of that
	seed      uint64              // of trees
	cqs       map[uint32]*cq
	srqs      map[uint32]*srq
	keys      keys
	blind     uint64 // accesses to memory that is not known
	slots     slots
	clocks    clocks
	mostNodes int // mostNodes, except in tests
	words     words

	oldest, newest                   *record
	recordCount, workCount           int
	taken, buffers                   int // receives that are kept, and pieces of their memory
	unclaimed                        *arrival
	reported                         map[subject]bool
	reports                          []Report
	anyWQE                           bool // was found
	recorded                         bool
	steps                            uint64 // of loops whose length the events decide, for tests
	errors, notes, dropped, repeated uint64
}

// New returns a Sanitizer that has seen no event.
func New(o Options) *Sanitizer {
	return &Sanitizer{options: o, processes: map[processID]*process{}, clients: map[uint32]*client{},
		held: map[holder]struct{}{}, seed: rand.Uint64(), queues: map[uint32]*queue{}, cqs: map[uint32]*cq{},
		srqs: map[uint32]*srq{}, keys: newKeys(), mostNodes: mostNodes, words: newWords(),
		reported: map[subject]bool{}}
}

// Event takes the next event, and returns the reports about mistakes that are certain now. They are valid
// until the next call. Events have the order of their times; the data of e are not kept.
func (s *Sanitizer) Event(e *trace.Event) []Report {
	s.now++
	s.ticks = e.Time
	s.reports = s.reports[:0]
	s.table.Event(e)
	s.lives(e)
	switch e.Kind {
	case trace.KindFetch:
		s.anyWQE = true
		s.fetch(e)
	case trace.KindPayload:
		s.payload(e)
	case trace.KindSlice:
		s.slice(e)
	case trace.KindExecute, trace.KindFail:
		s.executed(e)
	case trace.KindCQE:
		s.completed(e)
	case trace.KindPolled:
		s.recorded = true
		s.polled(e)
	case trace.KindPosted:
		s.recorded = true
		s.posted(e)
	case trace.KindReceive:
		s.receive(e)
	case trace.KindReceived:
		if q := s.queues[e.Queue]; q != nil {
			q.client.process.foreign++
		}
	case trace.KindChanged:
		s.recorded = true
		s.changed(e)
	}
	s.boundClocks()
	return s.reports
}

// Result is what a Sanitizer has found so far.
type Result struct {
	Errors   uint64 // reports with the severity Error
	Notes    uint64 // those with the severity Note
	Repeated uint64 // findings that were not reported, because they are like others, or there were too many

	// Dropped is how many accesses, receives and completions had no room, or were not compared with all
	// others. Races of those are not found.
	Dropped uint64

	// Recorded reports whether the events were recorded for a sanitizer. Without that, changes of memory and
	// completions that nobody takes are not seen. It is true while no WQE was found.
	Recorded bool
}

// Result returns what was found so far.
func (s *Sanitizer) Result() Result {
	return Result{s.errors, s.notes, s.repeated, s.dropped, s.recorded || !s.anyWQE}
}

// A subject tells reports apart: each is made once for its queues and its memory.
type subject struct {
	code   Code
	a, b   uint32
	memory span
}

// wanted reports whether a report of a subject is to be made: there was none, and there is room.
func (s *Sanitizer) wanted(about subject, severity Severity) bool {
	if severity == Note && !s.options.Notes && about.code != EventsLost {
		return false
	}
	if s.reported[about] || len(s.reported) >= mostReported {
		s.repeated++
		return false
	}
	return true
}

// report adds a report, if it is wanted. To write one takes time, so those who may write many ask before.
func (s *Sanitizer) report(about subject, r Report) {
	r.Code, r.Ticks = about.code, s.ticks
	if r.Severity == "" {
		r.Severity = Error
	}
	if !s.wanted(about, r.Severity) {
		return
	}
	s.reported[about] = true
	if r.Severity == Error {
		s.errors++
	} else {
		s.notes++
	}
	for i := range r.Accesses {
		a := &r.Accesses[i]
		a.Time = clockTime(s.options.Clock, a.Ticks)
	}
	s.reports = append(s.reports, r)
}
