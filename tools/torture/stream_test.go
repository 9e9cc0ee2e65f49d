package torture

import (
	"testing"

	"github.com/nicless/nicless"
	"github.com/stretchr/testify/require"
)

// Both ends see the same operations. The operations fit into their slots and do not overlap each
// other or the slots' edges. Each group ends with a signaled message.
func TestStreams(t *testing.T) {
	for i := range flowConfigs {
		menu := flowConfigs[i].Menu
		a, b := NewStream(uint64(i), menu), NewStream(uint64(i), menu)
		seen := map[nicless.Op]int{}
		large, inline := 0, 0
		for n := range uint64(5000) {
			o := a.Next()
			require.Equal(t, o, b.Next())
			require.Equal(t, n, o.N)
			require.Equal(t, a.Key(n), b.Key(n))
			seen[o.Op]++
			if n%group == group-1 {
				require.True(t, o.Message() && o.Flags&nicless.Signaled != 0, n)
			}
			if o.Message() {
				require.LessOrEqual(t, o.Len, menu.Largest)
			}
			if o.Large {
				large++
			}
			if o.Pieces == nil {
				inline++
				require.LessOrEqual(t, o.Len, maxInline)
			}
			off, size := slot(&o)
			at, total := off, 0
			for _, s := range localSpans(nil, &o) {
				require.GreaterOrEqual(t, s.off, at+guard)
				require.Positive(t, s.n)
				at, total = s.off+s.n, total+s.n
			}
			require.LessOrEqual(t, at+guard, off+size)
			if o.Pieces != nil {
				require.Equal(t, o.Len, total)
			}
			switch o.Op {
			case nicless.Write, nicless.WriteImm:
				s := remoteSpan(&o)
				require.GreaterOrEqual(t, s.off, off+guard)
				require.LessOrEqual(t, s.off+s.n+guard, off+size)
			case nicless.Read:
				require.LessOrEqual(t, o.At+o.Len, sourceSize)
			}
		}
		if menu.Window {
			require.Positive(t, seen[nicless.SendInval])
		}
		for _, op := range menu.Ops {
			require.Positive(t, seen[op], op)
		}
		require.Positive(t, inline)
		require.Equal(t, menu.Large, large > 0)
	}
}

// A payload can be generated from any offset that is a multiple of 8. Payloads of different keys
// differ.
func TestPattern(t *testing.T) {
	whole, part := make([]byte, 1003), make([]byte, 1003-72)
	pattern(whole, 5, 0)
	pattern(part, 5, 72)
	require.Equal(t, whole[72:], part)
	pattern(part, 6, 72)
	require.NotEqual(t, whole[72:], part)
}

func TestCompare(t *testing.T) {
	b := make([]byte, 4096)
	poisonAll(b)
	require.True(t, isPoison(b))
	spans := []span{{100, 10}, {200, 30}}
	want := make([]byte, 40)
	pattern(want, 1, 0)
	copy(b[100:], want[:10])
	copy(b[200:], want[10:])
	require.NoError(t, compare(b, spans, want))
	for at, text := range map[int]string{
		99: "beside", 110: "beside", 199: "beside", 230: "beside", 293: "beside", 36: "beside",
		105: "byte 5 of 10", 229: "byte 29 of 30",
	} {
		b[at] ^= 1
		require.ErrorContains(t, compare(b, spans, want), text, at)
		b[at] ^= 1
	}
	b[35] ^= 1 // farther from the payload than a guard reaches
	require.NoError(t, compare(b, spans, want))
}

// Receives have room for the largest message, in two pieces that stay apart.
func TestReceiveSpans(t *testing.T) {
	for n := range uint64(sharedDepth) {
		s := recvSpans(nil, n, recvSize-3*guard)
		base := int(n) * recvSize
		require.Len(t, s, 2)
		require.Equal(t, base+guard, s[0].off)
		require.Equal(t, s[0].off+s[0].n+guard, s[1].off)
		require.Equal(t, base+recvSize-guard, s[1].off+s[1].n)
		require.GreaterOrEqual(t, s[0].n+s[1].n, smallPayload)
	}
}

// The model computes the values that atomics leave by the rules of the device.
func TestAtomicModel(t *testing.T) {
	for name, row := range map[string]struct {
		o             Operation
		old           uint64
		next, compare uint64
	}{
		"add":           {Operation{Op: nicless.FetchAdd, Len: 8, Add: 3}, ^uint64(0), 2, 0},
		"swap":          {Operation{Op: nicless.CompareSwap, Len: 8, Add: 3, Hit: true}, 9, 3, 9},
		"no swap":       {Operation{Op: nicless.CompareSwap, Len: 8, Add: 4}, 9, 9, 12},
		"fields":        {Operation{Op: nicless.MaskedFetchAdd, Len: 8, Add: 0x0101, Mask: nicless.Mask{Boundary: 1<<63 | 0x80}}, 0x12ff, 0x1300, 0},
		"half":          {Operation{Op: nicless.MaskedFetchAdd, Len: 4, Add: 1<<40 | 2}, 7<<32 | 0xffffffff, 7<<32 | 1, 0},
		"masked":        {Operation{Op: nicless.MaskedCompareSwap, Len: 8, Add: 0xabcd, Hit: true, Mask: nicless.Mask{Swap: 0xff}}, 0x1234, 0x12cd, 0x1234},
		"half, no swap": {Operation{Op: nicless.MaskedCompareSwap, Len: 4, Add: 5, Mask: nicless.Mask{Swap: 0xff, Compare: 1}}, 1<<32 | 6, 1<<32 | 6, 0xfffffff9},
	} {
		next, compare := row.o.model(row.old)
		require.Equal(t, row.next, next, name)
		if row.compare != 0 {
			require.Equal(t, row.compare, compare, name)
		}
	}
}
