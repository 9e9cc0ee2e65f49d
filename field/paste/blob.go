package paste

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field/known"
)

// maxBlob is the most bytes of one dump that are kept. Longer dumps, of whole queues, are read
// in parts of this size. The longest objects are packets of a path MTU of 4096 bytes, joined by
// GSO to 64 KiB.
const maxBlob = 64 << 10

// How many other lines may be between rows of one dump: other processors and processes write
// into the same log.
const (
	patience      = 16 // if the rows have offsets
	patiencePlain = 4
)

// A title is the line before a dump that says what follows.
type title struct {
	kind  Kind
	size  int // bytes that it announces; 0: does not say
	index int // slot of the WQE, or -1
	queue int // blocks of the queue of the WQE, or 0
	known bool

	program string
}

var (
	titles = []struct {
		has  string
		kind Kind
		size int
	}{
		{"dump error cqe", CQE, cqe.Size},
		{"Error cqe on cqn", CQE, cqe.Size},
		{"got completion with error:", CQE, cqe.Size},
		{"MLX5 Error CQ", CQE, 0}, // CQE and CQ
		{"WQE DUMP:", Send, 0},
		{"MLX5 Error SQ", Send, 0},
		{"MLX5 Error RQ", Recv, 0},
	}
	lengthInTitle = regexp.MustCompile(`\blen[:=]\s*(\d{1,9})\b`)
	indexInTitle  = regexp.MustCompile(`WQE index (0x[0-9a-f]{1,8})\b`)
	queueInTitle  = regexp.MustCompile(`WQ size (\d{1,9})\b`)
)

func findTitle(line string) (t title, ok bool) {
	t.index = -1
	for _, row := range titles {
		if !strings.Contains(line, row.has) {
			continue
		}
		t.kind, t.size, t.known = row.kind, row.size, true
		if m := lengthInTitle.FindStringSubmatch(line); m != nil {
			t.size, _ = strconv.Atoi(m[1])
		}
		if m := indexInTitle.FindStringSubmatch(line); m != nil {
			n, _ := strconv.ParseInt(m[1], 0, 64)
			t.index = int(n)
		}
		if m := queueInTitle.FindStringSubmatch(line); m != nil {
			t.queue, _ = strconv.Atoi(m[1])
		}
		return t, true
	}
	return t, false
}

// A blob is the bytes of one dump, as far as they have been read.
type blob struct {
	title
	first, last int // lines
	b           []byte
	spans       []span
	offset      int64 // that the next row should have
	offsets     bool
	od          bases // the bases that the offsets may have, if they have the form of od
	alone       bool  // all rows are such as could be other things
	star        bool  // a line "*" stands for rows like the last one
	starLine    int
	lost        int // line of a "*" that stands for nobody knows how many rows, or 0
	dropped     int // blocks that are the same as others, of a long "*"
	notes       []string
}

// follows reports whether a row continues the dump.
func (d *blob) follows(r *row) bool {
	switch {
	case len(d.b) == 0:
		return false
	case d.size > 0 && len(d.b) >= d.size:
		return false
	case !d.offsets || r.offset < 0:
		return !d.offsets && r.offset < 0 && !(d.spans[len(d.spans)-1].width != r.width && r.width != 0)
	case d.od.n > 0:
		return d.od.fitting(d.star, r.at, d.rowSize()).n > 0
	case r.offset == d.offset:
		return true
	case r.offset < d.offset:
		return d.excess(r) > 0
	case d.star: // rows that are like the last one
		n := r.offset - d.offset
		return n <= maxGap || n%d.rowSize() == 0
	}
	return r.offset-d.offset < cqe.Size && r.offset-d.offset <= int64(maxBlob-len(d.b)) // rows are missing
}

// excess returns how many bytes more the last row has than the offset of the next one allows, or 0.
// People who edit a dump add a column: a patch of January 2021 on the netdev mailing list, for example,
// quotes CQEs with rows of 17 bytes.
func (d *blob) excess(r *row) int {
	last := d.spans[len(d.spans)-1]
	n := int(d.offset - r.offset)
	if n <= 0 || n >= last.n || last.width != 1 {
		return 0
	}
	if last.n%16 == 0 || (last.n-n)%16 != 0 {
		return 0
	}
	return n
}

// rowSize returns how many bytes the last row has.
func (d *blob) rowSize() int64 { return int64(d.spans[len(d.spans)-1].n) }

