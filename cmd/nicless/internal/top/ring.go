//go:build linux && (amd64 || arm64)

package top

import (
	"fmt"
	"strings"

	"github.com/nicless/nicless/state"
)

// A ringView is a ring on the screen, with a cursor over its entries.
type ringView struct {
	ring   *state.Ring // nil: not known yet
	err    string      // why it is not known
	cursor uint64      // number of an entry, counted since RESET
	follow bool        // the cursor is at the consumer
	scroll int         // of the fields
}

// request returns the question for the entries around the cursor.
func (v *ringView) request(t pageTab) *state.RingRequest {
	size := t.size
	if v.ring != nil {
		size = v.ring.Size
	}
	r := &state.RingRequest{Queue: t.queue, Of: t.of, Count: int(min(max(size, 1), state.MostEntries))}
	if v.follow {
		r.Last = true
	} else {
		r.First = v.cursor - min(uint64(r.Count/2), v.cursor)
	}
	return r
}

// take takes the answer. Numbers that do not fit each other are refused: an engine of another version may
// send anything.
func (v *ringView) take(r *state.Ring, err error) {
	switch {
	case err != nil:
		v.ring, v.err = nil, clean(err.Error())
	case r == nil || r.Size == 0 || r.Entry == 0 || r.Producer < r.Consumer:
		v.ring, v.err = nil, "the engine has sent no such ring"
	default:
		v.ring, v.err = r, ""
		v.place()
	}
}

// bounds returns the entries that the ring has: [from, to).
func (v *ringView) bounds() (from, to uint64) {
	to = v.ring.Producer
	return to - min(to, uint64(v.ring.Size)), to
}

// place brings the cursor onto an entry: onto the consumer if it follows that, or the last entry if nothing
// waits.
func (v *ringView) place() {
	from, to := v.bounds()
	if v.follow {
		v.cursor = v.ring.Consumer
	}
	v.cursor = max(min(v.cursor, max(to, 1)-1), from)
}

// move moves the cursor. It reports whether the entries around it have to be asked for.
func (v *ringView) move(by int) bool {
	if v.ring == nil {
		return false
	}
	v.follow, v.scroll = false, 0
	if by < 0 {
		v.cursor -= min(uint64(-by), v.cursor)
	} else {
		v.cursor += uint64(by)
	}
	v.place()
	return v.entry(v.cursor) == nil
}

// entry returns the bytes of an entry; nil if they are not there.
func (v *ringView) entry(n uint64) []byte {
	r := v.ring
	if n < r.First || n-r.First >= uint64(len(r.Bytes))/uint64(r.Entry) {
		return nil
	}
	at := (n - r.First) * uint64(r.Entry)
	return r.Bytes[at : at+uint64(r.Entry)]
}

// drawRing draws a ring in a line of cells: "!" for entries in error, a full cell for those that wait, an
// empty one for free ones. A second line has C under the consumer, P under the producer (* if both are
// there), and ^ under the cursor.
func drawRing(r *state.Ring, cursor uint64, width int, bad func(uint64) bool,
	st *styles) (cells, marks string) {
	n := int(min(uint64(r.Size), uint64(max(width, 1))))
	line := make([]string, n)
	for i := range line {
		line[i] = st.empty
	}
	size := uint64(r.Size)
	cell := func(number uint64) int { return int(number % size * uint64(n) / size) }
	waiting := min(r.Producer-r.Consumer, size)
	for k := range uint64(n) { // the first entry that waits in each cell, and those in error among the first
		slot := (k*size + uint64(n) - 1) / uint64(n)
		if d := (slot + size - r.Consumer%size) % size; d < waiting {
			line[k] = st.full
			if bad(r.Consumer + d) {
				line[k] = "!"
			}
		}
	}
	if waiting > 0 && line[cell(r.Consumer)] == st.empty {
		line[cell(r.Consumer)] = st.full
	}
	from, _ := (&ringView{ring: r}).bounds()
	for e := max(from, r.First); e < min(r.First+state.MostEntries, r.Producer); e++ {
		if bad(e) {
			line[cell(e)] = "!"
		}
	}
	under := []byte(strings.Repeat(" ", n))
	under[cell(cursor)] = '^'
	under[cell(r.Consumer)] = 'C'
	if p := cell(r.Producer); under[p] == 'C' {
		under[p] = '*'
	} else {
		under[p] = 'P'
	}
	return strings.Join(line, ""), string(under)
}

// legend explains the signs, with the figures.
func (p *page) legend() []string {
	r := p.ring.ring
	free := uint64(r.Size) - min(r.Producer-r.Consumer, uint64(r.Size))
	return flow([]string{
		fmt.Sprintf("%s entries of %d bytes", grouped(r.Size), r.Entry),
		"C consumer " + grouped(r.Consumer), "P producer " + grouped(r.Producer),
		"^ cursor " + grouped(p.ring.cursor),
		fmt.Sprintf("%s wait %d", p.m.st.full, r.Producer-r.Consumer),
		fmt.Sprintf("%s free %d", p.m.st.empty, free),
		"! in error",
	}, p.m.width)
}
