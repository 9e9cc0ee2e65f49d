//go:build linux && (amd64 || arm64)

package inject

import (
	"time"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/clock"
)

// A Bell is what rules do to the doorbells of a queue pair. A doorbell is a new value of the send record. It
// is one event, even if the client has rung several times since the device has looked.
type Bell struct {
	counters []counter
	began    bool
	last     uint32 // value of the record that was looked at last
	seen     uint32 // value of the record by which the device goes
	due      uint32 // value that the device goes by from Until on
	Until    uint64 // device clock; 0: no doorbell is late
	Holds    bool   // the queue pair is stalled until then
}

// Changed reports whether a value of the record was not looked at yet.
func (b *Bell) Changed(word uint32) bool { return !b.began || word != b.last }

// Look looks at the record. done is the count of blocks that the device has executed. If a rule acts on the
// doorbell, Look returns the rule, otherwise nil.
func (b *Bell) Look(word uint32, done, now uint64) (rule *fault.Rule) {
	if !b.began {
		// Blocks that were announced before are a doorbell, too.
		b.seen = word&^0xffff | uint32(done)&0xffff
		b.began, b.last = true, b.seen
	}
	if word != b.last {
		b.last = word
		rule = b.next(now)
		switch {
		case rule == nil:
			b.seen, b.Until = word, 0
		case rule.Doorbell.Drop:
		case rule.Doorbell.Delay == fault.Forever:
			b.due, b.Until = word, Never
		default:
			b.due, b.Until = word, clock.After(now, time.Duration(rule.Doorbell.Delay))
		}
	}
	if b.Until != 0 && now >= b.Until {
		b.seen, b.Until = b.due, 0
	}
	if int16(uint16(done)-uint16(b.seen)) > 0 { // flushes heed the record itself
		b.seen = b.seen&^0xffff | uint32(done)&0xffff
	}
	return rule
}

// next counts a doorbell, and returns the rule that acts on it.
func (b *Bell) next(now uint64) (rule *fault.Rule) {
	for _, c := range b.counters {
		f := fault.Facts{Since: c.rules.Age(now)}
		if hit, ok := c.Next(&f, rule != nil); ok {
			rule = hit.Rule
		}
	}
	return rule
}

// Seen returns the value of the record by which the device goes.
func (b *Bell) Seen() uint32 { return b.seen }

// reset begins anew.
func (b *Bell) reset() { *b = Bell{counters: b.counters} }
