package text

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/nicless/nicless/internal/tracetest"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
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

// Events for a replay say what starts queues, and which are cyclic or collapsed.
func TestReplaySample(t *testing.T) {
	got := printed(t, tracetest.Replay(t))
	const golden = "testdata/replay.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
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

// A client is named in full once. Later lines have its program, and what it says of itself later.
func TestClientsAreNamedOnce(t *testing.T) {
	const name = `pid 4713 uid 0 "get it" nicless0`
	x := tracetest.New(t)
	client := trace.Event{Kind: trace.KindClient, Queue: 3, Value: 4713, Data: []byte(name)}
	x.Add(client)
	x.Add(client)
	client.Data = []byte(name + ` "mine"`)
	x.Add(client)
	x.Queue(0x51, 3, 0x52, trace.RC, 0)
	client.Value, client.Data = 4714, []byte(strings.Repeat("long", 100))
	x.Add(client)
	x.Add(trace.Event{Kind: trace.KindClientGone, Queue: 3})
	lines := strings.Split(printed(t, x.Events), "\n")[1:]
	for i, want := range []string{"client 3 " + name, `client 3 is named "mine"`,
		`qp 0x51 RC, RTS, client 3 ("get it", pid 4713), cqs`, `client 3 "` + strings.Repeat("long", 100) + `" pid 4714`,
		"client 3 (" + strings.Repeat("long", 8) + "…, pid 4714) is gone"} {
		_, line, _ := strings.Cut(lines[i], " ")
		require.True(t, strings.HasPrefix(line, want), line)
	}
}

// A request that was refused is about no queue pair.
func TestRefusedRequest(t *testing.T) {
	code := make([]byte, trace.CodeSize)
	copy(code, "fault-injected")
	e := trace.Event{Kind: trace.KindExplanation, Value: 7, Data: append(code, "create_qp is refused"...)}
	_, ok := objects.QueueOf(&e)
	require.False(t, ok)
	require.Contains(t, printed(t, []trace.Event{e}),
		" client 7 request explained: fault-injected: create_qp is refused\n")
}

// The plan of a run that was drawn is for a replay. Its text is long, and it is not shown.
func TestPlan(t *testing.T) {
	e := trace.Event{Kind: trace.KindPlan, Index: 1, Value: 300, Data: []byte("{}")}
	require.Contains(t, printed(t, []trace.Event{e}), " trace has a plan, piece 1: 2 bytes of 300\n")
}

// Packets of masked atomics, whole and cut.
func TestMaskedAtomic(t *testing.T) {
	for digits, want := range map[string]string{
		"18 00 ffff 00 000018 00 000001  0000000000001000 00000007 00000008" +
			"0000000000000011 0000000000000022 00000000000000ff 000000000000ff00": "RC_MASKED_COMPARE_SWAP to qp 0x18 psn 1, " +
			"raddr 0x1000 rkey 0x7, compare 0x22/0xff00 swap 0x11/0xff",
		"18 00 ffff 00 000018 00 000001  0000000000001000 00000007 00000004" +
			"00000011 00000022 000000ff 0000ff00": "RC_MASKED_COMPARE_SWAP to qp 0x18 psn 1, " +
			"raddr 0x1000 rkey 0x7, 4 bytes: compare 0x22/0xff00 swap 0x11/0xff",
		"b9 00 ffff 00 000018 80 000001  00000003 0000000000001000 00000007 00000008" +
			"0000000000000011 8000000000000000": "XRC_MASKED_FETCH_ADD to qp 0x18 psn 1, srq 0x3, " +
			"raddr 0x1000 rkey 0x7, add 0x11 boundary 0x8000000000000000, wants an ack",
		"19 00 ffff 00 000018 00 000001  0000000000001000 00000007 00000004" +
			"00000011 80008000 0000000000000000": "RC_MASKED_FETCH_ADD to qp 0x18 psn 1, " +
			"raddr 0x1000 rkey 0x7, 4 bytes: add 0x11 boundary 0x80008000",
		"19 00 ffff 00 000018 00 000001  0000000000001000 00000007 00000008" +
			"00000011": "RC_MASKED_FETCH_ADD to qp 0x18 psn 1, raddr 0x1000 rkey 0x7, on 8 bytes",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		require.NoError(t, err)
		require.Equal(t, want, Packet(b, uint64(len(b))))
	}
}
