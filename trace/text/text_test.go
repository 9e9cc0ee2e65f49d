package text

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/nicless/nicless/internal/tracetest"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

func printed(t *testing.T, events []trace.Event) string {
	var b strings.Builder
	p := New(&b)
	for i := range events {
		require.NoError(t, p.Event(&events[i], tracetest.Clock))
	}
	return b.String()
}

// A person has read the golden file beside the vectors.
func TestSample(t *testing.T) {
	got := printed(t, tracetest.Sample(t))
	const golden = "testdata/sample.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
	for _, r := range got {
		require.True(t, r == '\n' || unicode.IsPrint(r), "%q", r)
	}
}

// Whatever events say, a Printer writes whole lines that do not change what a terminal shows.
func FuzzPrinter(f *testing.F) {
	for _, e := range tracetest.Sample(f) {
		f.Add(uint8(e.Kind), e.Queue, e.Index, e.Count, e.Value, e.Data)
	}
	f.Fuzz(func(t *testing.T, kind uint8, queue uint32, index, count uint16, value uint64, data []byte) {
		e := trace.Event{Kind: trace.Kind(kind), Time: value, Queue: queue, Index: index, Count: count,
			Value: value, Data: data}
		fetch := e
		fetch.Kind = trace.KindFetch
		got := printed(t, []trace.Event{fetch, e, e})
		require.True(t, strings.HasSuffix(got, "\n"))
		for _, r := range got {
			require.True(t, r == '\n' || r != unicode.ReplacementChar && unicode.IsPrint(r), "%q in %q", r, got)
		}
	})
}

func TestErrorOfWriter(t *testing.T) {
	full := errors.New("no space left on device")
	events := tracetest.Sample(t)
	for i := range events {
		require.ErrorIs(t, New(writer{full}).Event(&events[i], tracetest.Clock), full)
	}
}

type writer struct{ err error }

func (w writer) Write([]byte) (int, error) { return 0, w.err }

// Data that are too short are shown, not read beyond their end.
func TestShortData(t *testing.T) {
	for _, e := range tracetest.Sample(t) {
		for _, n := range []int{0, 1, 19, 20, 63} {
			e.Data = e.Data[:min(n, len(e.Data))]
			require.NotEmpty(t, printed(t, []trace.Event{e}))
		}
	}
}

// The device finds the same record and the same WQE again until it has executed them. A WQE that was changed
// in between is shown again.
func TestFoundAgain(t *testing.T) {
	x := tracetest.New(t)
	x.Queue(0x51, 1, 0x52, trace.RC, 0)
	x.Post(0x51, "write_signaled", "write_signaled")
	bell, fetch := x.Events[1], x.Events[2]
	x.Add(bell)
	x.Add(fetch)
	bell.Count = 3
	x.Add(bell)
	fetch.Data = bytes.Clone(fetch.Data)
	fetch.Data[40] ^= 1 // the address of the first
	x.Add(fetch)
	got := printed(t, x.Events)
	require.Equal(t, 2, strings.Count(got, "doorbell: "))
	require.Contains(t, got, "doorbell: 2 blocks from 0 on")
	require.Contains(t, got, "doorbell: 1 block from 2 on")
	require.Equal(t, 2, strings.Count(got, "wqe 0 fetched: "))
	require.Equal(t, 1, strings.Count(got, "wqe 1 fetched: "))
}
