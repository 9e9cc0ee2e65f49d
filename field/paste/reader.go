package paste

import (
	"fmt"
	"io"
	"strings"

	"github.com/nicless/nicless/field/known"
)

// maxText is how much of a line is searched for an error in words. Lines of programs are
// shorter; the cost of the search is bounded.
const maxText = 4 << 10

// Lines of one completion are near each other. These are the most lines between them.
const (
	nearDump  = 8
	nearLines = 4
)

// A Reader finds items in a stream of text. It is not safe for concurrent use.
type Reader struct {
	lines *lines
	blob  blob
	since int // lines since the last row of blob

	queue  []Item
	held   *Item // the last item, as long as the next lines may add to it
	heldAt int   // its last line
	joined bool  // held has a text of its own

	place   known.Facts // of a line that comes before its error
	placeAt int

	unclear []Item // dumps that are nothing, the first ones
	skipped int
	row     []byte
	err     error
}

// mostUnclear is how many dumps that are nothing a Reader remembers, to name them if there is
// nothing else. Logs of the kernel have many.
const mostUnclear = 4

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{lines: newLines(r)} }

// Next returns the next item. The error is io.EOF after the last one, or that of the
// underlying reader.
func (r *Reader) Next() (Item, error) {
	for {
		if len(r.queue) > 0 {
			it := r.queue[0]
			r.queue = r.queue[1:]
			return it, nil
		}
		if r.err != nil {
			return Item{}, r.err
		}
		line, err := r.lines.next()
		if err != nil {
			r.finish(true)
			r.release()
			r.err = err
			continue
		}
		r.line(line)
	}
}

// Line returns how many lines have been read.
func (r *Reader) Line() int { return r.lines.n }

// Unclear returns the first dumps that were no objects, if the text did not say what they are.
func (r *Reader) Unclear() []Item { return r.unclear }

// Skipped returns how many blocks of queues were no valid entries.
func (r *Reader) Skipped() int { return r.skipped }

// Cut returns the number of the first line that was too long to be read whole, and the limit in
// bytes. The number is 0 if there was none.
func (r *Reader) Cut() (line, limit int) { return r.lines.cut, maxLine }

func (r *Reader) line(line []byte) {
	now := r.lines.n
	if r.held != nil && now-r.heldAt > nearDump {
		r.release()
	}
	if r.blob.end(line) {
		r.finish(true)
		return
	}
	found, ok := findRow(line, r.row)
	if ok {
		r.row = found.b[:0]
		line = append(append([]byte(nil), line[:found.start]...), found.rest...)
	}
	text := string(line[:min(len(line), maxText)])
	if t, is := findTitle(text); is {
		r.finish(true)
		r.text(text)
		r.blob.title = t
		r.blob.program = known.ParseLine(text).Program
		if !ok {
			return
		}
	} else if ok && strings.HasSuffix(text, "wqe=") { // libxlio
		r.finish(true)
		r.text(text)
		r.blob.title = title{kind: Send, index: -1, known: true, program: "libxlio"}
		text = ""
	}
	if ok {
		r.since = 0
		if !r.blob.follows(&found) && len(r.blob.b) > 0 {
			r.finish(true)
		}
		r.blob.add(&found, now)
		switch {
		case r.blob.size > 0 && r.blob.least() >= r.blob.size:
			r.finish(true)
		case r.blob.most() >= maxBlob:
			r.finish(false)
		}
		if len(found.rest) > 0 {
			r.finish(true)
			r.text(text)
		}
		return
	}
	if len(r.blob.b) > 0 {
		if len(line) == 1 && line[0] == '*' {
			r.blob.star, r.blob.starLine = true, now
			return
		}
		r.since++
		f := known.ParseLine(text)
		if r.blob.size == 0 && f.Fails() {
			r.finish(true) // what it is about comes first
		}
		if r.since > patience || (!r.blob.offsets && r.since > patiencePlain) {
			r.finish(true)
		}
	}
	r.text(text)
}