// add appends a row. Rows that are not there are filled in.
func (d *blob) add(r *row, line int) {
	switch {
	case len(d.b) == 0:
		d.first, d.offsets, d.alone = line, r.offset >= 0, true
		d.offset, d.od = r.offset, bases{}
		if r.od {
			d.od = startBases(r.at)
		}
	case d.od.n > 0:
		d.narrow(r.at)
	case !d.offsets:
		if d.star && d.lost == 0 {
			d.lost = d.starLine
		}
	case r.offset < d.offset:
		n := d.excess(r)
		last := &d.spans[len(d.spans)-1]
		last.n -= n
		d.b = d.b[:len(d.b)-n]
		d.offset -= int64(n)
		d.notes = append(d.notes, fmt.Sprintf("line %d has %d bytes more than the next offset allows; they are left out", last.line, n))
	case r.offset > d.offset:
		n := r.offset - d.offset
		d.fill(int(shortened(n)))
		d.dropped += int((n - shortened(n)) / cqe.Size)
		d.offset = r.offset
	}
	d.star = false
	d.spans = append(d.spans, span{from: len(d.b), n: len(r.b), width: r.width, host: r.host, line: line})
	d.b = append(d.b, r.b...)
	d.offset += int64(len(r.b))
	d.od.advance(int64(len(r.b)))
	d.last = line
	d.alone = d.alone && r.alone
	if r.torn {
		d.notes = append(d.notes, fmt.Sprintf("line %d ends within a group of digits", line))
	}
}

// fill appends n bytes: like the last row after a line "*", else 0.
func (d *blob) fill(n int) {
	from := len(d.b)
	last := d.spans[len(d.spans)-1]
	for i := range n {
		c := byte(0)
		if d.star && last.n > 0 {
			c = d.b[last.from+i%last.n]
		}
		d.b = append(d.b, c)
	}
	if !d.star {
		d.notes = append(d.notes, fmt.Sprintf("bytes %d to %d are missing in the dump and taken for 0", from, from+n-1))
	}
	d.spans = append(d.spans, span{from: from, n: n, width: last.width, host: last.host, line: last.line})
	d.offset += int64(n)
}

// items returns what the dump has. whole says that it is complete; else the bytes that were not
// used stay.
func (d *blob) items(whole bool) (list []Item, skipped int) {
	d.chooseBase(whole)
	r := read(d.b, d.spans, d.kind, whole)
	if d.lost == 0 && (r.score >= enough || (d.title.known && len(r.parts) > 0)) {
		for _, p := range r.parts {
			it := Item{Kind: p.kind, Line: d.lineOf(p.from), Last: d.lineOf(p.to - 1)}
			it.Index, it.Queue = d.index, d.queue
			it.Bytes = append([]byte(nil), r.b[p.from:p.to]...)
			it.Facts.Program = d.program
			it.Notes = append(it.Notes, d.notes...)
			if r.note != "" {
				it.Notes = append(it.Notes, r.note)
			}
			list = append(list, it)
		}
		skipped = r.skipped + d.dropped
	} else {
		r.used = len(d.b)
		it := Item{Kind: Unclear, Line: d.first, Last: d.last, Bytes: append([]byte(nil), d.b...), Index: -1}
		it.Notes = append(it.Notes, d.notes...)
		it.Notes = append(it.Notes, d.unclear())
		list = append(list, it)
	}
	d.keep(r.used)
	return list, skipped
}

// keep drops the first n bytes.
func (d *blob) keep(n int) {
	d.b = append(d.b[:0], d.b[n:]...)
	spans := d.spans[:0]
	for _, s := range d.spans {
		if end := s.from + s.n - n; end > 0 {
			from := max(s.from-n, 0)
			spans = append(spans, span{from, end - from, s.width, s.host, s.line})
		}
	}
	d.spans = spans
	d.index, d.notes, d.dropped = -1, nil, 0
}

func (d *blob) lineOf(at int) int {
	for _, s := range d.spans {
		if at < s.from+s.n {
			return s.line
		}
	}
	return d.last
}

// consistent reports whether a text can be about a failure with this cause.
func consistent(f *known.Facts, s cqe.Syndrome, vendor *uint8) bool {
	cause, ok := f.Cause()
	if ok && cause != s {
		return false
	}
	return f.Vendor == nil || vendor == nil || *f.Vendor == *vendor
}
