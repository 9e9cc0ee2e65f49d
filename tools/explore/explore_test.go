//go:build linux && (amd64 || arm64)

package explore

import (
	"bytes"
	"testing"

	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// seeds is how many plans a test runs.
func seeds() uint64 { return uint64(explore.Rounds(150, 2000)) }

// The device does nothing wrong, whatever is drawn. Each plan is executed twice: the same events come, at
// the same virtual times, with the same bytes. So a trace can be repeated.
func TestExplore(t *testing.T) {
	var all Counts
	for seed := range seeds() {
		p := Draw(seed)
		require.NoError(t, p.Check(), "seed %d", seed)
		o, err := Execute(p)
		require.NoError(t, err, "seed %d", seed)
		require.Nil(t, o.Fault, "seed %d", seed)
		r := &Record{Plan: p, Events: o.Events}
		_, diff, err := r.Repeat()
		require.NoError(t, err, "seed %d", seed)
		require.Nil(t, diff, "seed %d", seed)
		all.Work += o.Seen.Work
		all.Errors += o.Seen.Errors
		all.Completions += o.Seen.Completions
	}
	require.Greater(t, all.Work, int(seeds())*20)
	require.NotZero(t, all.Errors)
}

func TestDrawIsTheSameEverywhere(t *testing.T) {
	a, b := Draw(7), Draw(7)
	require.Equal(t, a, b)
	require.NotEqual(t, a, Draw(8))
}

// plants are faults that must be found, in at most so many seeds.
var plants = map[string]struct {
	plant Plant
	seeds int
	kinds []verdict.Kind
}{
	"a completion is lost":     {Plant{Lose: 20}, 20, []verdict.Kind{verdict.Lost, verdict.NoAnswer}},
	"a completion is repeated": {Plant{Repeat: 20}, 20, []verdict.Kind{verdict.Repeated}},
	"a bit of the payload is wrong": {Plant{Rules: rules(fault.Rule{Match: fault.Match{Nth: 2}, Flip: &fault.Flip{}})},
		20, []verdict.Kind{verdict.WrongBytes}},
	"a wrong status": {Plant{Rules: rules(fault.Rule{Match: fault.Match{Nth: 3},
		Complete: &fault.Complete{Syndrome: 0x14}})}, 20, []verdict.Kind{verdict.WrongBytes}},
	"a doorbell is lost": {Plant{Rules: rules(fault.Rule{Match: fault.Match{Probability: 0.5},
		Doorbell: fault.Doorbell{Drop: true}})}, 20, []verdict.Kind{verdict.NoAnswer}},
	"a queue stands still": {Plant{Rules: rules(fault.Rule{Match: fault.Match{Nth: 5}, Stall: fault.Forever})},
		20, []verdict.Kind{verdict.NoAnswer}},
	"an acknowledgement is lost for ever": {Plant{Rules: rules(fault.Rule{Match: fault.Match{Nth: 4}, LoseAnswer: fault.All})},
		20, []verdict.Kind{verdict.WrongBytes}},
	"a datagram is lost": {Plant{Rules: rules(fault.Rule{Match: fault.Match{Transport: fault.On(wqe.UD), Nth: 2},
		LoseRequest: 1})}, 100, []verdict.Kind{verdict.Lost}},
	"a WRITE without acknowledgement is lost": {Plant{Rules: rules(fault.Rule{Match: fault.Match{
		Transport: fault.On(wqe.UC), Opcode: fault.Only(wqe.OpRDMAWrite)}, LoseRequest: 1})},
		100, []verdict.Kind{verdict.Lost}},
	"the peer goes to error": {Plant{Rules: rules(fault.Rule{Match: fault.Match{Nth: 4}, Disconnect: true})},
		20, []verdict.Kind{verdict.WrongBytes}},
}

// mostShrunk is how many steps of a plan may be left. Some of these faults come at the fifth work request.
const mostShrunk = 6

func rules(r ...fault.Rule) *fault.Rules { return &fault.Rules{Seed: 1, Rules: r} }

// Faults that are planted are found, their traces are repeated to the last byte, and few steps are left of
// their plans.
func TestPlanted(t *testing.T) {
	for name, x := range plants {
		t.Run(name, func(t *testing.T) {
			r, err := Explore(t.Context(), Config{Runs: x.seeds, Shrink: true, Planted: &x.plant})
			require.NoError(t, err)
			require.NotNil(t, r.Fault, "not found in %d seeds", x.seeds)
			require.Contains(t, x.kinds, r.Verdict, r.Fault)
			require.LessOrEqual(t, r.Shrunk, mostShrunk, "%v", r.Record.Plan.Steps)
			t.Logf("seed %d: %v; %s", *r.Failed, r.Fault, r.plan())

			var b bytes.Buffer
			require.NoError(t, r.Record.Write(&b))
			back, err := Read(&b)
			require.NoError(t, err)
			_, diff, err := back.Repeat()
			require.NoError(t, err)
			require.Nil(t, diff)
			require.Equal(t, r.Fault, back.Fault)
		})
	}
}

// A panic of the device is a fault like others: with its seed, and its trace comes again.
func TestPanic(t *testing.T) {
	p := Draw(3)
	p.Steps = append(p.Steps[:5:5], Step{Do: Poll, QP: len(p.Links) * 2}) // Check would refuse it
	o, err := Execute(p)
	require.NoError(t, err)
	require.Equal(t, verdict.Failed, o.Fault.Kind)
	require.Regexp(t, `^a panic: runtime error: index out of range.*, in explore.\(\*world\).do \(do.go:\d+\), explore.Execute \(run.go:\d+\)$`, o.Fault.Found)
	again, err := Execute(p)
	require.NoError(t, err)
	require.Equal(t, o.Fault, again.Fault)
	require.Equal(t, o.Events, again.Events)
}

// Seeds do not wrap around.
func TestSeeds(t *testing.T) {
	r, err := Explore(t.Context(), Config{Seed: MostSeed, Runs: 1})
	require.NoError(t, err)
	require.Nil(t, r.Failed)
	_, err = Explore(t.Context(), Config{Seed: MostSeed + 1, Runs: 1})
	require.ErrorContains(t, err, "explore: seed 18446744072635809792; at most 18446744072635809791 is possible")
}
