package main

import (
	"fmt"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/text"
)

// A recordTally counts the events of a record.
type recordTally struct{ events, lost, gaps uint64 }

func (t *recordTally) add(e *trace.Event) {
	switch e.Kind {
	case trace.KindLost:
		t.lost += e.Value
		t.gaps++
	case trace.KindEnd:
	default:
		t.events++
	}
}

// note says what a file has, or standard output if the name is "".
func (t *recordTally) note(file string) string {
	if file == "" {
		file = "standard output"
	}
	s := fmt.Sprintf("%s: %s", text.Plain(file), number(t.events, "event"))
	if t.lost > 0 {
		s += fmt.Sprintf("; %s lost in %s, because the watch was too slow: --qp, --client or --program "+
			"watch less, and .nictrace costs least", number(t.lost, "event"), number(t.gaps, "gap"))
	}
	return s
}

// number returns a number and a noun, in the plural unless the number is 1.
func number(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
