package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/nicless/nicless/field/paste"
	"github.com/nicless/nicless/wqe"
)

// Options of Decode. The zero value is usual.
type Options struct {
	Address wqe.Address // of send WQEs; AddressGuess infers it from the bytes
	All     bool        // print each repetition whole
	JSON    bool        // print one JSON object a line, for each item
}

// A Summary counts what Decode has found.
type Summary struct {
	Lines    int
	Items    int
	Failures int          // error CQEs and errors in words
	Suspect  int          // objects with suspicions
	Unclear  []paste.Item // dumps that are no objects, the first ones
	CutLine  int          // first line that was too long, or 0; Limit is the most bytes
	Limit    int
}

// Failures of a kind that has been printed whole get one line each, so many times. Further ones
// are only counted, because a log of a failed queue has thousands.
const mostBrief = 8

// mostKinds bounds the kinds of failures that are told apart: those beyond are one kind. There
// are 256 vendor bytes, and a log has few of them.
const mostKinds = 1024

// A sort is one kind of item that is not printed whole again.
type sort struct {
	kind       paste.Kind
	operation  string // causes differ by it
	failure    bool
	cause      uint8
	vendor     int // -1: unknown
	program    string
	suspicions string // codes
}

// A count is how often a sort has come.
type count struct {
	n, last int
	text    string
}

type printer struct {
	w       *bufio.Writer
	o       Options
	counts  map[sort]*count
	order   []*count
	roots   roots
	summary Summary
}

// Decode reads text from r and prints what is found in it. The error is that of r or w; there is
// none if nothing is found.
func Decode(w io.Writer, r io.Reader, o Options) (Summary, error) {
	p := printer{w: bufio.NewWriter(w), o: o, counts: make(map[sort]*count)}
	in := paste.NewReader(r)
	err := p.items(in)
	p.summary.Lines, p.summary.Unclear = in.Line(), in.Unclear()
	p.summary.CutLine, p.summary.Limit = in.Cut()
	if p.summary.Items == 0 && len(p.summary.Unclear) == 1 && err == nil {
		if it, ok := p.summary.Unclear[0].Small(); ok {
			err = p.item(&it)
		}
	}
	if !o.JSON {
		p.end(in.Skipped())
	}
	return p.summary, errors.Join(err, p.w.Flush())
}

func (p *printer) items(in *paste.Reader) error {
	for {
		it, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", in.Line()+1, err)
		}
		if err := p.item(&it); err != nil {
			return err
		}
	}
}

func (p *printer) item(it *paste.Item) error {
	suspicions := it.Suspicions(p.o.Address)
	p.summary.Items++
	if isFailure(it) {
		p.summary.Failures++
	}
	if len(suspicions) > 0 {
		p.summary.Suspect++
	}
	p.roots.add(it)
	if p.o.JSON {
		return p.json(it, suspicions)
	}
	c := p.count(it, suspicions)
	c.n, c.last = c.n+1, it.Line
	switch {
	case c.n == 1 || p.o.All:
		return p.whole(it, suspicions)
	case c.n <= mostBrief:
		fmt.Fprintf(p.w, "%s: again %s%s\n", at(it), c.text, where(it))
	}
	return nil
}

// count returns the count of the items of the same sort.
func (p *printer) count(it *paste.Item, suspicions []paste.Suspicion) *count {
	s := sort{kind: it.Kind, vendor: -1, program: it.Facts.Program}
	text := object(it) + operation(it)
	s.operation = text
	if cause, vendor, ok := it.Error(); ok {
		f, _ := it.Failure()
		s.operation, s.failure, s.cause, text = acts(&f), true, uint8(cause), failureName(cause, vendor)
		if vendor != nil {
			s.vendor = int(*vendor)
		}
	} else if it.Facts.Code != "" {
		s.suspicions, text = it.Facts.Code, it.Facts.Code
	}
	for _, found := range suspicions {
		s.suspicions += " " + found.Code
		if found.Code == "" {
			text += ", wrong"
		} else {
			text += ", " + found.Code
		}
	}
	c := p.counts[s]
	if c == nil {
		if len(p.counts) >= mostKinds {
			s = sort{}
			c, text = p.counts[s], "others"
		}
		if c == nil {
			c = &count{text: text}
			p.counts[s] = c
			p.order = append(p.order, c)
		}
	}
	return c
}

// end prints the counts of what was not printed.
func (p *printer) end(skipped int) {
	for _, c := range p.order {
		if c.n > mostBrief && !p.o.All {
			fmt.Fprintf(p.w, "and %d more: %s, the last at line %d\n", c.n-mostBrief, c.text, c.last)
		}
	}
	if skipped > 0 {
		fmt.Fprintf(p.w, "%d blocks of queues hold no valid entry and are left out\n", skipped)
	}
	if p.summary.CutLine > 0 {
		fmt.Fprintf(p.w, "line %d is longer than %d bytes; the rest was not read\n", p.summary.CutLine, p.summary.Limit)
	}
}

// whole prints all about an item, and a line without text after it.
func (p *printer) whole(it *paste.Item, suspicions []paste.Suspicion) error {
	head := at(it) + ": " + object(it) + operation(it)
	if it.Facts.Program != "" {
		head += ", as " + it.Facts.Program + " prints it"
	}
	p.fold("", head+where(it))
	for _, n := range it.Notes {
		p.fold("note: ", n)
	}
	tree, err := it.Describe(p.o.Address)
	if tree != nil {
		if err := p.w.Flush(); err != nil {
			return err
		}
		if err := tree.Print(p.w, it.Bytes); err != nil {
			return err
		}
	}
	if err != nil && len(suspicions) == 0 {
		p.fold("note: ", err.Error())
	}
	for _, s := range suspicions {
		word := "suspicious: "
		if s.Sure {
			word = "wrong: "
		}
		text := s.Text
		if s.Code != "" {
			text += " (" + s.Code + ")"
		}
		p.fold(word, text)
	}
	if _, about := p.roots.of(it); about != "" {
		p.fold("note: ", about)
	}
	p.failure(it)
	p.w.WriteByte('\n')
	return nil
}
