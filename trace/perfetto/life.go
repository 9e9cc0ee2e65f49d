package perfetto

import (
	"fmt"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/trace/text"
	"github.com/nicless/nicless/wqe"
)

// A life is the slice of a WQE that has not ended.
type life struct {
	lane     int // index in queue.lanes
	index    uint16
	flow     uint64
	signaled bool
}

// A lane is a track for WQEs that do not overlap.
type lane struct {
	track uint64
	ended uint64 // time at which its last slice has ended
	used  bool
}

// A bell is a doorbell.
type bell struct {
	first, count uint16
	time         uint64
	flow         uint64
}

// A queue is what a Writer knows of a queue pair.
type queue struct {
	lives map[uint16]*life // by index
	lanes []lane
	bells []bell   // that announce blocks which were not fetched yet, and the last one before
	sent  []uint64 // flows of messages for which the peer has completed no receive yet
}

// mostWaiting bounds bells and sent of a queue pair: a ring has at most so many blocks.
const mostWaiting = 1 << 16

// mostLives bounds the slices that are open at a time; see mostBlocks of package objects.
const mostLives = 1 << 22

func (x *Writer) queueOf(number uint32) *queue {
	q := x.queues[number]
	if q == nil {
		if x.queues == nil || len(x.queues) >= mostTracks {
			x.queues, x.open = map[uint32]*queue{}, 0
		}
		q = &queue{lives: map[uint16]*life{}}
		x.queues[number] = q
	}
	return q
}

// drop ends the slices of a queue pair, and drops all that a Writer knows of it.
func (x *Writer) drop(number uint32, time uint64) error {
	var err error
	if q := x.queues[number]; q != nil {
		err = x.reset(q, time)
		delete(x.queues, number)
	}
	delete(x.tracks, place{queueTrack, uint64(number)})
	return err
}

// reset ends the slices of a queue pair, and drops its doorbells and messages.
func (x *Writer) reset(q *queue, time uint64) error {
	for _, l := range q.inOrder() {
		if err := x.end(q, l, time); err != nil {
			return err
		}
	}
	q.bells, q.sent = nil, nil
	return nil
}

// doorbell notes the blocks that no doorbell has announced before: the device finds a record again as long
// as it has not executed everything that the record announces. ok is false if there are none.
func (q *queue) doorbell(e *trace.Event, flow uint64) (b bell, ok bool) {
	b = bell{first: e.Index, count: e.Count, time: e.Time, flow: flow}
	if n := len(q.bells); n > 0 {
		last := q.bells[n-1]
		known := last.first + last.count - b.first // blocks from b.first on that were announced
		if int16(known) > 0 {
			if known >= b.count {
				return b, false
			}
			b.first, b.count = b.first+known, b.count-known
		}
	}
	if len(q.bells) >= mostWaiting {
		q.bells = q.bells[1:]
	}
	q.bells = append(q.bells, b)
	return b, true
}

// announced returns the doorbell of a block, and drops those before it.
func (q *queue) announced(index uint16) (b bell, ok bool) {
	for i, b := range q.bells {
		if index-b.first < b.count {
			q.bells = append(q.bells[:0], q.bells[i:]...)
			return b, true
		}
	}
	return b, false
}

// begin begins the slice of a WQE, if it has not begun.
func (x *Writer) begin(e *trace.Event, w *objects.WQE) error {
	q := x.queueOf(e.Queue)
	if q.lives[w.Index] != nil || !w.Whole() {
		return nil
	}
	parent, err := x.queue(e.Queue)
	if err != nil {
		return err
	}
	l := &life{index: w.Index, flow: x.newID(), signaled: w.Ctrl.Completion()<<2 >= wqe.CEAlways}
	posted, flows := e.Time, []uint64{l.flow}
	if b, ok := q.announced(w.Index); ok {
		posted, flows = b.time, []uint64{b.flow, l.flow}
	}
	l.lane, err = x.freeLane(q, parent, posted)
	if err != nil {
		return err
	}
	if x.open < mostLives {
		x.open++
		q.lives[w.Index] = l
	}
	if w.Ctrl.Opcode.Info().Response != 0 && len(q.sent) < mostWaiting {
		q.sent = append(q.sent, l.flow)
	}
	track := q.lanes[l.lane].track
	err = x.event(posted, event{kind: sliceBegin, track: track, category: "wqe", name: w.Ctrl.Opcode.String(),
		flows: flows, annotations: []annotation{{name: "wqe", number: uint64(w.Index)},
			{name: "request", text: text.WQE(w, x.table.Queue(e.Queue).Address())}}})
	if err != nil {
		return err
	}
	return x.event(e.Time, event{kind: instant, track: track, category: "wqe", name: "fetched"})
}

