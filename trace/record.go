package trace

import (
	"encoding/binary"
	"fmt"
)

const (
	HeadSize = 32        // bytes of a record before its data
	MaxSize  = 1<<16 - 8 // the most bytes of a record
	MaxData  = MaxSize - HeadSize
	skipSize = 8 // the fewest bytes of a record of kind KindSkip
)

var le = binary.LittleEndian

// Size returns the bytes of the record of an event with n bytes of data. n is at most MaxData.
func Size(n int) int { return HeadSize + (n+7)&^7 }

// PutHead writes the header of the record of e, whose data have n bytes, to b. The caller writes the data
// and the padding. b has at least HeadSize bytes; n is at most MaxData.
func PutHead(b []byte, e *Event, n int) {
	_ = b[HeadSize-1]
	le.PutUint64(b, uint64(Size(n))|uint64(e.Kind)<<16|uint64(-n&7)<<24|uint64(e.Number)<<32)
	le.PutUint64(b[8:], e.Time)
	le.PutUint64(b[16:], uint64(e.Queue)|uint64(e.Index)<<32|uint64(e.Count)<<48)
	le.PutUint64(b[24:], e.Value)
}

// PutSkip writes a record of kind KindSkip of n bytes to b. n is a multiple of 8 from 8 to MaxSize.
func PutSkip(b []byte, n int) { le.PutUint64(b, uint64(n)|uint64(KindSkip)<<16) }

// Append appends the record of e to b. It returns an error if e has more than MaxData bytes of data.
func Append(b []byte, e *Event) ([]byte, error) {
	n := len(e.Data)
	if n > MaxData {
		return b, fmt.Errorf("trace: an event of %d bytes; at most %d are possible", n, MaxData)
	}
	var head [HeadSize]byte
	PutHead(head[:], e, n)
	b = append(append(b, head[:]...), e.Data...)
	return append(b, make([]byte, -n&7)...), nil
}

// A RecordError says what is wrong with the bytes of a record.
type RecordError struct {
	At   int64  // offset of the record in what was read
	Text string // what is wrong, with the value and the limit
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("trace: record at byte %d: %s", e.At, e.Text)
}

// parse returns the event of the record at the begin of b, and the bytes of the record. Its data are those
// of b. It returns 0 bytes if b ends before the record does; more is then how many bytes it has at least.
func parse(b []byte) (e Event, size, more int, err error) {
	if len(b) < skipSize {
		return e, 0, skipSize, nil
	}
	word := le.Uint64(b)
	size = int(word & 0xffff)
	e.Kind, e.Number = Kind(word>>16), uint32(word>>32)
	if e.Kind == KindSkip {
		if size < skipSize || size%8 != 0 {
			return e, 0, 0, &RecordError{Text: fmt.Sprintf("size %d; a multiple of 8 is possible", size)}
		}
		if len(b) < size {
			return e, 0, size, nil
		}
		return e, size, size, nil
	}
	pad := int(word >> 24 & 0xff)
	if size < HeadSize || size%8 != 0 {
		text := fmt.Sprintf("size %d; it is a multiple of 8 from %d on", size, HeadSize)
		return e, 0, 0, &RecordError{Text: text}
	}
	if pad > 7 || pad > size-HeadSize {
		text := fmt.Sprintf("padding %d of a record of %d bytes; at most 7 is possible", pad, size)
		return e, 0, 0, &RecordError{Text: text}
	}
	if len(b) < size {
		return e, 0, size, nil
	}
	e.Time = le.Uint64(b[8:])
	word = le.Uint64(b[16:])
	e.Queue, e.Index, e.Count = uint32(word), uint16(word>>32), uint16(word>>48)
	e.Value = le.Uint64(b[24:])
	e.Data = b[HeadSize : size-pad : size-pad]
	return e, size, size, nil
}

// ParseRecord returns the event of the record at the begin of b, and the bytes of the record. Its data
// are those of b.
func ParseRecord(b []byte) (e Event, size int, err error) {
	e, size, more, err := parse(b)
	if err == nil && size == 0 {
		err = &RecordError{Text: fmt.Sprintf("%d bytes of a record of at least %d", len(b), more)}
	}
	return e, size, err
}
