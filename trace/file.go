package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"
)

// FileHeadSize is the bytes of the header of a trace.
const FileHeadSize = 64

// Magic is what a trace begins with.
const Magic = "nicltrac"

// A Clock says what the times of events mean.
type Clock struct {
	Hz    uint64 // ticks of the device clock in a second; not 0
	Ticks uint64 // device clock at a moment
	Unix  int64  // time of day at the same moment, in nanoseconds since 1970
	GUID  uint64 // of the device
}

// Since returns how long after the clock's moment a time of an event is.
func (c Clock) Since(ticks uint64) time.Duration {
	d := int64(ticks - c.Ticks)
	if d < 0 {
		return -c.duration(uint64(-d))
	}
	return c.duration(uint64(d))
}

// duration returns how long n ticks take: the longest time.Duration if it is longer than that.
func (c Clock) duration(n uint64) time.Duration {
	hi, lo := bits.Mul64(n, uint64(time.Second))
	if c.Hz == 0 || hi >= c.Hz {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, c.Hz)
	return time.Duration(min(q, 1<<63-1))
}

// Time returns the time of day of an event.
func (c Clock) Time(ticks uint64) time.Time { return time.Unix(0, c.Unix).Add(c.Since(ticks)) }

// A Writer writes a trace. It is not safe for concurrent use.
type Writer struct {
	w     *bufio.Writer
	rec   []byte
	count uint64
}

// NewWriter writes the header of a trace to w, and returns a Writer of its events.
func NewWriter(w io.Writer, c Clock) (*Writer, error) {
	if c.Hz == 0 {
		return nil, errors.New("trace: a clock of 0 ticks in a second")
	}
	t := &Writer{w: bufio.NewWriterSize(w, 1<<20)} // few system calls at a gigabyte a second
	var h [FileHeadSize]byte
	copy(h[:], Magic)
	le.PutUint32(h[8:], Version)
	le.PutUint32(h[12:], Minor)
	le.PutUint64(h[16:], c.Hz)
	le.PutUint64(h[24:], c.Ticks)
	le.PutUint64(h[32:], uint64(c.Unix))
	le.PutUint64(h[40:], c.GUID)
	_, err := t.w.Write(h[:])
	return t, err
}

// Write appends an event. After an error the trace is cut short, and later calls return the same error.
func (t *Writer) Write(e *Event) (err error) {
	t.rec, err = Append(t.rec[:0], e)
	if err == nil {
		_, err = t.w.Write(t.rec)
	}
	t.count++
	return err
}

// Flush writes what is buffered, so that readers find it.
func (t *Writer) Flush() error { return t.w.Flush() }

// Close ends the trace with an event of kind KindEnd at this time, and flushes it. It does not close the
// underlying writer.
func (t *Writer) Close(time uint64, engineStopped bool) error {
	e := Event{Kind: KindEnd, Time: time, Value: t.count}
	if engineStopped {
		e.Index = 1
	}
	if err := t.Write(&e); err != nil {
		return err
	}
	return t.w.Flush()
}

// ErrCut says that a trace ends without an event of kind KindEnd: its writer was killed, or the disk was
// full. All events before that are good.
var ErrCut = errors.New("trace: cut short: there is no end")

// A Reader reads a trace in constant memory. It is not safe for concurrent use.
type Reader struct {
	r     *bufio.Reader
	clock Clock
	at    int64 // offset of the next record
	last  int   // bytes of the record that was returned last
	count uint64
	ended bool
}

// NewReader reads the header of a trace. It returns an error if r has none, or one of another version.
func NewReader(r io.Reader) (*Reader, error) {
	t := &Reader{r: bufio.NewReaderSize(r, 1<<20), at: FileHeadSize}
	var h [FileHeadSize]byte
	n, err := io.ReadFull(t.r, h[:])
	switch {
	case err != nil && err != io.EOF && err != io.ErrUnexpectedEOF:
		return nil, err
	case n == 0:
		return nil, errors.New("trace: it is empty")
	case n < len(Magic) || string(h[:len(Magic)]) != Magic:
		return nil, fmt.Errorf("trace: it begins with %q, and a trace with %q", h[:min(n, len(Magic))], Magic)
	case n < FileHeadSize:
		return nil, fmt.Errorf("trace: %d bytes; the header has %d", n, FileHeadSize)
	}
	if v := le.Uint32(h[8:]); v != Version {
		return nil, fmt.Errorf("trace: version %d; this program reads version %d", v, Version)
	}
	t.clock = Clock{Hz: le.Uint64(h[16:]), Ticks: le.Uint64(h[24:]), Unix: int64(le.Uint64(h[32:])),
		GUID: le.Uint64(h[40:])}
	if t.clock.Hz == 0 {
		return nil, errors.New("trace: a clock of 0 ticks in a second")
	}
	return t, nil
}

// Clock returns the clock of the trace's times.
func (t *Reader) Clock() Clock { return t.clock }

// Next reads the next event. Its data are valid until the next call. At the end of the trace it returns
// io.EOF, after an event of kind KindEnd, which it returns too. If there is no such event, the error is
// ErrCut. A *RecordError says which record is damaged.
func (t *Reader) Next(e *Event) error {
	for {
		if _, err := t.r.Discard(t.last); err != nil {
			return err
		}
		t.at += int64(t.last)
		t.last = 0
		size := 0
		for more := skipSize; size == 0; {
			b, err := t.r.Peek(more)
			if len(b) < more {
				switch {
				case err != io.EOF:
					return err
				case len(b) == 0 && t.ended:
					return io.EOF
				}
				return ErrCut
			}
			*e, size, more, err = parse(b)
			if err != nil {
				err.(*RecordError).At = t.at
				return err
			}
		}
		t.last = size
		if e.Kind == KindSkip {
			continue
		}
		if t.ended {
			return &RecordError{At: t.at, Text: "a record after the end of the trace"}
		}
		t.ended = e.Kind == KindEnd
		if t.ended && e.Value != t.count {
			text := fmt.Sprintf("the end counts %d events, and there are %d", e.Value, t.count)
			return &RecordError{At: t.at, Text: text}
		}
		t.count++
		return nil
	}
}
