//go:build linux && (amd64 || arm64)

package tap

import (
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
)

// A Ring is the end of a ring that writes. It is not safe for concurrent use.
type Ring struct {
	data      []byte
	pos       uint64 // bytes of records written
	limit     uint64 // value of reserved
	number    uint32 // number of the next event
	last      uint64 // time of the last event
	published *shm.Word64
	reserved  *shm.Word64
}

// NewRing makes the ring of a shard in new memory, which is 0. The memory after the header is the data
// area. Its size is a power of two, from trace.LeastRing to trace.MostRing.
func NewRing(mem []byte, c trace.Clock, shard int) *Ring {
	r := &Ring{data: mem[trace.RingHeadSize:]}
	r.published, r.reserved = shm.Word64At(mem, trace.PublishedAt), shm.Word64At(mem, trace.ReservedAt)
	trace.PutRingHead(mem, c, shard, len(r.data))
	r.raise(0)
	return r
}

// ahead is the share of the ring that is given up at once: 1/ahead. A watcher can be behind by the rest of
// the ring. If the share were small, the count reserved, whose line a watcher reads, would be stored often.
const ahead = 8

// raise lets records be written up to some bytes after the next n.
//
// Publish: reserved. Observed by trace.Ring.fill.
func (r *Ring) raise(n int) {
	r.limit = r.pos + uint64(n+len(r.data)/ahead)
	r.reserved.PublishFirst(r.limit)
}

// record writes an event, and gives it its number. Some events have the clock of the step, and others one
// that was read later, so an event that seems older than the last gets the time of that.
//
// Publish: published. Observed by trace.Ring.fill.
func (r *Ring) record(e *trace.Event) {
	n := min(len(e.Data), trace.MaxData)
	size := trace.Size(n)
	at := int(r.pos & uint64(len(r.data)-1))
	if left := len(r.data) - at; left < size {
		r.skip(at, left)
		at = 0
	}
	if r.pos+uint64(size) > r.limit {
		r.raise(size)
	}
	b := r.data[at:][:size]
	r.last = max(r.last, e.Time)
	e.Number, e.Time = r.number, r.last
	trace.PutHead(b, e, n)
	if n > 0 {
		end := trace.HeadSize + copy(b[trace.HeadSize:], e.Data[:n])
		clear(b[end:])
	}
	r.number++
	r.pos += uint64(size)
	r.published.Publish(r.pos)
}

// skip fills the last bytes of the data area, from the offset at on, so that the next record begins at its
// begin.
func (r *Ring) skip(at, n int) {
	if r.pos+uint64(n) > r.limit {
		r.raise(n)
	}
	for n > 0 {
		k := min(n, trace.MaxSize)
		trace.PutSkip(r.data[at:], k)
		at, n, r.pos = at+k, n-k, r.pos+uint64(k)
	}
}
