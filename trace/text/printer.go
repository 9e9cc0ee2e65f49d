package text

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/wqe"
)

// A Printer writes events as lines. It is not safe for concurrent use.
type Printer struct {
	// Zone is the time zone of the times. Nil means UTC.
	Zone *time.Location

	w     io.Writer
	table objects.Table
	known objects.Client // the client of an event of kind KindClient, before that event
	line  []byte
	day   int // of the year, of the line before
}

// New returns a Printer that writes to w: one call of Write for each line.
func New(w io.Writer) *Printer { return &Printer{w: w} }

// Event writes the line, or the lines, of an event: none for WQEs and doorbells that the device finds
// again, because it has not executed them yet, and for clients of which the event says nothing new. It
// returns the error of the writer.
func (p *Printer) Event(e *trace.Event, c trace.Clock) error {
	if e.Kind == trace.KindClient {
		p.known = objects.Client{}
		if known := p.table.Client(e.Queue); known != nil {
			p.known = *known
		}
	}
	p.table.Event(e)
	if e.Kind == trace.KindFetch && len(e.Data) >= wqe.BlockSize {
		a := p.table.Queue(e.Queue).Address()
		for _, w := range p.table.Last() {
			if w.Again {
				continue
			}
			if err := p.print(e, c, fmt.Sprintf("wqe %d fetched: %s", w.Index, WQE(w, a))); err != nil {
				return err
			}
		}
		return nil
	}
	if e.Kind == trace.KindDoorbell && e.Count > 0 && p.table.Announced() == 0 {
		return nil // it was found before
	}
	if e.Kind == trace.KindClient && p.isKnown(e) && p.known.Name == string(e.Data) {
		return nil
	}
	return p.print(e, c, p.what(e))
}

// print writes a line: time, place, and what happened there.
func (p *Printer) print(e *trace.Event, c trace.Clock, what string) error {
	zone := p.Zone
	if zone == nil {
		zone = time.UTC
	}
	t := c.Time(e.Time).In(zone)
	p.line = p.line[:0]
	if t.YearDay() != p.day {
		p.day = t.YearDay()
		p.line = t.AppendFormat(p.line, "# 2006-01-02 MST\n")
	}
	p.line = t.AppendFormat(p.line, "15:04:05.000000000 ")
	p.line = append(p.line, p.place(e)...)
	p.line = append(append(append(p.line, ' '), what...), '\n')
	_, err := p.w.Write(p.line)
	return err
}

// place returns the object that an event is about.
func (p *Printer) place(e *trace.Event) string {
	switch e.Kind {
	case trace.KindClient:
		return fmt.Sprintf("client %d", e.Queue)
	case trace.KindClientGone:
		return p.client(e.Queue)
	case trace.KindKey:
		return fmt.Sprintf("key 0x%x", e.Queue)
	case trace.KindLink:
		return fmt.Sprintf("port %d", e.Queue)
	case trace.KindLost, trace.KindEnd, trace.KindPlan:
		return "trace"
	case trace.KindCQ, trace.KindPolled:
		return fmt.Sprintf("cq 0x%x", e.Queue)
	case trace.KindSRQ:
		return fmt.Sprintf("srq 0x%x", e.Queue)
	}
	if n, ok := objects.QueueOf(e); ok {
		return fmt.Sprintf("qp 0x%x", n)
	}
	if e.Kind == trace.KindPosted || e.Kind == trace.KindChanged {
		return fmt.Sprintf("srq 0x%x", e.Queue)
	}
	if e.Kind == trace.KindExplanation && e.Queue == 0 {
		return p.client(uint32(e.Value))
	}
	if e.Kind == trace.KindExplanation || e.Kind == trace.KindCQE {
		return fmt.Sprintf("cq 0x%x", e.Queue)
	}
	return fmt.Sprintf("0x%x", e.Queue)
}

// client returns a client as lines name it: its number, and its program and process as far as they are known.
func (p *Printer) client(number uint32) string {
	c := p.table.Client(number)
	switch {
	case c == nil:
		return fmt.Sprintf("client %d", number)
	case c.PID == 0:
		return fmt.Sprintf("client %d (%s)", number, word(c.Program()))
	}
	return fmt.Sprintf("client %d (%s, pid %d)", number, word(c.Program()), c.PID)
}

