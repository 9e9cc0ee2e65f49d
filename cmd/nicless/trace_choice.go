package main

import (
	"fmt"
	"strconv"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
)

// An eventChoice says which events of a trace are shown. At most one of the texts is set.
type eventChoice struct {
	qp, pid, program string // as the flags have them
	replay           bool   // the engine records what a replay needs,
	sanitize         bool   // and what the sanitizer needs

	ours func(pid uint64) bool // if not nil: which processes' clients are chosen

	number uint64          // of the queue pair or process
	mine   map[uint32]bool // the result of ours for each client
	queues map[uint32]bool // completion queues and shared receive queues of chosen clients
	table  objects.Table
	shown  map[uint32]bool // clients that were shown
	found  bool
}

func (x *eventChoice) parse() (err error) {
	set := 0
	for _, s := range []string{x.qp, x.pid, x.program} {
		if s != "" {
			set++
		}
	}
	if set > 1 {
		return usagef("choose one", "trace: --qp, --client and --program exclude each other")
	}
	const bitsOfQP = 24
	if x.qp != "" {
		x.number, err = strconv.ParseUint(x.qp, 0, bitsOfQP)
		if err != nil {
			return usagef("digits, or 0x and hexadecimal digits", "trace: --qp %q is not a number below 2^24", x.qp)
		}
		if x.number == 0 {
			return usagef("digits, or 0x and hexadecimal digits", "trace: --qp 0: numbers of queue pairs begin at 1")
		}
	}
	if x.pid != "" {
		x.number, err = strconv.ParseUint(x.pid, 10, 32)
		if err != nil || x.number == 0 {
			return usagef("ps lists processes", "trace: --client %q is not a process id", x.pid)
		}
	}
	return nil
}

// all reports whether events of all clients are shown.
func (x *eventChoice) all() bool { return x.whole() && x.ours == nil }

// whole reports whether no flag chooses clients.
func (x *eventChoice) whole() bool { return x.qp == "" && x.pid == "" && x.program == "" }

// pass calls show with an event that is chosen. If it needs a client that was not shown yet, pass shows that
// first.
func (x *eventChoice) pass(e *trace.Event, show func(*trace.Event) error) error {
	if x.all() {
		return show(e)
	}
	x.table.Event(e)
	if !x.chosen(e) {
		return nil
	}
	if e.Kind == trace.KindClientGone {
		defer delete(x.shown, e.Queue)
	}
	if c := x.table.ClientOf(e); c != nil && !x.shown[c.Number] {
		if x.shown == nil {
			x.shown = map[uint32]bool{}
		}
		x.shown[c.Number] = true
		if e.Kind != trace.KindClient {
			client := trace.Event{Kind: trace.KindClient, Number: e.Number, Time: e.Time, Queue: c.Number,
				Value: c.PID, Data: []byte(c.Name)}
			if err := show(&client); err != nil {
				return err
			}
		}
	}
	return show(e)
}

func (x *eventChoice) chosen(e *trace.Event) bool {
	switch e.Kind {
	case trace.KindLost, trace.KindLink, trace.KindEnd:
		return true
	}
	yes := false
	n, ok := objects.QueueOf(e)
	c := x.table.ClientOf(e)
	if !ok && (e.Kind == trace.KindPolled || e.Kind == trace.KindPosted || e.Kind == trace.KindChanged) {
		return x.queues[e.Queue]
	}
	switch {
	case x.ours != nil:
		yes = c != nil && x.isOurs(c)
	case x.qp != "" && e.Kind == trace.KindClientGone:
		return x.shown[e.Queue]
	case x.qp != "":
		yes = ok && uint64(n) == x.number
	case c != nil && x.pid != "":
		yes = c.PID == x.number
	case c != nil:
		yes = c.Program() == x.program
	}
	x.found = x.found || yes
	if yes && (e.Kind == trace.KindCQ || e.Kind == trace.KindSRQ) {
		x.note(e)
	}
	return yes
}

// note notes a queue of a chosen client. Its number may be that of another queue, too: then a trace has some
// events too many.
func (x *eventChoice) note(e *trace.Event) {
	if x.queues == nil {
		x.queues = map[uint32]bool{}
	}
	x.queues[e.Queue] = true
	if e.Index == trace.KeyGone {
		delete(x.queues, e.Queue)
	}
}

// isOurs calls ours once for each client, because a process may have ended when its later events come.
func (x *eventChoice) isOurs(c *objects.Client) bool {
	yes, known := x.mine[c.Number]
	if !known {
		if x.mine == nil {
			x.mine = map[uint32]bool{}
		}
		yes = x.ours(c.PID)
		x.mine[c.Number] = yes
	}
	return yes
}

// unmatched returns a text if there were no events of what was asked for.
func (x *eventChoice) unmatched() string {
	switch {
	case x.all() || x.found:
		return ""
	case x.ours != nil:
		return "the program has opened no device"
	case x.qp != "":
		return fmt.Sprintf("the trace has no event of qp 0x%x", x.number)
	case x.pid != "":
		return fmt.Sprintf("the trace has no client of process %d", x.number)
	}
	return fmt.Sprintf("the trace has no client with the name %q", x.program)
}
