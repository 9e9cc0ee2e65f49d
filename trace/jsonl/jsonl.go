// Package jsonl writes the events of a trace for programs: JSON Lines, one object an event. A fetch of
// several WQEs has an object for each of them.
//
// All objects have these names first:
//
//	time    time of day, RFC 3339 in UTC, with nanoseconds
//	ticks   device clock
//	number  number of the event in its shard
//	kind    as trace.Kind.String returns it
//
// The names after them are those of the kind; docs/TRACE.md lists them. Numbers of queue pairs, keys and
// queues are JSON numbers. The fields of a WQE, a CQE and a packet are under "wqe", "cqe" and "packet", by
// the names that the golden vectors have, as nicless decode --json prints them, and "bytes" has their bytes
// in hexadecimal digits. The text is ASCII: a terminal shows it as it is.
//
// Names may be added; none changes its meaning.
package jsonl

import (
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/trace/text"
	"github.com/nicless/nicless/wqe"
)

// A Printer writes events as JSON objects. It is not safe for concurrent use.
type Printer struct {
	w     io.Writer
	table objects.Table
	line  []byte
}

// New returns a Printer that writes to w: one call of Write for each line.
func New(w io.Writer) *Printer { return &Printer{w: w} }

// Event writes the object, or the objects, of an event. It returns the error of the writer.
func (p *Printer) Event(e *trace.Event, c trace.Clock) error {
	p.table.Event(e)
	if e.Kind == trace.KindFetch && len(p.table.Last()) > 0 {
		for _, w := range p.table.Last() {
			if err := p.print(e, c, p.wqe(e, w)); err != nil {
				return err
			}
		}
		return nil
	}
	return p.print(e, c, p.fields(e))
}

func (p *Printer) print(e *trace.Event, c trace.Clock, fields field.Tree) error {
	t := append(object{}.
		add("time", c.Time(e.Time).UTC().Format("2006-01-02T15:04:05.000000000Z07:00")).
		add("ticks", e.Time).add("number", e.Number).add("kind", e.Kind.String()), fields...)
	b, err := field.Tree(t).MarshalJSON()
	if err != nil {
		return fmt.Errorf("jsonl: %v: %w", e.Kind, err)
	}
	p.line = append(ascii(p.line[:0], b), '\n')
	_, err = p.w.Write(p.line)
	return err
}

// ascii appends the JSON text b with escapes for everything that is not a printable character of ASCII. Such
// bytes are in strings only.
func ascii(dst, b []byte) []byte {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r >= 0x10000:
			r -= 0x10000
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		case r < ' ' || r >= 0x7f:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = append(dst, byte(r))
		}
		b = b[n:]
	}
	return dst
}

// An object is a tree that grows.
type object field.Tree

func (o object) add(name string, v any) object { return append(o, field.Field{Name: name, Value: v}) }

func (o object) sub(name string, t field.Tree) object {
	return append(o, field.Field{Name: name, Sub: t})
}

// wqe returns the fields of a WQE that was fetched.
func (p *Printer) wqe(e *trace.Event, w *objects.WQE) field.Tree {
	o := object{}.add("qp", e.Queue).add("index", w.Index).add("opcode", w.Ctrl.Opcode.String()).
		add("whole", w.Whole()).add("again", w.Again).add("bytes", field.Bytes(w.Bytes))
	if w.Whole() {
		a := p.table.Queue(e.Queue).Address()
		t, err := wqe.DescribeSend(w.Bytes[:int(w.Ctrl.DS)*wqe.UnitSize], a)
		o = o.sub("wqe", t)
		if err != nil {
			o = o.add("wrong", err.Error())
		}
	}
	return field.Tree(o)
}

// fields returns the fields of an event after the first four.
func (p *Printer) fields(e *trace.Event) field.Tree {
	o := object{}
	switch e.Kind {
	case trace.KindClient:
		o = o.add("client", e.Queue).add("pid", e.Value).add("name", string(e.Data)).
			add("program", (&objects.Client{Name: string(e.Data)}).Program())
	case trace.KindClientGone:
		o = o.add("client", e.Queue)
	case trace.KindQueue:
		o = queue(e)
	case trace.KindQueueGone:
		o = o.add("qp", e.Queue).add("with_client", e.Value == trace.GoneWithClient)
	case trace.KindState:
		o = o.add("qp", e.Queue).add("index", e.Index).add("from", trace.State(e.Count>>8).String()).
			add("to", trace.State(e.Count&0xff).String())
	case trace.KindDoorbell:
		o = o.add("qp", e.Queue).add("index", e.Index).add("blocks", e.Count).
			add("new_blocks", p.table.Announced()).add("record", e.Value)
	case trace.KindFetch:
		o = o.add("qp", e.Queue).add("index", e.Index).add("blocks", e.Count)
	case trace.KindExecute:
		o = o.add("qp", e.Queue).add("index", e.Index).add("blocks", e.Count).add("bytes_moved", e.Value)
		o = append(o, p.wqes(e))
	case trace.KindWait:
		o = o.add("qp", e.Queue).add("index", e.Index).add("reason", trace.WaitReason(e.Value).String())
	case trace.KindSlice:
		o = o.add("qp", e.Queue).add("index", e.Index).add("bytes_moved", e.Value)
	case trace.KindFail:
		s := cqe.Syndrome(e.Value)
		o = o.add("qp", e.Queue).add("index", e.Index).add("blocks", e.Count).add("syndrome", e.Value).
			add("status", s.Status().String()).add("text", s.Error())
		o = append(o, p.wqes(e))
	default:
		return p.rest(e)
	}
	return field.Tree(o)
}

