package perfetto

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/trace/text"
)

// A Writer writes events as a trace of Perfetto. It is not safe for concurrent use.
type Writer struct {
	w      io.Writer
	clock  trace.Clock
	table  objects.Table
	tracks map[place]uint64
	queues map[uint32]*queue
	open   int    // slices that have not ended
	ids    uint64 // of tracks and flows
	begun  bool
	buf    message
}

// New returns a Writer that writes to w: one call of Write for each packet of Perfetto's format.
func New(w io.Writer) *Writer { return &Writer{w: w} }

// Event writes what an event becomes. It returns the error of the underlying writer.
func (x *Writer) Event(e *trace.Event, c trace.Clock) error {
	x.clock = c
	if !x.begun {
		x.begun = true
		if err := x.start(); err != nil {
			return err
		}
	}
	x.table.Event(e)
	switch e.Kind {
	case trace.KindDoorbell:
		return x.doorbell(e)
	case trace.KindFetch:
		for _, w := range x.table.Last() {
			if err := x.begin(e, w); err != nil {
				return err
			}
		}
		return nil
	case trace.KindExecute:
		return x.executed(e)
	case trace.KindWait:
		return x.note(e, e.Index, "waits: "+trace.WaitReason(e.Value).String())
	case trace.KindSlice:
		return x.note(e, e.Index, "goes on", annotation{name: "bytes so far", number: e.Value})
	case trace.KindFail:
		x.failed(e.Queue, e.Index)
		s := cqe.Syndrome(e.Value)
		return x.note(e, e.Index, "failed: "+s.Status().String(),
			annotation{name: "syndrome", text: s.Error()})
	case trace.KindCQE:
		return x.completion(e)
	}
	return x.other(e)
}

// other is Event for kinds that are about no WQE.
func (x *Writer) other(e *trace.Event) error {
	switch e.Kind {
	case trace.KindClient:
		return nil // its track is described with its first queue pair or key: its name may become known later
	case trace.KindClientGone:
		return x.clientGone(e)
	case trace.KindQueue:
		return x.inQueue(e, e.Queue, "queue", trace.State(e.Index).String(), x.peer(e)...)
	case trace.KindQueueGone:
		if err := x.inQueue(e, e.Queue, "queue", "destroyed"); err != nil {
			return err
		}
		return x.drop(e.Queue, e.Time)
	case trace.KindState:
		if x.table.Queue(e.Queue) == nil {
			return nil // a queue pair that is destroyed is reset after that
		}
		from, to := trace.State(e.Count>>8), trace.State(e.Count&0xff)
		if err := x.inQueue(e, e.Queue, "queue", fmt.Sprintf("%v -> %v", from, to)); err != nil {
			return err
		}
		if to != trace.RST {
			return nil
		}
		return x.reset(x.queueOf(e.Queue), e.Time)
	case trace.KindExplanation:
		return x.explanation(e)
	case trace.KindSent, trace.KindReceived:
		return x.onLink(e)
	case trace.KindKey:
		track, err := x.client(x.table.ClientOf(e))
		verb := [...]string{"gone", "made", "changed"}[min(e.Index, 2)]
		k, _ := trace.ParseKeyInfo(e.Data)
		return x.at(e, track, err, "key", fmt.Sprintf("key 0x%x %s", e.Queue, verb),
			annotation{name: "rights", text: text.Access(uint64(e.Count))},
			annotation{name: "address", text: fmt.Sprintf("0x%x", k.Addr)},
			annotation{name: "length", number: k.Length})
	case trace.KindLink:
		track, err := x.port(e.Queue)
		return x.at(e, track, err, "link", map[bool]string{true: "up", false: "down"}[e.Value != 0],
			annotation{name: "link", text: text.Plain(string(e.Data))})
	case trace.KindLost:
		track, err := x.device()
		err = x.at(e, track, err, "trace", "events lost", annotation{name: "events", number: e.Value})
		if err != nil {
			return err
		}
		return x.lost(e.Time)
	case trace.KindEnd:
		track, err := x.device()
		return x.at(e, track, err, "trace", "end of the trace")
	}
	track, err := x.device()
	return x.at(e, track, err, "trace", e.Kind.String(), annotation{name: "value", number: e.Value})
}

// start writes the clocks: the times of all packets are those of the day, and so is the clock that
// packets have if they name none.
func (x *Writer) start() error {
	now := uint64(x.clock.Unix)
	m := message{}
	for _, id := range []uint64{clockBoottime, clockRealtime} {
		m = m.sub(snapshotClocks, message{}.uint(clockID, id).uint(clockTimestamp, now))
	}
	p := message{}.uint(packetSequence, sequence).uint(packetSequenceFlags, stateCleared).
		sub(packetClockSnapshot, m)
	return x.write(p)
}

// packet writes a packet without a time.
func (x *Writer) packet(m message) error { return x.write(m.uint(packetSequence, sequence)) }

func (x *Writer) write(m message) error {
	x.buf = x.buf[:0].sub(tracePacket, m)
	_, err := x.w.Write(x.buf)
	return err
}

// event writes an event with a time in ticks.
func (x *Writer) event(ticks uint64, e event) error {
	time := uint64(max(x.clock.Time(ticks).UnixNano(), 0))
	return x.packet(message{}.uint(packetTimestamp, time).sub(packetTrackEvent, e.message()))
}

