package model

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// The words and the limits of the file form, which ReadTrace describes.
const (
	traceName     = "nicless-lines"
	traceVersion  = 1
	maxTraceLine  = 256 << 10 // bytes in a line of the file
	maxRegions    = 1 << 12
	maxRegionName = 40
	maxAfter      = 1 << 10
	maxAccesses   = 1 << 18
	maxTouched    = 1 << 21   // the sum of n
	maxAfters     = 1 << 22   // the numbers in all lists after
	maxNumber     = 1<<31 - 1 // what an int has on all systems
)

// A TraceError says what is wrong with a trace.
type TraceError struct {
	Line int    // line in the file, the header's is 1
	Key  string // such as "after", or ""
	Err  error
}

func (e *TraceError) Error() string {
	s := fmt.Sprintf("trace: line %d: ", e.Line)
	if e.Key != "" {
		s += e.Key + ": "
	}
	return s + e.Err.Error()
}

func (e *TraceError) Unwrap() error { return e.Err }

// ReadTrace reads a whole trace from a file. Errors in what it reads are TraceErrors.
//
// The form of the file is JSON Lines: one JSON object a line. The first line is the header, each
// further line an access, in the order of the accesses. Addresses do not occur in it.
//
//	{"trace":"nicless-lines","version":1,"line":64,"regions":{"db":{"is":"dbrec"},"sq3":{"is":"sq"}}}
//	{"seq":811,"who":"host","op":"store","kind":"wqe","line":"sq3:17","why":"once","req":5}
//	{"seq":812,"who":"host","op":"store","kind":"record","line":"db:3","why":"signal","after":[811],"req":5}
//	{"seq":813,"who":"dev","op":"work","req":5}
//
// The header has all of these keys:
//
//	trace    the string "nicless-lines"
//	version  the number 1
//	line     the bytes in a cache line: the number 64
//	regions  for each region that accesses name, an object {"is": structure}. The structures are sq, rq,
//	         cq, dbrec, uar, payload.tx, payload.rx and keys. The name of a region has 1..40 letters,
//	         digits, dots, hyphens and underscores.
//
// An access has these keys, of which n, bytes, after and req may be missing:
//
//	seq    the number of the access; it is larger than that of the line before
//	who    host, peer or dev
//	op     load, store, store-nt, rmw, flush or work
//	kind   record, uar, wqe, rxwqe, payload, cqe, ci or key
//	line   the first cache line: a region of the header, a colon, and an index
//	n      how many consecutive lines; if missing, 1
//	bytes  the bytes that are wanted of these lines; if missing, 0: not known
//	why    poll, signal, once, follow, stream, complete or prefetch
//	after  the numbers of earlier accesses that must be visible before this one begins
//	req    the number of the work request, at least that of the access before; if missing, 0
//
// The operation work touches no line: it has only seq, who, op, after and req. The words mean what
// the constants of Agent, Op, Kind, Why and Structure say.
//
// Numbers are integers without sign, fraction or exponent. A reader refuses other keys, keys in other
// letters or twice, empty lines, and what exceeds a limit; the error names line and key.
// A reader of another version, or of another size of lines, would be another reader: it refuses these too.
//
// The limits bound what a file from a stranger can cost. A line has at most 256 KiB, a header 4096 regions,
// an access 1024 numbers in after, a trace 262,144 accesses. All numbers are below 2^31, the index of a line
// is below 2^30. The sum of n over the trace is at most 2,097,152 lines (128 MiB), because a Pricer keeps the
// state of each line, and looks for a rule for each line of each access. All lists after together have at
// most 4,194,304 numbers. To price a trace at the limits takes about ten seconds for each preset, and 2 GB.
//
// A load with why poll and without after finds nothing: it is an idle look. The poll that finds
// something names in after the store that it sees.
func ReadTrace(r io.Reader) (Trace, error) {
	tr, err := NewTraceReader(r)
	if err != nil {
		return Trace{}, err
	}
	t := Trace{Regions: tr.Regions()}
	for {
		a, err := tr.Next()
		if err == io.EOF {
			return t, nil
		}
		if err != nil {
			return Trace{}, err
		}
		t.Accesses = append(t.Accesses, a)
	}
}

// A TraceReader reads a trace access by access. It is not safe for concurrent use.
type TraceReader struct {
	in      *bufio.Reader
	line    int // number of the line last read
	regions map[string]Structure
	checker traceChecker
	err     error // what Next has returned, and returns again
}

// NewTraceReader reads the header of a trace.
func NewTraceReader(r io.Reader) (*TraceReader, error) {
	t := &TraceReader{in: bufio.NewReaderSize(r, maxTraceLine)}
	text, err := t.text()
	if err == io.EOF {
		return nil, &TraceError{1, "", errors.New("the file is empty; its first line is the header")}
	}
	if err != nil {
		return nil, err
	}
	t.regions, err = parseHeader(text)
	if err != nil {
		return nil, t.errorAt(err)
	}
	t.checker.regions = t.regions
	return t, nil
}

// Regions returns the regions of the header. The caller must not change them.
func (t *TraceReader) Regions() map[string]Structure { return t.regions }

// Next returns the next access. At the end of the trace it returns io.EOF. After an error, it returns the
// same error again.
func (t *TraceReader) Next() (Access, error) {
	if t.err != nil {
		return Access{}, t.err
	}
	a, err := t.next()
	t.err = err
	return a, err
}

func (t *TraceReader) next() (Access, error) {
	text, err := t.text()
	if err != nil {
		return Access{}, err
	}
	a, err := parseAccess(text)
	if err == nil {
		err = t.checker.check(&a)
	}
	if err != nil {
		return Access{}, t.errorAt(err)
	}
	return a, nil
}

// text returns the next line of the file, valid until the next call, or io.EOF.
func (t *TraceReader) text() ([]byte, error) {
	text, err := t.in.ReadSlice('\n')
	if err == io.EOF && len(text) == 0 {
		return nil, io.EOF
	}
	t.line++
	switch err {
	case nil, io.EOF:
		return text, nil
	case bufio.ErrBufferFull:
		return nil, t.errorAt(fmt.Errorf("has more than %d bytes", maxTraceLine-1))
	}
	return nil, t.errorAt(err)
}

// errorAt returns err with the line of the file.
func (t *TraceReader) errorAt(err error) error {
	var key *keyError
	if errors.As(err, &key) {
		return &TraceError{t.line, key.key, key.err}
	}
	return &TraceError{t.line, "", err}
}
