package reason

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sizes in bytes.
const (
	EntrySize = 512
	TextSize  = EntrySize - offText // the longest text; the device cuts a longer one between two characters
	WQESize   = 64
	CodeSize  = 24
)

// Entries is how many reasons a ring holds. A program that polls now and then finds all reasons of the
// queue pairs that have failed meanwhile, one each, if they are at most this many: the queue pairs to all
// the other hosts of a rack, for example. 128 entries are 64 KiB for each client, half of what a client
// takes otherwise.
const Entries = 128

// Size is the bytes of all entries.
const Size = Entries * EntrySize

// Kinds of index. The numbers are those of control.Of*.
const (
	OfWQE        = 0
	OfReceive    = 1
	OfCompletion = 2
)

// A Place is an entry of a queue.
type Place struct {
	Queue uint32 // number of the queue pair or, with OfCompletion, of the CQ
	Index uint16
	Of    uint8
}

// A Reason says why a WQE or a receive has failed, or why a queue pair is in the error state.
type Reason struct {
	Number uint64 // in the order in which the device wrote the client's reasons, from 1
	Place
	Syndrome uint8  // of the CQE; 0: the reason is no CQE's own, but flushes follow from it
	Cause    Place  // where the cause was; the zero Place: at Place
	CauseOf  uint64 // number of the reason that says more about the cause; 0: none
	Code     string // at most CodeSize bytes
	Text     string
	WQE      []byte // first bytes of the WQE or of the receive; nil: the device does not have them
}

const (
	offNumber     = 0
	offQueue      = 8
	offIndex      = 12
	offOf         = 14
	offHasWQE     = 15
	offCauseOf    = 16
	offCauseQueue = 24
	offCauseIndex = 28
	offCauseKind  = 30
	offSyndrome   = 31
	offCode       = 32
	offTextBytes  = 56
	offWQE        = 64
	offText       = 128
)

var le = binary.LittleEndian

// put writes r into b, and returns how many bytes of b have a meaning. It clears nothing after them.
func put(r *Reason, b *[EntrySize]byte) int {
	clear(b[:offText])
	le.PutUint64(b[offNumber:], r.Number)
	le.PutUint32(b[offQueue:], r.Queue)
	le.PutUint16(b[offIndex:], r.Index)
	b[offOf] = r.Of
	le.PutUint64(b[offCauseOf:], r.CauseOf)
	le.PutUint32(b[offCauseQueue:], r.Cause.Queue)
	le.PutUint16(b[offCauseIndex:], r.Cause.Index)
	b[offCauseKind], b[offSyndrome] = r.Cause.Of, r.Syndrome
	copy(b[offCode:offCode+CodeSize], r.Code)
	if r.WQE != nil {
		b[offHasWQE] = 1
		copy(b[offWQE:offText], r.WQE)
	}
	n := len(r.Text)
	if n > TextSize {
		for n = TextSize; n > 0 && !utf8.RuneStart(r.Text[n]); {
			n--
		}
	}
	le.PutUint16(b[offTextBytes:], uint16(n))
	copy(b[offText:], r.Text[:n])
	return offText + n
}

// parse returns the reason in b. The contents of b may be anything.
func parse(b *[EntrySize]byte) *Reason {
	r := &Reason{
		Number: le.Uint64(b[offNumber:]),
		Place:  Place{le.Uint32(b[offQueue:]), le.Uint16(b[offIndex:]), b[offOf]},
		Cause: Place{le.Uint32(b[offCauseQueue:]), le.Uint16(b[offCauseIndex:]),
			b[offCauseKind]},
		CauseOf:  le.Uint64(b[offCauseOf:]),
		Syndrome: b[offSyndrome],
		Code:     printable(bytes.TrimRight(b[offCode:offCode+CodeSize], "\x00")),
		Text:     printable(b[offText : offText+min(int(le.Uint16(b[offTextBytes:])), TextSize)]),
	}
	if b[offHasWQE] != 0 {
		r.WQE = bytes.Clone(b[offWQE:offText])
	}
	return r
}

// printable returns a text of the device with a question mark for each character that a terminal could take
// for a command.
func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, string(b))
}
