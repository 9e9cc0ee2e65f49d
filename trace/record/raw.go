package record

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	magic    = "niclraw1"
	fileHead = 64
	rawHead  = 32
	rawMost  = 1 << 16 // bytes of a record: the library writes at most 60 KiB of data
)

var le, be = binary.LittleEndian, binary.BigEndian

// Kinds of raw records; see enum nr_kind in verbs/record/raw.h.
const (
	rawContext = iota + 1
	rawCQ
	rawSRQ
	rawQP
	rawKey
	rawModify
	rawGone
	rawPost
	rawPayload
	rawCQE
	rawGRH
	rawLost
	rawEnd
	rawDEVX
)

// lostOwn is NR_LOST_OWN of enum nr_loss: the program reads or writes the ring of an object itself.
const lostOwn = 7

// A raw is a raw record.
type raw struct {
	kind            uint8
	time, id, value uint64
	data            []byte // valid until the next record is read
	at              int64  // of data in the file
}

// A rawReader reads a raw file.
type rawReader struct {
	r        *bufio.Reader
	at       int64
	buf      []byte
	pid, uid uint32
	mono     uint64
	wall     uint64
	program  string
}

func newRawReader(in io.Reader) (*rawReader, error) {
	r := &rawReader{r: bufio.NewReaderSize(in, 1<<20), at: fileHead}
	var h [fileHead]byte
	n, err := io.ReadFull(r.r, h[:])
	switch {
	case err != nil && err != io.EOF && err != io.ErrUnexpectedEOF:
		return nil, err
	case string(h[:min(n, len(magic))]) != magic:
		return nil, fmt.Errorf("it begins with %q, and a raw record of this version with %q", h[:min(n, len(magic))], magic)
	case n < fileHead:
		return nil, fmt.Errorf("%d bytes; the header has %d", n, fileHead)
	}
	r.pid, r.uid, r.mono, r.wall = le.Uint32(h[8:]), le.Uint32(h[12:]), le.Uint64(h[16:]), le.Uint64(h[24:])
	r.program = text(h[32:])
	return r, nil
}

// text returns the bytes before the first 0.
func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// errCut says that a file ends within a record: its process was killed, or the disk was full.
var errCut = errors.New("cut short")

// next reads the next record. It returns io.EOF at the end, and errCut if the file ends within a record.
func (r *rawReader) next(x *raw) error {
	var h [rawHead]byte
	if n, err := io.ReadFull(r.r, h[:]); err != nil {
		if n > 0 && err == io.ErrUnexpectedEOF {
			return errCut
		}
		return err
	}
	size, pad := le.Uint32(h[:]), h[5]
	if size < rawHead || size > rawMost || size%8 != 0 {
		return fmt.Errorf("record at byte %d: size %d; multiples of 8 from %d to %d are possible", r.at, size, rawHead, rawMost)
	}
	n := int(size) - rawHead
	if pad > 7 || int(pad) > n {
		return fmt.Errorf("record at byte %d: padding %d of %d bytes; at most 7 are possible", r.at, pad, n)
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, n, rawMost)
	}
	if _, err := io.ReadFull(r.r, r.buf[:n]); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return errCut
		}
		return err
	}
	*x = raw{h[4], le.Uint64(h[8:]), le.Uint64(h[16:]), le.Uint64(h[24:]), r.buf[:n-int(pad)], r.at + rawHead}
	r.at += int64(size)
	return nil
}
