//go:build linux && (amd64 || arm64)

package explore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/wqe"
)

// A change is bytes that may come to a place of an area.
type change struct {
	at    int
	bytes []byte
}

// A stain is a message that may have come in part, at a place of any receive.
type stain struct {
	at int
	id uint32
	n  int
}

// An effect is what a work request changes in the memory of its peer and of its own end.
type effect struct{ far, near []change }

// effects returns what the work requests of one queue change if they are executed in order, from now on.
func effects(list []*request) []effect {
	all := make([]effect, len(list))
	words := make(map[int]uint64)
	for i, r := range list {
		p := r.by.peer
		switch r.opcode {
		case wqe.OpRDMAWrite, wqe.OpRDMAWriteImm:
			all[i].far = []change{{targetAt + r.At, pattern(r.ID, r.N)}}
		case wqe.OpRDMARead:
			all[i].near = []change{{r.slot, p.shadow[readAt+r.At : readAt+r.At+r.N]}}
		case wqe.OpAtomicFA, wqe.OpAtomicCS:
			old, changed := words[r.At]
			if !changed {
				old = p.word(r.At)
			}
			fresh := old + r.Operand
			if r.opcode == wqe.OpAtomicCS {
				fresh = old
				if old == r.Compare {
					fresh = r.Operand
				}
			}
			words[r.At] = fresh
			all[i].far = []change{{wordsAt + r.At, binary.LittleEndian.AppendUint64(nil, fresh)}}
			all[i].near = []change{{r.slot, binary.LittleEndian.AppendUint64(nil, old)}}
		}
	}
	return all
}

// succeeded notes that a work request has been executed.
func (w *world) succeeded(r *request) {
	r.done = true
	if takesReceive(r.opcode) {
		r.life.done++
	}
	e := effects([]*request{r})[0]
	if !r.by.link.reliable() && !r.by.peer.client.gone {
		w.arrive(r, e)
		return
	}
	for _, c := range e.far {
		copy(r.by.peer.shadow[c.at:], c.bytes)
	}
	for _, c := range e.near {
		copy(r.by.shadow[c.at:], c.bytes)
	}
}

// arrive notes that a work request without acknowledgement has been sent. If its bytes are not there, and
// no later one can have overwritten them, something must explain that when the life is over.
func (w *world) arrive(r *request, e effect) {
	for _, c := range e.far {
		here := bytes.Equal(r.by.peer.mem[c.at:c.at+len(c.bytes)], c.bytes)
		for _, later := range effects(r.by.work) {
			for _, l := range later.far {
				here = here || l.at < c.at+len(c.bytes) && c.at < l.at+len(l.bytes)
			}
		}
		if !here {
			r.life.missing = append(r.life.missing, r)
		}
	}
	w.mayHaveHappened(r)
}

// mayHaveHappened takes over what a work request has done, which may be all, a part, or nothing. Those
// after it in its queue may have begun.
func (w *world) mayHaveHappened(r *request) { w.unsure(append([]*request{r}, r.by.work...), 1) }

// unsure takes over what the first n of some work requests of one queue have done. The others may have
// begun.
func (w *world) unsure(list []*request, n int) {
	if len(list) == 0 {
		return
	}
	q := list[0].by
	all := effects(list)
	var far, near []change
	for _, e := range all {
		far, near = append(far, e.far...), append(near, e.near...)
	}
	for _, e := range all[:n] {
		for _, c := range e.far {
			w.adopt(q.peer, &q.peer.area, c.at, len(c.bytes), far)
		}
		for _, c := range e.near {
			w.adopt(q, &q.area, c.at, len(c.bytes), near)
		}
	}
	for _, r := range list[:n] {
		if rec := q.peer.receives; takesReceive(r.opcode) && (rec.shared || !q.link.reliable()) {
			s := stain{q.link.grh(), r.ID, r.N}
			if !slices.Contains(rec.stains, s) {
				rec.stains = append(rec.stains, s)
			}
		}
	}
}