// what returns what happened.
func (p *Printer) what(e *trace.Event) string {
	switch e.Kind {
	case trace.KindClient:
		return p.named(e)
	case trace.KindClientGone:
		return "is gone"
	case trace.KindQueue:
		return p.queue(e)
	case trace.KindQueueGone:
		if e.Value == trace.GoneWithClient {
			return "is destroyed with its client"
		}
		return "is destroyed"
	case trace.KindState:
		return state(e)
	case trace.KindDoorbell:
		n := p.table.Announced()
		return fmt.Sprintf("doorbell: %s from %d on, record 0x%x", count(uint64(n), "block"),
			e.Index+e.Count-n, e.Value)
	case trace.KindFetch:
		return fmt.Sprintf("wqe %d fetched: %s", e.Index, count(uint64(e.Count), "block"))
	case trace.KindExecute:
		return p.executed(e, "executed") + ", " + count(e.Value, "byte")
	case trace.KindWait:
		return fmt.Sprintf("wqe %d waits: %s%v", e.Index, p.opcode(e), trace.WaitReason(e.Value))
	case trace.KindSlice:
		return fmt.Sprintf("wqe %d goes on: %s%s so far", e.Index, p.opcode(e), count(e.Value, "byte"))
	case trace.KindFail:
		s := cqe.Syndrome(e.Value)
		return fmt.Sprintf("%s, %v (syndrome 0x%x %s)", p.executed(e, "failed"), s.Status(), e.Value, s.Error())
	case trace.KindSent:
		return fmt.Sprintf("sent on port %d: %s", e.Index, Packet(e.Data, e.Value))
	case trace.KindReceived:
		return fmt.Sprintf("received on port %d: %s", e.Index, Packet(e.Data, e.Value))
	case trace.KindCQ, trace.KindSRQ, trace.KindReceive, trace.KindPayload:
		return forReplay(e)
	case trace.KindPosted, trace.KindPolled, trace.KindChanged:
		return forSanitizer(e)
	}
	return p.rest(e)
}

// rest is what for the kinds that are not about one queue pair.
func (p *Printer) rest(e *trace.Event) string {
	switch e.Kind {
	case trace.KindCQE:
		return completion(e)
	case trace.KindExplanation:
		return explanation(e)
	case trace.KindKey:
		return p.key(e)
	case trace.KindLink:
		return fmt.Sprintf("link %q is %s", e.Data, map[bool]string{true: "up", false: "down"}[e.Value != 0])
	case trace.KindPlan:
		return fmt.Sprintf("has a plan, piece %d: %s of %d", e.Index, count(uint64(len(e.Data)), "byte"), e.Value)
	case trace.KindLost:
		return count(e.Value, "event") + " lost here: the watcher was too slow"
	case trace.KindEnd:
		s := "ends after " + count(e.Value, "event")
		if e.Index != 0 {
			s += ", because the engine has stopped"
		}
		return s
	}
	return fmt.Sprintf("%v, which this program does not know: index %d, count %d, value 0x%x, %s %s", e.Kind,
		e.Index, e.Count, e.Value, count(uint64(len(e.Data)), "byte"), Hex(e.Data))
}

// isKnown reports whether a line before has named the client of an event of kind KindClient.
func (p *Printer) isKnown(e *trace.Event) bool { return p.known.Name != "" && p.known.PID == e.Value }

// named returns what an event of kind KindClient says. A client that names itself has the name that it had
// before, and its own after that.
func (p *Printer) named(e *trace.Event) string {
	name := string(e.Data)
	own, more := strings.CutPrefix(name, p.known.Name+" ")
	quoted, local := strings.CutPrefix(name, fmt.Sprintf("client %d \"", e.Queue))
	switch {
	case more && p.isKnown(e):
		return "is named " + Plain(own)
	case e.Value == 0:
		return strconv.Quote(name)
	case strings.HasPrefix(name, fmt.Sprintf("pid %d ", e.Value)):
		return Plain(name) // as the engine writes it, which quotes what others have given
	case local:
		return fmt.Sprintf("\"%s pid %d", Plain(quoted), e.Value)
	case name == fmt.Sprintf("client %d", e.Queue):
		return fmt.Sprintf("pid %d", e.Value)
	}
	return fmt.Sprintf("%q pid %d", name, e.Value)
}

