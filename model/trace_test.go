package model

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

const traceHead = `{"trace":"nicless-lines","version":1,"line":64,"regions":{"sq3":{"is":"sq"},"db":{"is":"dbrec"}}}` + "\n"

// An access that TestTraceRefuses changes.
const okAccess = `{"seq":812,"who":"host","op":"store","kind":"wqe","line":"sq3:17","why":"once"}`

func TestReadTrace(t *testing.T) {
	got, err := ReadTrace(strings.NewReader(traceHead +
		`{"seq":811,"who":"peer","op":"load","kind":"cqe","line":"db:0","why":"poll"}` + "\n" +
		` { "req" : 5 , "seq":812,"who":"host","op":"store-nt","kind":"wqe","line":"sq3:17","n":3,"bytes":130,"why":"once","after":[811]}` + "\r\n" +
		`{"seq":900,"who":"dev","op":"work","after":[812,811],"req":5}`))
	require.NoError(t, err)
	require.Equal(t, Trace{
		Regions: map[string]Structure{"sq3": SQ, "db": Records},
		Accesses: []Access{
			{Seq: 811, Who: Peer, Op: Load, Kind: CQE, Line: Line{"db", 0}, Why: Poll, N: 1},
			{Seq: 812, Who: Host, Op: StoreNT, Kind: WQE, Line: Line{"sq3", 17}, Why: Once, N: 3, Bytes: 130, After: []int{811}, Req: 5},
			{Seq: 900, Who: Dev, Op: Work, N: 1, After: []int{812, 811}, Req: 5},
		}}, got)
}

