//go:build linux && (amd64 || arm64)

package explore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/trace"
)

// A tape has the events of a run. Their times are nanoseconds of virtual time, so they are the same on
// every machine. The rest is left out: process ids, the GUID of the device, and the time stamps in
// completions, which are those of the machine. If there is no watch, the tape has only the completions that
// were polled.
type tape struct {
	events []trace.Event
	mem    *shm.Region
	ring   *trace.Ring
}

// ringBytes is the size of the ring of the watch. It is read after each step of the plan.
const ringBytes = 1 << 20

// watch makes a client watch everything.
func (t *tape) watch(c *client) error {
	m := &control.Watch{All: control.WatchAll, Bytes: ringBytes}
	ans, r, err := c.Call(control.OpWatch, control.Append(nil, control.OpWatch, 0, 0, m)[control.HeaderSize:])
	if err != nil {
		return err
	}
	t.mem, err = shm.AttachReadOnly(r.Rings)
	if err != nil {
		return err
	}
	n := int(ans.(*control.Rings).Size)
	if n > t.mem.Size() {
		return fmt.Errorf("a ring of %d bytes in memory of %d", n, t.mem.Size())
	}
	t.ring, err = trace.NewRing(t.mem.Bytes()[:n:n])
	return err
}

// read takes new events.
func (t *tape) read(w *world) {
	for t.ring != nil {
		var e trace.Event
		ok, err := t.ring.Next(&e)
		if err != nil || !ok {
			return // the engine writes no bad records: its tests say so
		}
		e.Data = bytes.Clone(e.Data)
		e.Time = uint64(w.now)
		switch e.Kind {
		case trace.KindClient:
			e.Value = 0
		case trace.KindCQE:
			unstamp(e.Data)
		case trace.KindQueue: // its GIDs end with the GUID, which each device draws
			guid := binary.BigEndian.AppendUint64(nil, w.d.GUID())
			e.Data = bytes.ReplaceAll(e.Data, guid, make([]byte, len(guid)))
		}
		t.events = append(t.events, e)
		w.explained(&e)
	}
}

// accusations are how codes of explanations begin that blame the poster for its records or WQEs. All
// posters of a plan write them as they must be.
var accusations = []string{"record-", "ds-"}

// explained checks an explanation.
func (w *world) explained(e *trace.Event) {
	if e.Kind != trace.KindExplanation || len(e.Data) < trace.CodeSize {
		return
	}
	i := int(e.Queue) - firstQP
	if i < 0 || i >= len(w.ends) {
		return
	}
	for _, begin := range accusations {
		if strings.HasPrefix(string(e.Data), begin) {
			w.blame(verdict.Failed, w.ends[i], "no such explanation, because what was posted is right", "%s",
				e.Data[trace.CodeSize:])
		}
	}
}

// unstamp clears the time stamp of a completion.
func unstamp(b []byte) {
	if len(b) == cqe.Size && !cqe.OpOwn(b[cqe.Size-1]).Opcode().IsError() {
		clear(b[cqe.OffTimestamp : cqe.OffTimestamp+8])
	}
}

// polled notes a completion that was polled, if no watch does.
func (t *tape) polled(w *world, q *end, b *[cqe.Size]byte) {
	if t.ring != nil {
		return
	}
	data := bytes.Clone(b[:])
	unstamp(data)
	t.events = append(t.events, trace.Event{Kind: trace.KindCQE, Number: uint32(len(t.events)),
		Time: uint64(w.now), Queue: uint32(firstCQ + q.number), Index: uint16(q.cq.next), Count: 1,
		Value: q.cq.next, Data: data})
}

func (t *tape) close() error {
	if t.mem == nil {
		return nil
	}
	return t.mem.Close()
}
