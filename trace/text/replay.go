package text

import (
	"fmt"

	"github.com/nicless/nicless/trace"
)

// collapsedCQ is the flag of a CQSetup that says that entry 0 has every completion.
const collapsedCQ = 1

// forReplay returns what an event says that is recorded for a replay.
func forReplay(e *trace.Event) string {
	how := [...]string{"is destroyed", "exists", "has changed"}[min(e.Index, 2)]
	switch e.Kind {
	case trace.KindCQ:
		if s, err := trace.ParseCQSetup(e.Data); err == nil && e.Index != trace.KeyGone {
			collapsed := ""
			if s.Flags&collapsedCQ != 0 {
				collapsed = "collapsed, "
			}
			return fmt.Sprintf("%s: 2^%d entries of %d bytes, %sclient %d", how, s.LogSize, 1<<(s.LogEntry&31), collapsed, e.Value)
		}
	case trace.KindSRQ:
		if s, err := trace.ParseSRQSetup(e.Data); err == nil && e.Index != trace.KeyGone {
			cyclic := ""
			if s.Cyclic {
				cyclic = "cyclic, "
			}
			return fmt.Sprintf("%s: 2^%d receives of %d bytes, %sclient %d", how, s.LogSize, 1<<(s.LogStride&31), cyclic, e.Value)
		}
	case trace.KindReceive:
		from := ""
		if e.Count == 1 {
			from = fmt.Sprintf(" of srq 0x%x", e.Queue)
		}
		return fmt.Sprintf("receive %d%s taken: %s", e.Index, from, count(uint64(len(e.Data)), "byte"))
	case trace.KindPayload:
		at, _ := e.PayloadAt()
		return fmt.Sprintf("wqe %d: %s of payload from byte %d on: %s", e.Index, count(uint64(len(e.Data)), "byte"), at,
			Hex(e.Data[:min(len(e.Data), 16)]))
	}
	return how
}
