package jsonl

import (
	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/trace"
)

// forSanitizer returns the fields of an event that is recorded for package sanitize.
func forSanitizer(e *trace.Event) field.Tree {
	o := object{}
	switch e.Kind {
	case trace.KindPosted:
		return field.Tree(o.add("queue", e.Queue).add("shared", e.Count == 1).add("index", e.Index).
			add("client", e.Value).add("bytes", field.Bytes(e.Data)))
	case trace.KindPolled:
		return field.Tree(o.add("cq", e.Queue).add("index", e.Value))
	}
	part := trace.ChangedPart(e.Count)
	o = o.add("queue", e.Queue).add("index", e.Index).add("part", part.String()).add("piece", e.Value)
	c, err := trace.ParseChange(e.Data)
	if err == nil && part <= trace.ChangedSharedBuffer {
		return field.Tree(o.add("address", field.Hex64(c.Addr)).add("length", c.Length).add("key", c.Key).
			add("was", field.Hex32(c.Was)).add("is", field.Hex32(c.Is)))
	}
	half := len(e.Data) / 2
	return field.Tree(o.add("was", field.Bytes(e.Data[:half])).add("is", field.Bytes(e.Data[half:])))
}