// freeLane returns a lane that has no slice from a time on.
func (x *Writer) freeLane(q *queue, parent, from uint64) (int, error) {
	for i := range q.lanes {
		if l := &q.lanes[i]; !l.used && l.ended <= from {
			l.used = true
			return i, nil
		}
	}
	track, err := x.lane(parent)
	q.lanes = append(q.lanes, lane{track: track, used: true})
	return len(q.lanes) - 1, err
}

// end ends the slice of a WQE.
func (x *Writer) end(q *queue, l *life, time uint64) error {
	if q.lives[l.index] == l {
		delete(q.lives, l.index)
		x.open--
	}
	at := &q.lanes[l.lane]
	at.used, at.ended = false, time
	return x.event(time, event{kind: sliceEnd, track: at.track})
}

// note adds an instant to the slice of a WQE, if that is open.
func (x *Writer) note(e *trace.Event, index uint16, name string, a ...annotation) error {
	q := x.queueOf(e.Queue)
	l := q.lives[index]
	if l == nil {
		return nil
	}
	return x.event(e.Time, event{kind: instant, track: q.lanes[l.lane].track, category: "wqe", name: name,
		annotations: a})
}

// executed ends the slices of unsignaled WQEs. Those of signaled WQEs end with their completions, which
// the device has written before.
func (x *Writer) executed(e *trace.Event) error {
	q := x.queueOf(e.Queue)
	for i := range max(e.Count, 1) {
		l := q.lives[e.Index+i]
		if l == nil {
			continue
		}
		if err := x.note(e, l.index, "executed"); err != nil {
			return err
		}
		if !l.signaled {
			if err := x.end(q, l, e.Time); err != nil {
				return err
			}
		}
	}
	return nil
}

// completed ends the slice of a WQE that has a completion, and those of unsignaled WQEs before it if
// the peer is on another device: then nothing else tells when they were executed. It returns the flow of the
// WQE, 0 if its slice was not open.
func (x *Writer) completed(number uint32, index uint16, time uint64) (flow uint64, err error) {
	q := x.queueOf(number)
	if l := q.lives[index]; l != nil {
		flow = l.flow
		err = x.end(q, l, time)
	}
	if o := x.table.Queue(number); err != nil || o == nil || o.Info.Port == 0 {
		return flow, err
	}
	for _, l := range q.inOrder() {
		if int16(index-l.index) > 0 {
			if err := x.end(q, l, time); err != nil {
				return flow, err
			}
		}
	}
	return flow, nil
}

// lost ends all slices: among the lost events may be their ends.
func (x *Writer) lost(time uint64) error {
	for _, number := range x.numbers() {
		if err := x.reset(x.queues[number], time); err != nil {
			return err
		}
	}
	return nil
}

// received returns the flow of the message that a receive of a queue pair has got, 0 if it is not known.
// source is the queue pair that has sent it, as the completion says.
func (x *Writer) received(number, source uint32) (flow uint64) {
	o := x.table.Queue(number)
	if o == nil || o.Info.Port != 0 {
		return 0
	}
	if o.Info.Peer != 0 {
		source = o.Info.Peer
	}
	q := x.queues[source]
	if q == nil || len(q.sent) == 0 {
		return 0
	}
	flow = q.sent[0]
	q.sent = append(q.sent[:0], q.sent[1:]...)
	return flow
}

// failed drops the message of a WQE that has failed: no receive will get it.
func (x *Writer) failed(number uint32, index uint16) {
	q := x.queueOf(number)
	l := q.lives[index]
	if l == nil {
		return
	}
	for i, f := range q.sent {
		if f == l.flow {
			q.sent = append(q.sent[:i], q.sent[i+1:]...)
			return
		}
	}
}

func wqeName(index uint16) string { return fmt.Sprintf("wqe %d", index) }