func (p *Printer) queue(e *trace.Event) string {
	s := fmt.Sprintf("%v, %v, %s", trace.Transport(e.Count), trace.State(e.Index), p.client(uint32(e.Value)))
	q, err := trace.ParseQueueInfo(e.Data)
	if err != nil {
		return s + fmt.Sprintf(", %v", err)
	}
	setup, _ := trace.ParseQueueSetup(e.Data)
	sends := count(uint64(q.SendBlocks), "block")
	if setup.Flags&trace.NoSends != 0 {
		sends = "no send queue"
	}
	s += fmt.Sprintf(", cqs 0x%x and 0x%x, %s, %s", q.SendCQ, q.RecvCQ, sends, count(uint64(q.RecvEntries), "receive"))
	if setup.Doorbells != trace.RecordStarts {
		s += fmt.Sprintf(", doorbells %v", setup.Doorbells)
	}
	if q.SRQ != 0 {
		s += fmt.Sprintf(", srq 0x%x", q.SRQ)
	}
	if q.GID != [16]byte{} {
		s += ", gid " + GID(q.GID)
	}
	if q.Peer == 0 {
		return s
	}
	s += fmt.Sprintf(", peer qp 0x%x", q.Peer)
	if q.PeerGID != [16]byte{} {
		s += " gid " + GID(q.PeerGID)
	}
	if q.Port != 0 {
		s += fmt.Sprintf(" on port %d", q.Port)
	}
	if q.SendPSN != 0 || q.RecvPSN != 0 {
		s += fmt.Sprintf(", psns %d and %d", q.SendPSN, q.RecvPSN)
	}
	if q.MTU != 0 {
		s += fmt.Sprintf(", mtu %d", q.MTU)
	}
	return s
}

func state(e *trace.Event) string {
	return fmt.Sprintf("%v -> %v, next wqe %d", trace.State(e.Count>>8), trace.State(e.Count&0xff), e.Index)
}

// opcode returns the opcode of the WQE of an event and a separator, or nothing if it is not known.
func (p *Printer) opcode(e *trace.Event) string {
	if w := p.table.Fetched(e.Queue, e.Index); w != nil {
		return w.Ctrl.Opcode.String() + ", "
	}
	return ""
}

// executed returns the WQEs of an event of kind KindExecute or KindFail.
func (p *Printer) executed(e *trace.Event, verb string) string {
	var ops []string
	last := e.Index
	for w := range p.table.Of(e) {
		op, n := w.Ctrl.Opcode.String(), len(ops)
		if n == 0 || ops[n-1] != op {
			ops = append(ops, op)
		}
		last = w.Index
	}
	if ops == nil {
		return fmt.Sprintf("wqe %d %s: %s", e.Index, verb, count(uint64(e.Count), "block"))
	}
	at := fmt.Sprintf("wqe %d", e.Index)
	if last != e.Index {
		at = fmt.Sprintf("wqes %d..%d", e.Index, last)
	}
	return fmt.Sprintf("%s %s: %s", at, verb, strings.Join(ops, ", "))
}

func completion(e *trace.Event) string {
	if len(e.Data) < cqe.Size {
		return fmt.Sprintf("cqe %d of cq 0x%x: only %d bytes of it", e.Value, e.Queue, len(e.Data))
	}
	b := (*[cqe.Size]byte)(e.Data)
	w := cqe.ParseWC(b)
	of := "receive"
	if w.Requester() {
		of = "wqe"
	}
	if n := e.Count; n > 1 {
		return fmt.Sprintf("%ss %d..%d completed: each %s; cqes %d..%d of cq 0x%x", of, w.Counter,
			w.Counter+n-1, CQE(b), e.Value, e.Value+uint64(n)-1, e.Queue)
	}
	return fmt.Sprintf("%s %d completed: %s; cqe %d of cq 0x%x", of, w.Counter, CQE(b), e.Value, e.Queue)
}

// Explanation returns the code and the text of an event of kind KindExplanation.
func Explanation(e *trace.Event) (code, text string) {
	n := min(trace.CodeSize, len(e.Data))
	return string(bytes.TrimRight(e.Data[:n], "\x00")), string(e.Data[n:])
}

// Explained returns what an event of kind KindExplanation is about: a "wqe", "receive", "completion", or, if
// it names no queue, a "request" of a client.
func Explained(e *trace.Event) string {
	if e.Queue == 0 {
		return "request"
	}
	return [...]string{"wqe", "receive", "completion"}[min(e.Count, 2)]
}

func explanation(e *trace.Event) string {
	code, text := Explanation(e)
	of := Explained(e)
	if e.Queue != 0 {
		of = fmt.Sprintf("%s %d", of, e.Index)
	}
	return fmt.Sprintf("%s explained: %s: %s", of, Plain(code), Plain(text))
}

func (p *Printer) key(e *trace.Event) string {
	verb := [...]string{"is gone", "is made", "has changed"}[min(e.Index, 2)]
	k, err := trace.ParseKeyInfo(e.Data)
	if err != nil {
		return verb + fmt.Sprintf(": %v", err)
	}
	s := fmt.Sprintf("%s: %s at 0x%x, rights %s, %s", verb, count(k.Length, "byte"), k.Addr,
		Access(uint64(e.Count)), p.client(k.Client))
	if l, ok := trace.ParseKeyList(e.Data); ok && len(l.Pieces) > 0 {
		s += ", a list of " + count(uint64(len(l.Pieces)), "piece")
	}
	return s
}
