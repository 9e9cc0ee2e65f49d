package text

import (
	"fmt"

	"github.com/nicless/nicless/trace"
)

// forSanitizer returns what an event says that is recorded for package sanitize.
func forSanitizer(e *trace.Event) string {
	switch e.Kind {
	case trace.KindPosted:
		return fmt.Sprintf("receive %d posted: %s", e.Index, count(uint64(len(e.Data)), "byte"))
	case trace.KindPolled:
		return fmt.Sprintf("completions below %d were taken", e.Value)
	}
	part := trace.ChangedPart(e.Count)
	switch part {
	case trace.ChangedWQE:
		return fmt.Sprintf("block %d of wqe %d was changed before its completion", e.Value, e.Index)
	case trace.ChangedEntry, trace.ChangedSharedEntry:
		return fmt.Sprintf("the entry of receive %d was changed before its completion", e.Index)
	}
	of := "receive"
	if part == trace.ChangedSource {
		of = "wqe"
	}
	c, err := trace.ParseChange(e.Data)
	if err != nil {
		return fmt.Sprintf("bytes of %s %d were changed before its completion", of, e.Index)
	}
	return fmt.Sprintf("piece %d of %s %d was changed before its completion: %s at 0x%x, key 0x%x, checksum 0x%08x, was 0x%08x",
		e.Value, of, e.Index, count(c.Length, "byte"), c.Addr, c.Key, c.Is, c.Was)
}