func (p *Printer) rest(e *trace.Event) field.Tree {
	o := object{}
	switch e.Kind {
	case trace.KindCQE:
		o = o.add("cq", e.Queue).add("index", e.Value).add("count", max(e.Count, 1)).
			add("bytes", field.Bytes(e.Data))
		if len(e.Data) == cqe.Size {
			t, _ := cqe.Describe(e.Data)
			qp, _ := objects.QueueOf(e)
			o = o.add("qp", qp).add("text", text.CQE((*[cqe.Size]byte)(e.Data))).sub("cqe", t)
		}
	case trace.KindSent, trace.KindReceived:
		o = onLink(e)
	case trace.KindExplanation:
		code, words := text.Explanation(e)
		o = o.add("of", text.Explained(e)).add("queue", e.Queue).add("index", e.Index).
			add("code", code).add("text", words)
		if e.Value != 0 {
			o = o.add("client", e.Value)
		}
	case trace.KindKey:
		o = o.add("key", e.Queue).add("change", [...]string{"gone", "made", "changed"}[min(e.Index, 2)]).
			add("access", e.Count).add("access_text", text.Access(uint64(e.Count)))
		if k, err := trace.ParseKeyInfo(e.Data); err == nil {
			o = o.add("address", field.Hex64(k.Addr)).add("length", k.Length).add("client", k.Client)
		}
		if l, ok := trace.ParseKeyList(e.Data); ok {
			o = append(o, pieces(l))
		}
	case trace.KindLink:
		o = o.add("port", e.Queue).add("up", e.Value != 0).add("name", string(e.Data))
	case trace.KindCQ, trace.KindSRQ, trace.KindReceive, trace.KindPayload:
		return forReplay(e)
	case trace.KindPosted, trace.KindPolled, trace.KindChanged:
		return forSanitizer(e)
	case trace.KindPlan:
		o = o.add("piece", e.Index).add("length", e.Value).add("text", string(e.Data))
	case trace.KindLost:
		o = o.add("events", e.Value)
	case trace.KindEnd:
		o = o.add("events", e.Value).add("engine_stopped", e.Index == 1)
	default:
		o = o.add("queue", e.Queue).add("index", e.Index).add("count", e.Count).add("value", e.Value).
			add("bytes", field.Bytes(e.Data))
	}
	return field.Tree(o)
}

func queue(e *trace.Event) object {
	o := object{}.add("qp", e.Queue).add("transport", trace.Transport(e.Count).String()).
		add("state", trace.State(e.Index).String()).add("client", e.Value)
	q, err := trace.ParseQueueInfo(e.Data)
	if err != nil {
		return o.add("wrong", err.Error())
	}
	o = o.add("send_cq", q.SendCQ).add("recv_cq", q.RecvCQ).add("peer", q.Peer).add("srq", q.SRQ).
		add("send_psn", q.SendPSN).add("recv_psn", q.RecvPSN).add("send_blocks", q.SendBlocks).
		add("recv_entries", q.RecvEntries).add("port", q.Port).add("mtu", q.MTU).
		add("gid", text.GID(q.GID)).add("peer_gid", text.GID(q.PeerGID))
	if s, ok := trace.ParseQueueSetup(e.Data); ok {
		o = o.add("sends", s.Flags&trace.NoSends == 0).add("doorbells", s.Doorbells.String())
	}
	return o
}

// pieces returns the pieces of a list.
func pieces(l trace.KeyList) field.Field {
	list := []field.Field{}
	for _, p := range l.Pieces {
		t := object{}.add("key", p.Key).add("address", field.Hex64(p.Addr)).add("length", p.N)
		list = append(list, field.Field{Sub: field.Tree(t)})
	}
	return field.Field{Name: "pieces", List: list}
}

// wqes returns the WQEs that an event tells of, as far as they are known.
func (p *Printer) wqes(e *trace.Event) field.Field {
	list := []field.Field{}
	for w := range p.table.Of(e) {
		t := object{}.add("index", w.Index).add("opcode", w.Ctrl.Opcode.String())
		list = append(list, field.Field{Sub: field.Tree(t)})
	}
	return field.Field{Name: "wqes", List: list}
}

func onLink(e *trace.Event) object {
	o := object{}.add("qp", e.Queue).add("port", e.Index).add("length", e.Value).
		add("text", text.Packet(e.Data, e.Value)).add("bytes", field.Bytes(e.Data))
	if len(e.Data) >= packet.BTHSize && uint64(len(e.Data)) == e.Value && e.Value%4 == 0 {
		whole := append(append([]byte(nil), e.Data...), make([]byte, packet.ICRCSize)...)
		if t, err := packet.Describe(whole); err == nil {
			o = o.sub("packet", without(t, "icrc"))
		}
	}
	return o
}

// without returns the tree without a field: links take the ICRC off before a trace gets the packet.
func without(t field.Tree, name string) (list field.Tree) {
	for _, f := range t {
		if f.Name != name {
			list = append(list, f)
		}
	}
	return list
}