// Each wrong input is refused with the line, the key, the value and the limit.
func TestTraceRefuses(t *testing.T) {
	with := func(old, new string) string { return traceHead + strings.Replace(okAccess, old, new, 1) + "\n" }
	head := func(old, new string) string { return strings.Replace(traceHead, old, new, 1) }
	list := func(n int) string { return strings.TrimSuffix(strings.Repeat("812,", n), ",") }
	var many strings.Builder
	for i := range maxRegions + 1 {
		fmt.Fprintf(&many, `"r%d":{"is":"sq"},`, i)
	}
	next := func(text string) string { return traceHead + okAccess + "\n" + text + "\n" }
	for _, c := range []struct{ text, want string }{
		{"", "line 1: the file is empty; its first line is the header"},
		{"\n", "line 1: is empty; each line is an object"},
		{"[]", "line 1: is no object: it does not begin with {"},
		{"{", "line 1: is no JSON: it ends within the object"},
		{"nonsense", "line 1: is no JSON: invalid character 'o' in literal null (expecting 'u')"},
		{head(`"version":1`, `"version":2`), "line 1: version: 2 is not 1, the only one that this reader knows"},
		{head(`"version":1,`, ``), "line 1: version: is missing"},
		{head(`"version"`, `"Version"`), "line 1: Version: is no key here; there are trace, version, line, regions"},
		{head(`"line":64`, `"line":128`), "line 1: line: 128 is not 64, the only one that this reader knows"},
		{head(`nicless-lines`, `other`), `line 1: trace: "other" is not "nicless-lines", the only one that this reader knows`},
		{head(`"is":"sq"`, `"is":"rings"`), `line 1: regions: region "sq3": is: "rings" is none of sq, rq, cq, dbrec, uar, payload.tx, payload.rx, keys`},
		{head(`{"is":"sq"}`, `{}`), `line 1: regions: region "sq3": is: is missing`},
		{head(`{"is":"sq"}`, `3`), `line 1: regions: region "sq3": is no object: it does not begin with {`},
		{head(`"sq3"`, `"sq:3"`), `line 1: regions: the region's name sq:3 does not have 1..40 letters, digits, dots, hyphens and underscores`},
		{head(`"sq3"`, `"`+strings.Repeat("s", 41)+`"`), `line 1: regions: the region's name "` + strings.Repeat("s", 40) + `"... does not have 1..40 letters, digits, dots, hyphens and underscores`},
		{head(`"sq3"`, `"db"`), "line 1: regions: db: occurs twice"},
		{head(`"sq3"`, many.String()+`"sq3"`), "line 1: regions: there are more than 4096 regions"},
		{head(`}}}`, `}}} {}`), "line 1: has more after the object"},

		{with(`"seq":812,`, ``), "line 2: seq: is missing"},
		{with(`812`, `-1`), "line 2: seq: -1 is not an integer of 0..2147483647"},
		{with(`812`, `2147483648`), "line 2: seq: 2147483648 is not an integer of 0..2147483647"},
		{with(`812`, `1e3`), "line 2: seq: 1e3 is not an integer of 0..2147483647"},
		{with(`812`, `"812"`), `line 2: seq: "812" is not an integer of 0..2147483647`},
		{with(`812`, `null`), "line 2: seq: null is not an integer of 0..2147483647"},
		{with(`"host"`, `"gpu"`), `line 2: who: "gpu" is none of host, peer, dev`},
		{with(`"store"`, `"swap"`), `line 2: op: "swap" is none of load, store, store-nt, rmw, flush, work`},
		{with(`"wqe"`, `"mtt"`), `line 2: kind: "mtt" is none of record, uar, wqe, rxwqe, payload, cqe, ci, key`},
		{with(`"once"`, `"twice"`), `line 2: why: "twice" is none of poll, signal, once, follow, stream, complete, prefetch`},
		{with(`"once"`, `7`), `line 2: why: 7 is no string`},
		{with(`,"why":"once"`, ``), `line 2: why: is missing`},
		{with(`"kind"`, `"Kind"`), "line 2: Kind: is no key here; there are seq, who, op, kind, line, n, bytes, why, after, req"},
		{with(`"kind"`, "\"\x01\""), "line 2: is no JSON: invalid character '\\x01' in string literal"},
		{with(`"kind":"wqe"`, `"kind":"wqe","kind":"cqe"`), "line 2: kind: occurs twice"},
		{with(`sq3:17`, `sq4:17`), `line 2: line: sq4:17: nobody placed this line: the header has no region "sq4"`},
		{with(`sq3:17`, `sq3`), `line 2: line: sq3 is not a region, a colon and an index of 0..1073741823`},
		{with(`sq3:17`, `sq3:017`), `line 2: line: sq3:017 has an index with a sign or leading zeros`},
		{with(`sq3:17`, `sq3:1099511627776`), `line 2: line: sq3:1099511627776 is not a region, a colon and an index of 0..1073741823`},
		{with(`sq3:17"`, `sq3:1073741823","n":2`), `line 2: line: index 1073741823: the last of 2 lines is not 0..1073741823`},
		{with(`}`, `,"n":0}`), "line 2: n: 0 is not 1..2097152"},
		{with(`}`, `,"n":2097153}`), "line 2: n: 2097153 is not an integer of 0..2097152"},
		{with(`}`, `,"n":2,"bytes":129}`), "line 2: bytes: 129 is not 0..128, the bytes of 2 lines"},
		{with(`}`, `,"after":[811]}`), "line 2: after: 811 is the seq of no access"},
		{with(`}`, `,"after":[812]}`), "line 2: after: 812 is not earlier than this access, 812"},
		{with(`}`, `,"after":[813]}`), "line 2: after: 813 is not earlier than this access, 812"},
		{with(`}`, `,"after":812}`), "line 2: after: 812 is no list of integers"},
		{with(`}`, `,"after":[1.5]}`), "line 2: after: 1.5 is not an integer of 0..2147483647"},
		{with(`}`, `,"after":[`+list(maxAfter+1)+`]}`), "line 2: after: has 1025 numbers, more than 1024"},
		{with(okAccess, `{"seq":1,"who":"dev","op":"work","kind":"wqe"}`), "line 2: kind: does not belong to work, which touches no line"},
		{with(`}`, `}}`), "line 2: has more after the object"},
		{with(`{`, ``), "line 2: is no object: it does not begin with {"},
		{with(`}`, strings.Repeat(" ", maxTraceLine)+`}`), "line 2: has more than 262143 bytes"},
		{next(okAccess), "line 3: seq: 812 does not increase: the access before has 812"},
		{next(""), "line 3: is empty; each line is an object"},
		{traceHead + strings.Replace(okAccess, "}", `,"req":7}`, 1) + "\n" + strings.Replace(okAccess, "812", "813", 1), "line 3: req: 0 is less than that of the access before, 7"},
		{next(`{"seq":813,"who":"dev","op":"load","kind":"wqe","line":"sq3:0","why":"once","n":2097152}`), "line 3: n: 2097152: with this access, the sum of n over the trace is 2097153, more than 2097152"},
	} {
		got, err := ReadTrace(strings.NewReader(c.text))
		require.EqualError(t, err, "trace: "+c.want, "%.200s", c.text)
		var typed *TraceError
		require.ErrorAs(t, err, &typed)
		require.Zero(t, got)
	}
}