// finish makes items of the dump that was read.
func (r *Reader) finish(whole bool) {
	if len(r.blob.b) > 0 {
		alone := r.blob.alone
		list, skipped := r.blob.items(whole)
		r.skipped += skipped
		for _, it := range list {
			if it.Kind == Unclear && !r.blob.title.known {
				if len(r.unclear) < mostUnclear && !(alone && len(it.Bytes) < 4) {
					r.unclear = append(r.unclear, it)
				}
				continue
			}
			r.dump(it)
		}
	}
	if whole {
		r.blob = blob{b: r.blob.b[:0], spans: r.blob.spans[:0], title: title{index: -1}}
	}
	r.since = 0
}

// dump takes an item with bytes.
func (r *Reader) dump(it Item) {
	near := r.held != nil && r.held.Kind == Text && it.Line-r.heldAt <= nearDump
	if s, vendor, ok := it.Error(); ok && near && consistent(&r.held.Facts, s, vendor) {
		it.Facts.Add(r.held.Facts)
		it.Line = min(it.Line, r.held.Line)
		r.held = nil
		r.hold(it, true)
		return
	}
	r.release()
	r.hold(it, false)
}

// text takes a line of words.
func (r *Reader) text(text string) {
	f := known.ParseLine(text)
	if f.Empty() {
		return
	}
	now := r.lines.n
	if f.Command != 0 && !f.Fails() {
		r.release()
		note := fmt.Sprintf("0x%06x is the syndrome of a firmware command, which has no public table", f.Command)
		r.hold(Item{Kind: Text, Line: now, Last: now, Facts: f, Index: -1, Notes: []string{note}}, false)
		return
	}
	if !f.Fails() {
		r.placed(f, text)
		return
	}
	if r.placeAt > 0 && now-r.placeAt <= 1 && r.place.Program == f.Program {
		f.Add(r.place)
	}
	r.placeAt = 0
	if h := r.held; h != nil && h.Kind != Text && !r.joined && now-r.heldAt <= nearLines {
		if s, vendor, ok := h.Error(); ok && consistent(&f, s, vendor) {
			h.Facts.Add(f)
			r.heldAt, r.joined = now, true
			return
		}
	}
	if h := r.held; h != nil && h.Kind == Text && now-r.heldAt <= 1 && completes(&h.Facts, &f) {
		h.Facts.Add(f)
		h.Last, r.heldAt = now, now
		return
	}
	r.release()
	r.hold(Item{Kind: Text, Line: now, Last: now, Facts: f, Index: -1}, false)
}

// completes reports whether the next line g says of the same failure what f does not.
func completes(f, g *known.Facts) bool {
	a, known := f.Cause()
	b, ok := g.Cause()
	return known && ok && a == b && f.Vendor == nil && g.Vendor != nil
}

// placed takes a line that says where something has failed, but not what. Most programs print
// it after the error; the kernel prints it before.
func (r *Reader) placed(f known.Facts, text string) {
	now := r.lines.n
	before := strings.Contains(text, "error cqe on cqn")
	if h := r.held; h != nil && now-r.heldAt <= nearLines && h.Kind == Text && !before && belongs(h, &f) {
		r.held.Facts.Add(f)
		r.held.Last = now
		return
	}
	r.place, r.placeAt = f, now
}

// belongs reports whether the place f is of the program of a held text. Lines that go on, as those of
// NVSHMEM, do not name their program, but a WQE.
func belongs(held *Item, f *known.Facts) bool {
	return f.Program == held.Facts.Program || (f.Program == "" && f.Counter != nil)
}

func (r *Reader) hold(it Item, joined bool) {
	r.held, r.heldAt, r.joined = &it, max(it.Last, r.lines.n), joined
	if it.Last == 0 {
		r.held.Last = it.Line
	}
}

// release lets go of the held item: nothing more can be added to it.
func (r *Reader) release() {
	if r.held != nil {
		r.queue = append(r.queue, *r.held)
		r.held = nil
	}
}

// All reads the stream to its end, for short texts.
func All(r io.Reader) (list []Item, err error) {
	for in := NewReader(r); ; {
		it, err := in.Next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, it)
	}
}