// stained returns what messages that have failed, or are about to, may have left in a receive. A shared
// queue takes the receive of such a message back, and so does UC; the next message gets it.
func (w *world) stained(r *receives, index uint16) (could []change) {
	for _, s := range r.stains {
		could = append(could, change{r.slot(index) + s.at, pattern(s.id, s.n)})
	}
	for _, q := range w.ends {
		if q.receives != r || !r.shared && q.link.reliable() {
			continue
		}
		for _, m := range q.peer.work {
			if takesReceive(m.opcode) {
				could = append(could, m.into(r, index))
			}
		}
	}
	return could
}

// into returns what a message changes in a receive, but for the header before it.
func (m *request) into(r *receives, index uint16) change {
	return change{r.slot(index) + m.by.link.grh(), pattern(m.ID, m.N)}
}

// adopt takes over the bytes of a range. Each has to be what it was, or what one of the changes makes
// of it.
func (w *world) adopt(q *end, a *area, at, n int, could []change) {
	w.checked += (n + 1) * (len(could) + 1)
	if q.client.gone || w.checked > mostChecked {
		return
	}
	for i := at; i < at+n; i++ {
		b := a.mem[i]
		ok := b == a.shadow[i]
		for _, c := range could {
			inside := i >= c.at && i < c.at+len(c.bytes)
			ok = ok || inside && b == c.bytes[i-c.at]
		}
		if !ok {
			w.blame(verdict.WrongBytes, q, fmt.Sprintf("0x%02x, or what a work request writes there", a.shadow[i]),
				"0x%02x at byte %d of its %s", b, i, a.place(i))
			return
		}
	}
	copy(a.shadow[at:at+n], a.mem[at:at+n])
}

// compare compares the memory of an end and of its receives with what must be there. Bytes that work
// requests under way may write are not compared.
func (w *world) compare(q *end) {
	if q.client.gone {
		return
	}
	open := q.area.open()
	for _, e := range effects(q.work) {
		for _, c := range e.near {
			q.leave(open, c.at, len(c.bytes))
		}
	}
	for _, e := range effects(q.peer.work) {
		for _, c := range e.far {
			q.leave(open, c.at, len(c.bytes))
		}
	}
	w.same(q, &q.area, open)
	r := q.receives
	open = r.open()
	for index := range r.list {
		r.leave(open, r.slot(index), messageSize)
	}
	w.same(q, &r.area, open)
}

// untouched checks that nothing changes the memory of clients that are closed.
func (w *world) untouched() {
	for _, c := range w.clients {
		if c.last == nil || w.fault != nil || bytes.Equal(c.last, c.mem) {
			continue
		}
		i := 0
		for c.last[i] == c.mem[i] {
			i++
		}
		w.fault = verdict.New(verdict.WrongBytes, fmt.Sprintf("0x%02x, because the client is closed", c.last[i]),
			"0x%02x at byte %d of all of its memory", c.mem[i], i)
		w.fault.Who = fmt.Sprintf("client %d", c.number)
	}
}

// open returns a copy of what must be in an area.
func (a *area) open() []byte { return bytes.Clone(a.shadow) }

// leave makes n bytes of such a copy those that are there.
func (a *area) leave(open []byte, at, n int) { copy(open[at:at+n], a.mem[at:at+n]) }

func (w *world) same(q *end, a *area, want []byte) {
	if bytes.Equal(want, a.mem) {
		return
	}
	n := 0
	first := -1
	for i := range want {
		if want[i] != a.mem[i] {
			n++
			if first < 0 {
				first = i
			}
		}
	}
	w.blame(verdict.WrongBytes, q, fmt.Sprintf("0x%02x", want[first]), "0x%02x at byte %d of its %s; wrong bytes in all: %d",
		a.mem[first], first, a.place(first), n)
}

// place says what a byte of an area is for.
func (a *area) place(i int) string {
	switch {
	case len(a.mem) == slotsSize:
		return "receives"
	case i < targetAt-guard:
		return "sources and results"
	case i < wordsAt-guard:
		return "memory that its peer writes"
	case i < readAt-guard:
		return "words for atomics"
	}
	return "memory that its peer reads"
}

func (q *end) name() string { return "qp " + hex(q.qpn) }

func (r *request) name() string { return fmt.Sprintf("wqe %d (%s)", r.index, r.Op) }

func hex(n uint32) string { return fmt.Sprintf("0x%x", n) }

// count says how many of something there are.
func count(n int, what string) string {
	switch {
	case what == "":
		return fmt.Sprint(n)
	case n == 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
