//go:build linux && (amd64 || arm64)

package report

import (
	"fmt"

	"github.com/nicless/nicless/engine/internal/announce"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
)

// overdueTime is how long a WQE waits for one word of its data that may be the guard's mark by chance. The
// stores of a WQE were begun before the doorbell was, and are microseconds on their way. This is long enough
// that a machine which stands still for moments does no harm, and less than the usual timeouts of programs.
const overdueTime = 2 * SuspicionTime

// SourcePolls is how many polls of a record it costs to look at a queue's registers. To copy a block for a
// guard costs one more.
const SourcePolls = announce.Places

// Admit finds what registers and the record announce of the send queue of q, which has a Source, and
// admits what has arrived, until most blocks wait to be executed. It returns how many blocks it has copied.
// It explains doorbells that announce nothing, and a WQE that does not arrive for SuspicionTime.
func (sh *Reporter) Admit(q *object.QP, most uint64) (copied int) {
	ring := q.SQ.Mask + 1
	if stray := q.Source.Look(q.Num, q.SQ.Done, ring); stray.Kind != announce.NoStray {
		sh.explainStray(q, stray)
	}
	s, from, now := q.Source, q.SQ.Done, uint64(0)
	if s.LateSince != 0 {
		now = sh.Now() // before the look at the WQE: the device's thread can lose its core after it
	}
	if q.Wire != nil {
		from = s.Admitted() // WQEs that are sent and not acknowledged are not done
	}
	copied, late := s.Admit(q.Num, from+most)
	if late.Why == announce.NotLate {
		if copied > 0 { // otherwise it has not looked for the next WQE
			s.LateSince = 0
		}
		return copied
	}
	at := s.Admitted()
	switch {
	case s.LateSince == 0 || s.LateAt != at:
		s.LateAt, s.LateExplained, s.LateOverdue = at, false, false
		s.LateSince = sh.Hooks.Hold(clock.Now()) // after the look, whenever this step has read the clock
	case !s.LateExplained && now > s.LateSince+clock.Cycles(SuspicionTime):
		s.LateExplained = true
		sh.explainLate(q, uint16(at), late)
	case now > s.LateSince+clock.Cycles(overdueTime):
		s.LateOverdue = true
	}
	return copied
}

func (sh *Reporter) explainStray(q *object.QP, s announce.Stray) {
	switch s.Kind {
	case announce.OfAnother:
		number := uint32(s.Value) >> 8
		if q.Client.QPs[number] != nil {
			return // queues may share a page
		}
		sh.ExplainQueue(q, codes.QPNMismatch, "the register at %#x of its UAR page says %#016x, which is for queue pair %#06x; the client has none with that number, and the value is ignored",
			s.Offset, s.Value, number)
	case announce.RegisterAhead:
		sh.ExplainQueue(q, codes.RecordRange, "the register at %#x of its UAR page says %#016x, which announces blocks up to %#04x, %d more than the %#04x executed; the ring has %d, and the value is ignored",
			s.Offset, s.Value, s.Index, s.Index-uint16(q.SQ.Done), uint16(q.SQ.Done), q.SQ.Mask+1)
	case announce.RecordAhead:
		sh.badRecord(q, uint32(s.Value))
	}
}

// suspectRegisters is suspect for the send queue of q, which has a Source.
func suspectRegisters(q *object.QP) (code codes.Code, why string) {
	if BlindToRings {
		return 0, ""
	}
	offset, value, found := q.Source.Unsized(q.Num, q.SQ.Blocks)
	if !found {
		return 0, ""
	}
	return codes.DSZero, fmt.Sprintf("the register at %#x of its UAR page says %#016x, the first bytes of the WQE at block %#04x, in which ds is 0; "+
		"a WQE has at least its control segment, ds 1. With ds 0 a register says the next index, so it announces nothing",
		offset, value, uint16(q.Source.Announced()))
}

func (sh *Reporter) explainLate(q *object.QP, at uint16, l announce.Late) {
	const wait = "it is not executed before that is right"
	switch l.Why {
	case announce.LateIndex:
		sh.ExplainQueue(q, codes.IndexMismatch, "block %#04x is announced, but the control segment there has index %#04x; %s", at, l.Value, wait)
	case announce.LateQPN:
		sh.ExplainQueue(q, codes.QPNMismatch, "block %#04x is announced, but the WQE there names queue pair %#06x; %s", at, l.Value, wait)
	case announce.LateSize:
		sh.ExplainQueue(q, codes.DSPastRecord, "block %#04x is announced, but the WQE there has ds %d, which is 0 or more than is announced; %s", at, l.Value, wait)
	case announce.LateBytes:
		sh.ExplainQueue(q, codes.WQELate, "the WQE at block %#04x is announced, but its 4 bytes at offset %d have not been written since the slot was used last; %s", at, l.At, wait)
	case announce.LateData:
		sh.ExplainQueue(q, codes.WQELate, "the WQE at block %#04x is announced, but its 4 bytes at offset %d have not been written since the slot was used last, or are by chance what the device wrote there; it is executed when they are, or after %v",
			at, l.At, overdueTime)
	case announce.LateChanges:
		sh.ExplainQueue(q, codes.WQELate, "the WQE at block %#04x is announced, but its bytes at offset %d still change; %s", at, l.At, wait)
	}
}
