//go:build linux && (amd64 || arm64)

package top

import (
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/state"
)

// sideBySide is the columns from which entries and fields are beside each other.
const sideBySide = 130

// ringLines draws the ring, its entries, and the fields of the entry under the cursor.
func (p *page) ringLines(height int) []string {
	v := &p.ring
	switch {
	case v.err != "":
		return []string{cut(v.err, p.m.width)}
	case v.ring == nil:
		return []string{"asking the engine for the ring"}
	}
	cells, marks := drawRing(v.ring, v.cursor, p.m.width-2, p.bad(), p.m.st)
	all := []string{"[" + cells + "]", " " + marks}
	if height >= 10 {
		all = append(all, p.legend()...)
	}
	if v.ring.Producer == 0 {
		return append(all, "nothing was ever posted here")
	}
	room := height - len(all)
	if p.m.width >= sideBySide {
		return append(all, p.beside(room)...)
	}
	rows := p.entryRows(room)
	all = append(all, p.entryLines(rows, p.m.width)...)
	return append(all, p.fieldLines(room-rows, p.m.width)...)
}

// entryRows returns how many of the lines under the ring are for the list of entries.
func (p *page) entryRows(room int) int { return max(room*2/5, 1) }

// entriesHeight returns how many entries the screen shows: how far a page key moves the cursor.
func (p *page) entriesHeight() int {
	room := max(p.m.height-8, 2)
	if p.m.width >= sideBySide {
		return room
	}
	return p.entryRows(room)
}

// beside puts the list of entries left of the fields.
func (p *page) beside(room int) (all []string) {
	half := p.m.width/2 - 1
	entries, fields := p.entryLines(room, half), p.fieldLines(room, p.m.width-half-2)
	for i := range max(len(entries), len(fields)) {
		a, b := "", ""
		if i < len(entries) {
			a = entries[i]
		}
		if i < len(fields) {
			b = fields[i]
		}
		all = append(all, left(a, half)+"  "+b)
	}
	return all
}

// entryLines lists the entries around the cursor.
func (p *page) entryLines(rows, width int) (all []string) {
	v := &p.ring
	from, to := v.bounds()
	first := v.cursor - min(uint64(rows/2), v.cursor-from)
	if to-first < uint64(rows) {
		first = to - min(uint64(rows), to-from)
	}
	bad := p.bad()
	for n := first; n < min(first+uint64(rows), to); n++ {
		mark := "  "
		if n == v.cursor {
			mark = "> "
		}
		status := "done"
		switch {
		case bad(n) && n < v.ring.Consumer:
			status = "FAILED"
		case bad(n):
			status = "ERROR"
		case n >= v.ring.Consumer:
			status = "waits"
		}
		line := left(fmt.Sprintf("%s%d %-6s %s", mark, n, status, p.summary(n)), width)
		if n == v.cursor {
			line = p.m.st.cursor.Render(line)
		}
		all = append(all, line)
	}
	return all
}

// bad returns a function that reports whether an entry of the ring is in error.
func (p *page) bad() func(uint64) bool {
	t := p.current()
	if t.of == state.CQRing {
		return func(n uint64) bool {
			b := p.ring.entry(n)
			return len(b) >= cqe.Size && cqe.OpOwn(b[len(b)-1]).Opcode().IsError()
		}
	}
	q := p.m.pic.queue(p.number)
	if q == nil {
		return func(uint64) bool { return false }
	}
	waiting := inError(&q.Queue, t.of)
	failed := map[uint16]bool{}
	if t.of == state.SendRing && q.Failed {
		for _, e := range p.m.pic.errorsOf(q.Number) {
			failed[e.Index] = true
		}
	}
	return func(n uint64) bool { return waiting(n) || n < q.Done && failed[uint16(n)] }
}

// inError returns a function that reports whether an entry of a queue waits to be flushed, because the queue
// is in an error state.
func inError(q *state.Queue, of state.RingOf) func(uint64) bool {
	is := q.State == "ERR" || q.State == "SQE" && of == state.SendRing
	done := q.Done
	if of == state.ReceiveRing {
		done = q.Consumed
	}
	return func(n uint64) bool { return is && n >= done }
}