// lineAfterLine is a file of a header and lines made one by one, so that a long one takes no memory.
func lineAfterLine(line func(i int) string) io.Reader {
	i, rest := 0, traceHead
	return readerFunc(func(b []byte) (int, error) {
		if rest == "" {
			rest = line(i)
			i++
		}
		n := copy(b, rest)
		rest = rest[n:]
		return n, nil
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// Endless files end at a limit.
func TestTraceEndless(t *testing.T) {
	afters := strings.TrimSuffix(strings.Repeat("0,", maxAfter), ",")
	for _, c := range []struct {
		before int // accesses that the reader believes to have read
		line   func(i int) string
		want   string
	}{
		{maxAccesses - 2, func(i int) string { return fmt.Sprintf(`{"seq":%d,"who":"dev","op":"work"}`+"\n", i+maxAccesses) },
			"trace: line 4: is one access more than 262144"},
		{0, func(i int) string {
			if i == 0 {
				return `{"seq":0,"who":"dev","op":"work"}` + "\n"
			}
			return fmt.Sprintf(`{"seq":%d,"who":"dev","op":"work","after":[%s]}`+"\n", i, afters)
		}, "trace: line 4099: after: all lists of the trace together have more than 4194304 numbers"},
		{0, func(int) string { return "{" }, "trace: line 2: has more than 262143 bytes"},
	} {
		tr, err := NewTraceReader(lineAfterLine(c.line))
		require.NoError(t, err)
		for i := range c.before {
			tr.checker.seqs = append(tr.checker.seqs, i)
		}
		for err == nil {
			_, err = tr.Next()
		}
		require.EqualError(t, err, c.want)
		_, again := tr.Next()
		require.Equal(t, err, again)
	}
}

// An error of the file itself is passed on, with the line.
func TestTraceReadError(t *testing.T) {
	broken := errors.New("the disk is gone")
	_, err := ReadTrace(io.MultiReader(strings.NewReader(traceHead+okAccess[:9]), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "line 2")
	_, err = ReadTrace(iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
}

// words is a file that has each word of the format, as WriteTrace writes it.
//
//go:embed testdata/words.jsonl
var words string

// A file that has each word of the format is written as it was read.
func TestTraceFile(t *testing.T) {
	trace, err := ReadTrace(iotest.OneByteReader(strings.NewReader(words)))
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, WriteTrace(&b, trace))
	require.Equal(t, words, b.String())
	for _, list := range [][]string{agentNames, opNames, kindNames, whyNames, structureNames} {
		for _, word := range list {
			require.Contains(t, words, `"`+word+`"`)
		}
	}
}

// WriteTrace writes traces that can be read, and refuses all others.
func TestWriteTraceRefuses(t *testing.T) {
	regions := map[string]Structure{"sq": SQ}
	ok := Access{Seq: 1, Op: Store, Kind: WQE, Why: Once, Line: Line{"sq", 0}, N: 1}
	change := func(f func(*Access)) []Access {
		a := ok
		f(&a)
		return []Access{a}
	}
	for _, c := range []struct {
		trace Trace
		want  string
	}{
		{Trace{map[string]Structure{"a b": SQ}, nil}, "line 1: regions: the region's name a b does not have 1..40 letters, digits, dots, hyphens and underscores"},
		{Trace{map[string]Structure{"sq": Structures}, nil}, `line 1: regions: region "sq": structure 8 does not exist`},
		{Trace{regions, []Access{ok, ok}}, "line 3: seq: 1 does not increase: the access before has 1"},
		{Trace{regions, change(func(a *Access) { a.Seq = -1 })}, "line 2: seq: -1 is not 0..2147483647"},
		{Trace{regions, change(func(a *Access) { a.Req = -1 })}, "line 2: req: -1 is not 0..2147483647"},
		{Trace{regions, change(func(a *Access) { a.N = 0 })}, "line 2: n: 0 is not 1..2097152"},
		{Trace{regions, change(func(a *Access) { a.Who = 9 })}, "line 2: agent 9, operation 1, kind 2, reason 2: one of them does not exist"},
		{Trace{regions, change(func(a *Access) { a.After = []int{5} })}, "line 2: after: 5 is not earlier than this access, 1"},
		{Trace{regions, change(func(a *Access) { a.After = make([]int, maxAfter+1) })}, "line 2: after: has 1025 numbers, more than 1024"},
		{Trace{regions, change(func(a *Access) { a.Line.Region = "rq" })}, `line 2: line: rq:0: nobody placed this line: the header has no region "rq"`},
	} {
		require.EqualError(t, WriteTrace(io.Discard, c.trace), "trace: "+c.want)
	}
	require.NoError(t, WriteTrace(io.Discard, Trace{regions, []Access{{Seq: 1, Who: Dev, Op: Work}}}))
}

// FuzzReadTrace: there is a trace or an error, and what has been read can be written and read again.
func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(words))
	f.Add([]byte(traceHead + okAccess))
	f.Add([]byte(traceHead + okAccess + "\n" + `{"seq":813,"who":"dev","op":"work","after":[812],"req":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		trace, err := ReadTrace(bytes.NewReader(b))
		if err != nil {
			var typed *TraceError
			if !errors.As(err, &typed) || trace.Regions != nil || trace.Accesses != nil {
				t.Fatalf("error %v of type %T, and a trace of %d accesses", err, err, len(trace.Accesses))
			}
			return
		}
		var out bytes.Buffer
		if err := WriteTrace(&out, trace); err != nil {
			t.Fatalf("what has been read is not written: %v", err)
		}
		again, err := ReadTrace(bytes.NewReader(out.Bytes()))
		if err != nil || !reflect.DeepEqual(trace, again) {
			t.Fatalf("read, written and read:\n got %v (%v)\nwant %v", again, err, trace)
		}
	})
}
