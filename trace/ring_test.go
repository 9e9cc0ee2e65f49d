package trace

import (
	"bytes"
	"testing"

	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// A ring is copied in parts. A part may end anywhere within a record, also within one that is skipped.
func TestPartsOfARing(t *testing.T) {
	const size = 2 * mostCopied
	skip := make([]byte, 16<<10)
	PutSkip(skip, len(skip))
	for cut := skipSize; cut <= len(skip); cut += 1024 - skipSize {
		mem := make([]byte, RingHeadSize+size)
		PutRingHead(mem, Clock{Hz: 1e9}, 0, size)
		var b []byte
		events := uint32(0)
		add := func(data int) {
			var err error
			b, err = Append(b, &Event{Kind: KindPayload, Number: events, Data: bytes.Repeat([]byte{byte(events)}, data)})
			require.NoError(t, err)
			events++
		}
		for len(b)+3*(32<<10) < mostCopied {
			add(32 << 10)
		}
		for left := mostCopied - cut - len(b); left > 0; left = mostCopied - cut - len(b) {
			add(min(left/2&^7, 32<<10))
			if rest := mostCopied - cut - len(b); rest <= MaxSize && rest >= HeadSize {
				add(rest - HeadSize)
			}
		}
		require.Equal(t, mostCopied-cut, len(b), "the first part ends within the record that is skipped")
		b = append(b, skip...)
		add(8)
		copy(mem[RingHeadSize:], b)
		shm.Word64At(mem, PublishedAt).Publish(uint64(len(b)))
		shm.Word64At(mem, ReservedAt).Publish(uint64(len(b)))
		r, err := NewRing(mem)
		require.NoError(t, err)
		for i := range events {
			var e Event
			ok, err := r.Next(&e)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, i, e.Number)
			require.Equal(t, KindPayload, e.Kind)
			require.Equal(t, bytes.Repeat([]byte{byte(i)}, len(e.Data)), e.Data)
		}
		ok, err := r.Next(new(Event))
		require.NoError(t, err)
		require.False(t, ok)
	}
}
