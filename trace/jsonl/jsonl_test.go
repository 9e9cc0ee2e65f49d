package jsonl

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

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

func TestSample(t *testing.T) {
	got := printed(t, tracetest.Sample(t))
	const golden = "testdata/sample.jsonl"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// docs/TRACE.md lists the names that objects have after the first four.
func TestDocNamesEveryName(t *testing.T) {
	b, err := os.ReadFile("../../docs/TRACE.md")
	require.NoError(t, err)
	rows := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z, -]+) \| ([a-z_, ]+)(?:: .*)? \|$`).FindAllStringSubmatch(string(b), -1) {
		for kind := range strings.SplitSeq(m[1], ", ") {
			rows[kind] = strings.Split(m[2], ", ")
		}
	}
	events := append(append(tracetest.Sample(t), tracetest.Replay(t)...), trace.Event{Kind: trace.KindEnd})
	for line := range strings.Lines(printed(t, events)) {
		var o map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &o))
		kind := o["kind"].(string)
		if kind == "kind-77" {
			continue
		}
		require.Contains(t, rows, kind)
		for _, name := range []string{"time", "ticks", "number", "kind"} {
			require.Contains(t, o, name)
			delete(o, name)
		}
		for name := range o {
			require.Contains(t, rows[kind], name, kind)
		}
	}
}

// Names that clients have given come back as they were, but for bytes that are no UTF-8.
func TestHostileNames(t *testing.T) {
	got := printed(t, tracetest.Sample(t))
	seen := false
	for line := range strings.Lines(got) {
		requireLine(t, line)
		var o struct{ Kind, Name string }
		require.NoError(t, json.Unmarshal([]byte(line), &o))
		if o.Kind == "client" && o.Name != "put" {
			require.Equal(t, strings.ToValidUTF8(tracetest.HostileName, "\ufffd"), o.Name)
			seen = true
		}
	}
	require.True(t, seen)
}

func requireLine(t *testing.T, line string) {
	t.Helper()
	line, ok := strings.CutSuffix(line, "\n")
	require.True(t, ok)
	for i := range len(line) {
		require.True(t, line[i] >= ' ' && line[i] < 0x7f, "%q", line)
	}
	require.True(t, json.Valid([]byte(line)), "%q", line)
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

// Events for a replay say what starts queues, and which are cyclic or collapsed.
func TestReplaySample(t *testing.T) {
	got := printed(t, tracetest.Replay(t))
	const golden = "testdata/replay.jsonl"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// Whatever events say, a Printer writes valid JSON in lines of ASCII.
func FuzzPrinter(f *testing.F) {
	for _, e := range tracetest.Sample(f) {
		f.Add(uint8(e.Kind), e.Queue, e.Index, e.Count, e.Value, e.Data)
	}
	f.Fuzz(func(t *testing.T, kind uint8, queue uint32, index, count uint16, value uint64, data []byte) {
		e := trace.Event{Kind: trace.Kind(kind), Time: value, Queue: queue, Index: index, Count: count,
			Value: value, Data: data}
		fetch := e
		fetch.Kind = trace.KindFetch
		for line := range strings.Lines(printed(t, []trace.Event{fetch, e, e})) {
			requireLine(t, line)
		}
	})
}

// The bytes of records in docs/TRACE.md are those of the format.
func TestDocHasTheBytes(t *testing.T) {
	b, err := os.ReadFile("../../docs/TRACE.md")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(b), " ", "")
	for _, e := range []trace.Event{
		{Kind: trace.KindClient, Time: 100, Queue: 1, Value: 4711, Data: []byte("put")},
		{Kind: trace.KindDoorbell, Number: 1, Time: 200, Queue: 0x51, Index: 65535, Count: 2, Value: 0x10001},
	} {
		record, err := trace.Append(nil, &e)
		require.NoError(t, err)
		require.Contains(t, text, "\n"+hex.EncodeToString(record)+"\n")
	}
}

func TestPlan(t *testing.T) {
	e := trace.Event{Kind: trace.KindPlan, Index: 1, Value: 300, Data: []byte("{}")}
	require.Contains(t, printed(t, []trace.Event{e}), `"kind":"plan","piece":1,"length":300,"text":"{}"}`)
}