// at writes an instant on a track. err is the error with which the track was found.
func (x *Writer) at(
	e *trace.Event, track uint64, err error, category, name string, a ...annotation,
) error {
	if err != nil {
		return err
	}
	return x.event(e.Time, event{kind: instant, track: track, category: category, name: name, annotations: a})
}

// inQueue writes an instant of a queue pair.
func (x *Writer) inQueue(e *trace.Event, qp uint32, category, name string, a ...annotation) error {
	track, err := x.queue(qp)
	return x.at(e, track, err, category, name, a...)
}

// peer returns the peer of a queue pair that is described.
func (x *Writer) peer(e *trace.Event) []annotation {
	q, err := trace.ParseQueueInfo(e.Data)
	if err != nil || q.Peer == 0 {
		return nil
	}
	where := "on this device"
	if q.Port != 0 {
		where = fmt.Sprintf("on port %d", q.Port)
	}
	return []annotation{{name: "peer", text: fmt.Sprintf("qp 0x%x %s", q.Peer, where)}}
}

func (x *Writer) doorbell(e *trace.Event) error {
	flow := x.newID()
	b, ok := x.queueOf(e.Queue).doorbell(e, flow)
	if !ok {
		return nil
	}
	track, err := x.queue(e.Queue)
	if err != nil {
		return err
	}
	return x.event(e.Time, event{kind: instant, track: track, category: "doorbell", name: "doorbell",
		flows: []uint64{flow}, annotations: []annotation{{name: "first block", number: uint64(b.first)},
			{name: "blocks", number: uint64(b.count)}}})
}

// completion writes the instants of completions, and ends the slices of their WQEs.
func (x *Writer) completion(e *trace.Event) error {
	if len(e.Data) < cqe.Size {
		return nil
	}
	b := [cqe.Size]byte(e.Data)
	tail := cqe.Tail(be.Uint64(b[cqe.OffTail:]))
	for i := range max(e.Count, 1) {
		be.PutUint64(b[cqe.OffTail:], uint64(tail.Later(int(i))))
		if err := x.complete(e, &b); err != nil {
			return err
		}
	}
	return nil
}

func (x *Writer) complete(e *trace.Event, b *[cqe.Size]byte) error {
	w := cqe.ParseWC(b)
	track, err := x.cq(e.Queue, w.QPN)
	if err != nil {
		return err
	}
	of := wqeName(w.Counter)
	var flow uint64
	switch {
	case w.Requester():
		flow, err = x.completed(w.QPN, w.Counter, e.Time)
	default:
		of = fmt.Sprintf("receive %d", w.Counter)
		if w.Status == cqe.StatusSuccess {
			flow = x.received(w.QPN, w.SrcQP)
		}
	}
	if err != nil {
		return err
	}
	out := event{kind: instant, track: track, category: "cqe", name: w.Status.String(),
		annotations: []annotation{{name: "completion", text: text.CQE(b)},
			{name: "of", text: fmt.Sprintf("qp 0x%x %s", w.QPN, of)}}}
	if w.Status == cqe.StatusSuccess {
		out.name = w.Opcode.String()
	}
	if flow != 0 {
		out.flows = []uint64{flow}
	}
	err = x.event(e.Time, out)
	if err != nil || w.Requester() {
		return err
	}
	// The receive is an instant of its queue pair, too, where the arrow goes on.
	out.name, out.category = "receive", "receive"
	out.track, err = x.queue(w.QPN)
	if err != nil {
		return err
	}
	return x.event(e.Time, out)
}

func (x *Writer) clientGone(e *trace.Event) error {
	c := x.table.Client(e.Queue)
	if c == nil {
		return nil
	}
	track, err := x.client(c)
	err = x.at(e, track, err, "client", fmt.Sprintf("client %d gone", c.Number))
	for _, number := range x.numbers() {
		if q := x.table.Queue(number); q != nil && q.Client == c.Number {
			if err == nil {
				err = x.drop(number, e.Time)
			}
		}
	}
	delete(x.tracks, place{clientTrack, uint64(c.Number)})
	return err
}

func (x *Writer) explanation(e *trace.Event) error {
	code, words := text.Explanation(e)
	a := []annotation{{name: "text", text: text.Plain(words)}, {name: "index", number: uint64(e.Index)}}
	name := "explained: " + text.Plain(code)
	if qp, ok := objects.QueueOf(e); ok {
		return x.inQueue(e, qp, "explanation", name, a...)
	}
	if c := x.table.ClientOf(e); c != nil && e.Queue == 0 {
		track, err := x.client(c)
		return x.at(e, track, err, "explanation", name, a...)
	}
	track, err := x.device()
	return x.at(e, track, err, "explanation", name, a...)
}

func (x *Writer) onLink(e *trace.Event) error {
	name := e.Kind.String()
	if len(e.Data) > 0 {
		name += " " + packet.Opcode(e.Data[0]).String()
	}
	track, err := x.port(uint32(e.Index))
	return x.at(e, track, err, "packet", name, annotation{name: "packet", text: text.Packet(e.Data, e.Value)},
		annotation{name: "bytes", number: e.Value})
}

// numbers returns the numbers of the queue pairs that the Writer knows, in order: so the output is always the
// same.
func (x *Writer) numbers() []uint32 { return slices.Sorted(maps.Keys(x.queues)) }

// inOrder returns the open slices of a queue pair, the oldest first.
func (q *queue) inOrder() []*life {
	list := slices.Collect(maps.Values(q.lives))
	slices.SortFunc(list, func(a, b *life) int { return int(int64(a.flow) - int64(b.flow)) })
	return list
}

var be = binary.BigEndian
