package sanitize

import (
	"fmt"
	"strings"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/text"
)

// A Code says which mistake a report is about. docs/SANITIZER.md describes each.
type Code string

const (
	SendBufferChanged     Code = "send-buffer-changed"     // bytes that a WQE sends, too early
	ReceiveBufferChanged  Code = "receive-buffer-changed"  // the buffer of a receive, too early
	ReceiveBufferRead     Code = "receive-buffer-read"     // the same, read; only an EarlyAccess shows it
	WQERewritten          Code = "wqe-rewritten"           // a slot of a send queue, too early
	ReceiveRewritten      Code = "receive-rewritten"       // an entry of a receive queue, too early
	KeyGone               Code = "key-gone"                // a deregistered key is used
	NeverPolled           Code = "never-polled"            // no completion of a queue was ever taken
	ReceivesNeverConsumed Code = "receives-never-consumed" // no receive of a queue was ever used
	DestroyedInFlight     Code = "destroyed-in-flight"     // a queue pair that had WQEs to execute
	Race                  Code = "race"                    // two accesses without an order between them
	EventsLost            Code = "events-lost"             // the sanitizer was too slow
)

// A Severity says whether a report is certainly about a mistake.
type Severity string

const (
	Error Severity = "error"
	Note  Severity = "note" // correct programs may do that
)

// An Access is one end of a report: something that a program, or the device for it, has done to memory or to
// a queue.
type Access struct {
	Does    string   `json:"does"` // as in: read, write, store (of the program itself), deregistration
	Program string   `json:"program,omitempty"`
	PID     uint64   `json:"pid,omitempty"`
	Client  uint32   `json:"client"`
	QP      uint32   `json:"qp,omitempty"`
	SRQ     uint32   `json:"srq,omitempty"`
	CQ      uint32   `json:"cq,omitempty"`
	Index   *uint16  `json:"index,omitempty"` // of a WQE or a receive
	Opcode  string   `json:"opcode,omitempty"`
	Addr    uint64   `json:"address,omitempty"` // in the program whose memory it is
	Length  uint64   `json:"length,omitempty"`  // bytes
	Key     uint32   `json:"key,omitempty"`
	Ticks   uint64   `json:"ticks,omitempty"` // device clock when the device found it
	Time    string   `json:"time,omitempty"`  // the same as time of day in UTC, if the clock is known
	Stack   []string `json:"stack,omitempty"` // innermost first, of posters that are known
}

// A Report is a mistake that was found.
type Report struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Text     string   `json:"text"` // a sentence
	Hint     string   `json:"hint,omitempty"`
	Accesses []Access `json:"accesses,omitempty"`
	Ticks    uint64   `json:"ticks"` // device clock when it was found
}

const line = "=================="

// String returns the report in several lines, as other sanitizers do. Everything that programs have named is
// safe for a terminal.
func (r *Report) String() string {
	var b strings.Builder
	word := "ERROR"
	if r.Severity == Note {
		word = "NOTE"
	}
	fmt.Fprintf(&b, "%s\n%s: nicless sanitizer: %s: %s\n", line, word, r.Code, r.Text)
	for i := range r.Accesses {
		r.Accesses[i].write(&b)
	}
	if r.Hint != "" {
		fmt.Fprintf(&b, "  %s\n", r.Hint)
	}
	b.WriteString(line + "\n")
	return b.String()
}

func (a *Access) write(b *strings.Builder) {
	fmt.Fprintf(b, "  %s", strings.ToUpper(a.Does[:1])+a.Does[1:])
	if a.Length > 0 {
		fmt.Fprintf(b, " of %s at 0x%x", countBytes(a.Length), a.Addr)
	}
	fmt.Fprintf(b, " by %s:\n", a.who())
	var list []string
	for _, q := range []struct {
		name   string
		number uint32
	}{{"qp", a.QP}, {"srq", a.SRQ}, {"cq", a.CQ}} {
		if q.number != 0 {
			list = append(list, fmt.Sprintf("%s 0x%x", q.name, q.number))
		}
	}
	if a.Index != nil {
		name := "receive"
		if a.Opcode != "" {
			name = "wqe"
		}
		list = append(list, fmt.Sprintf("%s %d", name, *a.Index))
	}
	if a.Opcode != "" {
		list = append(list, a.Opcode)
	}
	if a.Key != 0 {
		list = append(list, fmt.Sprintf("key 0x%x", a.Key))
	}
	switch {
	case a.Time != "":
		list = append(list, "at "+a.Time)
	case a.Ticks != 0:
		list = append(list, fmt.Sprintf("at tick %d", a.Ticks))
	}
	if len(list) > 0 {
		fmt.Fprintf(b, "    %s\n", strings.Join(list, ", "))
	}
	for i, f := range a.Stack {
		fmt.Fprintf(b, "    #%d %s\n", i, text.Plain(f))
	}
}

func (a *Access) who() string {
	s := "client " + fmt.Sprint(a.Client)
	if a.PID != 0 {
		s = fmt.Sprintf("pid %d", a.PID)
	}
	if a.Program != "" {
		s += fmt.Sprintf(" (%s)", text.Plain(a.Program))
	}
	return s
}

func countBytes(n uint64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// clockTime returns the time of day of ticks, if the clock is known.
func clockTime(c trace.Clock, ticks uint64) string {
	if c.Hz == 0 || ticks == 0 {
		return ""
	}
	return c.Time(ticks).UTC().Format("15:04:05.000000000Z")
}
