package jsonl

import (
	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/trace"
)

// forReplay returns the fields of an event that is recorded for a replay.
func forReplay(e *trace.Event) field.Tree {
	o := object{}
	change := [...]string{"gone", "made", "changed"}[min(e.Index, 2)]
	switch e.Kind {
	case trace.KindCQ:
		o = o.add("cq", e.Queue).add("change", change).add("client", e.Value)
		if s, err := trace.ParseCQSetup(e.Data); err == nil {
			o = o.add("log_entries", s.LogSize).add("log_entry_bytes", s.LogEntry).add("flags", s.Flags)
		}
	case trace.KindSRQ:
		o = o.add("srq", e.Queue).add("change", change).add("client", e.Value)
		if s, err := trace.ParseSRQSetup(e.Data); err == nil {
			o = o.add("log_entries", s.LogSize).add("log_entry_bytes", s.LogStride).add("pd", s.PD).
				add("xrcd", s.XRCD).add("cq", s.CQ).add("user_index", s.UserIndex).add("cyclic", s.Cyclic)
		}
	case trace.KindReceive:
		o = o.add("queue", e.Queue).add("shared", e.Count == 1).add("index", e.Index).add("qp", e.Value).
			add("bytes", field.Bytes(e.Data))
	case trace.KindPayload:
		at, sum := e.PayloadAt()
		o = o.add("qp", e.Queue).add("index", e.Index).add("offset", at).add("checksum", field.Hex32(sum)).
			add("bytes", field.Bytes(e.Data))
	}
	return field.Tree(o)
}
