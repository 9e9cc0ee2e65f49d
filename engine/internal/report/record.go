//go:build linux && (amd64 || arm64)

package report

import (
	"math/bits"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// Doorbell records: what they announce, and what is wrong with a record that cannot be
// right.

// Pending returns how many blocks of the send queue are announced and not yet executed. A
// record that announces more than the ring holds is a mistake of the client. The mistake is
// explained once, and the record counts as announcing nothing.
//
// Observe: send record. Published by hostpath.SQ.Ring.
func (sh *Reporter) Pending(q *object.QP) uint16 {
	word := q.SQ.Record.Observe()
	n := uint16(word) - uint16(q.SQ.Done)
	if uint64(n) > q.SQ.Mask+1 {
		if !q.Lags(n) {
			sh.badRecord(q, word)
		}
		return 0
	}
	if q.SQ.Ahead != 0 {
		q.SQ.Ahead = 0
	}
	if q.SQ.Managed && q.Attr.State != control.StateERR && q.Attr.State != control.StateSQE {
		n = uint16(min(uint64(n), max(q.SQ.Enabled, q.SQ.Done)-q.SQ.Done))
	}
	return n
}

// badRecord explains a send record that announces more than the ring holds. It explains
// each such value once.
func (sh *Reporter) badRecord(q *object.QP, word uint32) {
	if s := &q.Suspicion; s.Recorded && s.Record == word {
		return
	}
	q.Suspicion.Record, q.Suspicion.Recorded = word, true
	why := whyNoRecord(q, word)
	sh.ExplainQueue(q, why.Code, "%s", why)
}

// inFirstLap reports whether the client's counter of a ring still fits into 16 bits. The
// device has reached count, and the client can be at most n entries ahead, the size of the
// ring. While the counter fits, the word that holds it has an upper half of 0, whether the
// client counts in 16, 24 or 32 bits. So if the upper half is not 0 then, the bytes of the
// word are reversed.
func inFirstLap(count, n uint64) bool { return count+n <= 0xffff }

// swapped reports whether a record makes sense only with its bytes reversed. Three things
// must be true: the low half of the record is 0; the high half is not 0 although the
// counter cannot have come that far; and with its bytes reversed the record announces work.
func swapped(word uint32, consumed, ring uint64) bool {
	ahead := uint64(bits.ReverseBytes32(word)) - consumed
	return word>>16 != 0 && word&0xffff == 0 && inFirstLap(consumed, ring) && 0 < ahead && ahead <= ring
}

// whyNoRecord returns what is wrong with a send record that is out of range.
func whyNoRecord(q *object.QP, word uint32) object.Reason {
	ring := q.SQ.Mask + 1
	ahead := uint16(word) - uint16(q.SQ.Done)
	switch {
	case swapped(word, q.SQ.Done, ring):
		return object.Because(codes.RecordByteOrder, "send record says %#08x, which is %d in host byte order; records are big-endian", word, bits.ReverseBytes32(word))
	case -ahead < ahead:
		return object.Because(codes.RecordBack, "send record says %#08x, %d blocks less than the %#04x executed; the value is ignored", word, -ahead, uint16(q.SQ.Done))
	}
	return object.Because(codes.RecordRange, "send record says %#08x, %d blocks more than the %#04x executed; the ring has %d, and the value is ignored", word, ahead, uint16(q.SQ.Done), ring)
}
