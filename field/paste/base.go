package paste

import (
	"slices"

	"github.com/nicless/nicless/cqe"
)

// The offsets of od are octal, decimal (-A d) or hexadecimal, and those of hexdump hexadecimal; all have 7
// digits. Two rows that follow each other tell the bases apart. A line "*" between rows does not always, so
// a dump keeps each base that is possible so far, until a later row or the last offset decides.

// base is an index of the bases.
type base int

const (
	octal base = iota // the usual one of od
	hexadecimal
	decimal
	numBases
)

var radix = [numBases]int64{8, 16, 10}

// places are an offset, read in each base; -1 where it has other digits.
type places [numBases]int64

// readPlaces reads at most 16 hexadecimal digits.
func readPlaces(digits []byte) (p places) {
	for _, c := range digits {
		n := int64(nibble(c))
		for b := range p {
			if p[b] >= 0 && n < radix[b] {
				p[b] = (p[b]*radix[b] + n) & (1<<62 - 1)
			} else {
				p[b] = -1
			}
		}
	}
	return p
}

// A gap is the rows that a line "*" stands for.
type gap struct {
	before int    // index of the span that follows
	size   places // bytes that it is
	filled places // bytes of these that are filled in
}

// bases are the bases that the offsets of a dump may have.
type bases struct {
	n    int    // how many there are; 0: the offsets have another form
	next places // offset of the next row; -1: not this base
	open []gap  // gaps that are not filled in yet, because their sizes differ by base
	sum  places // of open
}

func startBases(at places) bases { return (&bases{}).with(at) }

// with returns the bases in which at is a place, and counts them.
func (s *bases) with(at places) bases {
	t := *s
	t.next, t.n = at, 0
	for _, v := range at {
		if v >= 0 {
			t.n++
		}
	}
	return t
}

// fitting returns the bases in which a row, or the end of the dump, may follow, and the place of each. After
// a line "*" there must be a gap of whole rows of some size, otherwise none.
func (s *bases) fitting(star bool, at places, row int64) bases {
	for b, v := range at {
		n := v - s.next[b]
		fits := s.next[b] >= 0 && v >= 0
		if star {
			fits = fits && n > 0 && n%row == 0
		} else {
			fits = fits && n == 0
		}
		if !fits {
			at[b] = -1
		}
	}
	return s.with(at)
}

func (s *bases) advance(n int64) {
	for b := range s.next {
		if s.next[b] >= 0 {
			s.next[b] += n
		}
	}
}

// maxGap is the most bytes, without a remainder, that are filled in for one line "*". Of more, whole blocks
// are left out: they are the same as those before them, and mostly memory that was never written.
const maxGap = 4 << 10

func shortened(n int64) int64 {
	if n > maxGap {
		return maxGap + (n-maxGap)%cqe.Size128
	}
	return n
}

// narrow takes the place of the next row, or of the end. If it is clear how many rows are not there,
// they are filled in.
func (d *blob) narrow(at places) {
	next := d.od.fitting(d.star, at, d.rowSize())
	if d.star {
		g := gap{before: len(d.spans)}
		for b, v := range next.next {
			if v >= 0 {
				g.size[b] = v - d.od.next[b]
				g.filled[b] = shortened(g.size[b])
				next.sum[b] += g.filled[b]
			}
		}
		next.open = append(next.open, g)
	}
	d.od = next
	d.star = false
	if d.od.n == 1 {
		d.fillGaps(base(slices.IndexFunc(next.next[:], func(v int64) bool { return v >= 0 })))
	}
}

// fillGaps fills in the rows that are not there, as a base of offsets says.
func (d *blob) fillGaps(b base) {
	if len(d.od.open) == 0 {
		return
	}
	open, old, spans := d.od.open, d.b, d.spans
	from := open[0].before // what is before it stays
	if from < len(spans) {
		d.b, d.spans = slices.Clone(old[:spans[from].from]), slices.Clone(spans[:from])
	}
	for i := from; i <= len(spans); i++ {
		for len(open) > 0 && open[0].before == i {
			d.star = true
			d.fill(int(open[0].filled[b]))
			d.dropped += int((open[0].size[b] - open[0].filled[b]) / cqe.Size)
			open = open[1:]
		}
		if i < len(spans) {
			s := spans[i]
			bytes := old[s.from : s.from+s.n]
			s.from = len(d.b)
			d.spans, d.b = append(d.spans, s), append(d.b, bytes...)
		}
	}
	d.star, d.od.open, d.od.sum = false, nil, places{}
}

// chooseBase decides about gaps whose size no later row has decided: the dump is probably one of whole
// blocks, or else has objects.
func (d *blob) chooseBase(whole bool) {
	if len(d.od.open) == 0 {
		return
	}
	best, most := base(-1), -1
	for b := range numBases {
		if d.od.next[b] < 0 {
			continue
		}
		try := *d
		try.fillGaps(b)
		score := read(try.b, try.spans, d.kind, whole).score
		if len(try.b)%cqe.Size == 0 {
			score += 1000 // more than any score
		}
		if len(try.b) == d.size {
			score += 2000
		}
		if score > most {
			best, most = b, score
		}
	}
	d.fillGaps(best)
	for b := range d.od.next {
		if base(b) != best {
			d.od.next[b] = -1
		}
	}
	d.od.n = 1
}

// end reports whether a line is the last one of a dump: the offset after its last byte. Rows that a line "*"
// before it stands for are filled in.
func (d *blob) end(line []byte) bool {
	digits, prefix := group(line)
	n := len(digits)
	if len(d.b) == 0 || !d.offsets || prefix > 0 || n != len(line) || n < 6 || n > 16 {
		return false
	}
	if d.od.n > 0 {
		at := readPlaces(digits)
		if d.od.fitting(d.star, at, d.rowSize()).n == 0 {
			return false
		}
		d.narrow(at)
		return true
	}
	left := offset(digits) - d.offset
	switch {
	case left == 0:
		return true
	case left > 0 && d.star && left%d.rowSize() == 0:
		d.fill(int(shortened(left)))
		d.dropped += int((left - shortened(left)) / cqe.Size)
		d.star = false
		return true
	}
	return false
}

// least and most are the bytes that the dump has, by the bases that are possible.
func (d *blob) least() int { return len(d.b) + int(d.pick(func(a, b int64) bool { return a < b })) }
func (d *blob) most() int  { return len(d.b) + int(d.pick(func(a, b int64) bool { return a > b })) }

func (d *blob) pick(better func(a, b int64) bool) (n int64) {
	if len(d.od.open) == 0 {
		return 0
	}
	found := false
	for b, v := range d.od.sum {
		if d.od.next[b] >= 0 && (!found || better(v, n)) {
			n, found = v, true
		}
	}
	return n
}
