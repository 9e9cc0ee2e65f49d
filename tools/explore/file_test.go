//go:build linux && (amd64 || arm64)

package explore

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

const explored = "../../testdata/explored"

var record = flag.Bool("record", false, "write the traces of testdata/explored anew")

// The traces of testdata/explored are regression tests, recorded on another machine: the device does the same
// again. Their seeds have been chosen for what their plans do.
func TestFiles(t *testing.T) {
	for name, seed := range map[string]uint64{"rc": 101, "several": 532, "unwatched": 154} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(explored, name+".nictrace")
			if *record {
				p := Draw(seed)
				o, err := Execute(p)
				require.NoError(t, err)
				var b bytes.Buffer
				require.NoError(t, (&Record{p, o.Fault, o.Events}).Write(&b))
				require.NoError(t, os.WriteFile(file, b.Bytes(), 0o644))
			}
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			r, err := Read(bytes.NewReader(b))
			require.NoError(t, err)
			require.Equal(t, seed, r.Plan.Seed)
			o, diff, err := r.Repeat()
			require.NoError(t, err)
			require.Nil(t, diff)
			require.Nil(t, o.Fault)
			require.NotZero(t, o.Seen.Events)
		})
	}
}

// A run that is not as recorded is told by its first difference: an event, or the fault.
func TestDifferences(t *testing.T) {
	p := Draw(101)
	o, err := Execute(p)
	require.NoError(t, err)
	r := &Record{Plan: p, Events: bytesOf(o.Events)}
	r.Events[9].Data = append([]byte(nil), r.Events[9].Data...)
	r.Events[9].Time++
	_, diff, err := r.Repeat()
	require.NoError(t, err)
	require.Equal(t, 9, diff.Event)
	require.NotEqual(t, diff.Recorded, diff.Repeated)
	require.Contains(t, diff.String(), "event 9: recorded ")

	r.Events = o.Events[:len(o.Events)-1]
	_, diff, err = r.Repeat()
	require.NoError(t, err)
	require.Equal(t, "nothing", diff.Recorded)

	r.Events, r.Fault = o.Events, verdict.New(verdict.Lost, "a", "b")
	_, diff, err = r.Repeat()
	require.NoError(t, err)
	require.Equal(t, "no fault", diff.Repeated)
}

func bytesOf(list []trace.Event) []trace.Event { return append([]trace.Event(nil), list...) }

// A trace that another command has recorded has no plan.
func TestOtherTraces(t *testing.T) {
	for _, name := range []string{"../../testdata/replays/rc_pingpong.nictrace", "doc.go"} {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		r, err := Read(bytes.NewReader(b))
		require.Nil(t, r)
		require.Equal(t, name == "doc.go", err != nil)
	}
}

// A plan is a part of a trace, in pieces if it is long.
func TestLongPlan(t *testing.T) {
	p := Draw(101)
	for len(p.Steps) < 5000 {
		p.Steps = append(p.Steps, Step{Do: Rules, Rules: &fault.Rules{Rules: []fault.Rule{{Stall: 1}}}})
	}
	var b bytes.Buffer
	require.NoError(t, (&Record{Plan: p}).Write(&b))
	require.Greater(t, b.Len(), 2*trace.MaxData)
	r, err := Read(bytes.NewReader(b.Bytes()))
	require.NoError(t, err)
	require.Equal(t, p, r.Plan)
	_, err = Read(bytes.NewReader(b.Bytes()[:2*trace.MaxData]))
	require.ErrorIs(t, err, trace.ErrCut)
}

// The pieces of a plan are those of one plan, in order, all of them, and before all events.
func TestWrongPieces(t *testing.T) {
	p := Draw(101)
	o, err := Execute(p)
	require.NoError(t, err)
	for len(p.Steps) < 1000 {
		p.Steps = append(p.Steps, p.Steps...)
	}
	var b bytes.Buffer
	require.NoError(t, (&Record{Plan: p, Events: o.Events[:3]}).Write(&b))
	var whole []trace.Event
	r, err := trace.NewReader(&b)
	require.NoError(t, err)
	for {
		var e trace.Event
		if r.Next(&e) != nil {
			break
		}
		e.Data = bytes.Clone(e.Data)
		whole = append(whole, e)
	}
	require.Equal(t, trace.KindPlan, whole[1].Kind)
	for want, change := range map[string]func(l []trace.Event) []trace.Event{
		"": func(l []trace.Event) []trace.Event { return l },
		"has a piece of one of": func(l []trace.Event) []trace.Event {
			l[1].Value++
			return l
		},
		"piece 0 of the plan comes after 1 pieces": func(l []trace.Event) []trace.Event {
			l[1].Index = 0
			return l
		},
		"a plan of 5000000 bytes has": func(l []trace.Event) []trace.Event {
			for i := range l {
				if l[i].Kind == trace.KindPlan {
					l[i].Value = 5000000
				}
			}
			return l
		},
		"and 3 events": func(l []trace.Event) []trace.Event {
			n := slices.IndexFunc(l, func(e trace.Event) bool { return e.Kind != trace.KindPlan })
			return append(slices.Clone(l[:n+3]), l[n-1])
		},
	} {
		b.Reset()
		w, err := trace.NewWriter(&b, clockOf)
		require.NoError(t, err)
		for _, e := range change(slices.Clone(whole)) {
			if e.Kind != trace.KindEnd {
				require.NoError(t, w.Write(&e))
			}
		}
		require.NoError(t, w.Close(0, false))
		_, err = Read(&b)
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

// Shrinking keeps what the failure needs, within its bound, and leaves the plan that it was given as it is.
func TestShrink(t *testing.T) {
	p := Draw(101)
	want := clone(p)
	calls := 0
	has := func(p *Plan) bool { // it needs a receive, and after it a message of at least 5 bytes
		calls++
		received := false
		for _, s := range p.Steps {
			received = received || s.Do == Receive
			for _, w := range s.Work {
				if received && w.N >= 5 {
					return true
				}
			}
		}
		return false
	}
	require.True(t, has(p))
	q := Shrink(t.Context(), p, 1000, has)
	require.Equal(t, want, p)
	require.Len(t, q.Steps, 2)
	require.Len(t, q.Steps[1].Work, 1)
	require.LessOrEqual(t, q.Steps[1].Work[0].N, 8)
	calls = 0
	Shrink(t.Context(), p, 10, has)
	require.Equal(t, 10, calls)

	ctx, cancel := context.WithCancel(t.Context())
	calls = 0
	q = Shrink(ctx, p, 1000, func(p *Plan) bool {
		ok := has(p)
		if calls == 5 {
			cancel()
		}
		return ok
	})
	require.Equal(t, 5, calls)
	require.Less(t, len(q.Steps), len(p.Steps))
	require.True(t, has(q))
}
