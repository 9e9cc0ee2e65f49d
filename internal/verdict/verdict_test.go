package verdict

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms1 = time.Millisecond

func TestKinds(t *testing.T) {
	status := map[Kind]int{OK: 0, Undecided: 7, Stall: 5, NoAnswer: 6, Failed: 4, Leaked: 3, Repeated: 3, Lost: 3, WrongBytes: 3}
	require.Len(t, status, int(kinds))
	for k, want := range status {
		require.Equal(t, want, k.Status(), k)
		require.Equal(t, want == 3, k.Corruption(), k)
		b, err := json.Marshal(k)
		require.NoError(t, err)
		var back Kind
		require.NoError(t, json.Unmarshal(b, &back))
		require.Equal(t, k, back)
	}
	var k Kind
	require.ErrorContains(t, k.UnmarshalText([]byte("good")), `"good" is not a kind`)
	require.Equal(t, "kind 200", Kind(200).String())
}

// A corruption stays the verdict, whatever else could not be decided.
func TestTheWorstIsTheVerdict(t *testing.T) {
	require.Equal(t, OK, Worst(nil))
	f := []*Fault{New(Undecided, "", ""), New(Stall, "", "")}
	require.Equal(t, Stall, Worst(f))
	f = append(f, New(Leaked, "", ""), New(NoAnswer, "", ""))
	require.Equal(t, Leaked, Worst(f))
	n := Counts(f)
	require.Equal(t, 1, n[Leaked])
	require.Contains(t, n, WrongBytes)
	require.NotContains(t, n, OK)
	require.Equal(t, "NOT OK: corruption (leaked)", Title(Leaked))
}

func TestEvidenceIsJudged(t *testing.T) {
	const second = time.Second
	for name, row := range map[string]struct {
		e    Evidence
		wait Kind // of a wait with the bound of a stall
		late Kind // of a deadline
	}{
		"nothing explains it":         {Evidence{Took: second}, Stall, NoAnswer},
		"the engine had no core":      {Evidence{Took: second, Engine: Times{Waited: 960 * ms1}}, OK, Undecided},
		"it had a twentieth":          {Evidence{Took: 10 * second, Engine: Times{Waited: 9400 * ms1}}, Stall, NoAnswer},
		"it had less":                 {Evidence{Took: 10 * second, Engine: Times{Waited: 9600 * ms1}}, Undecided, Undecided},
		"the client had no core":      {Evidence{Took: 10 * second, Client: Times{Waited: 9600 * ms1}}, Undecided, Undecided},
		"its peer had none":           {Evidence{Took: 10 * second, Peer: Times{Waited: 9600 * ms1}}, Undecided, Undecided},
		"a page on a busy disk":       {Evidence{Took: 200 * ms1, Engine: Times{Blocked: 168 * ms1}}, OK, NoAnswer},
		"blocked for too long":        {Evidence{Took: 2 * second, Engine: Times{Blocked: 2 * second}}, Stall, NoAnswer},
		"the test stopped the client": {Evidence{Took: 2 * second, Stopped: 1950 * ms1}, OK, NoAnswer},
		"the hypervisor took cores":   {Evidence{Took: second, Steal: 960 * ms1}, OK, Undecided},
		"a suspension":                {Evidence{Took: second, Suspended: 5 * second}, Undecided, Undecided},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, Undecided, row.e.Decide(NoAnswer), "nobody knows")
			row.e.Known = true
			require.Equal(t, row.wait, row.e.DecideWait(100*ms1))
			require.Equal(t, row.late, row.e.Decide(NoAnswer))
			require.NotEmpty(t, row.e.String())
		})
	}
}

type timeout struct{}

func (timeout) Error() string { return "late" }
func (timeout) Timeout() bool { return true }

func TestFromError(t *testing.T) {
	e := Evidence{Took: time.Second, Known: true}
	require.Equal(t, NoAnswer, FromError(fmt.Errorf("call: %w", timeout{}), e).Kind)
	require.Equal(t, Failed, FromError(errors.New("refused"), e).Kind)
	f := FromError(fmt.Errorf("flow 1: %w", New(Lost, "one", "none")), e)
	require.Equal(t, Lost, f.Kind)
	require.Equal(t, e, *f.Evidence)
	require.Equal(t, "lost: none; expected: one", f.Error())
	f.Who = "a client"
	require.Contains(t, f.String(), "a client: lost: none; expected: one (took 1000.0 ms; engine ran 0.0 ms")
	require.Nil(t, Of(errors.New("x")))
}

// A wait during which the machine was suspended is undecided.
func TestSuspensionIsNoticed(t *testing.T) {
	real := Suspended
	defer func() { Suspended = real }()
	require.GreaterOrEqual(t, Suspended(), time.Duration(0))
	at := time.Duration(0)
	Suspended = func() time.Duration { return at }
	w := NewWitness(1, func() []int { return []int{os.Getpid()} })
	defer w.Close()
	m := w.Begin()
	at = time.Minute
	e := w.Since(m)
	require.Equal(t, time.Minute, e.Suspended)
	require.Equal(t, Undecided, e.Decide(NoAnswer))
	require.Contains(t, e.String(), "suspended")
}

func TestLoad(t *testing.T) {
	var l Load
	require.EqualValues(t, 1, l.Share(), "nobody wanted a core")
	l.Look([]int{os.Getpid(), 1 << 30})
	if l.Ran == 0 {
		t.Skip("this kernel does not count")
	}
	l.Ran, l.Waited = time.Second, 18*time.Second
	require.Nil(t, l.Check("the engine"))
	l.Waited = 20 * time.Second
	f := l.Check("the engine")
	require.Equal(t, Undecided, f.Kind)
	require.Contains(t, f.String(), "the engine: not judged: a core in 4.8%")
}

// Another process that is gone is not known.
func TestReplacedEngineIsNotKnown(t *testing.T) {
	var pid atomic.Int64 // the sampler reads it too
	pid.Store(int64(os.Getpid()))
	w := NewWitness(1, func() []int { return []int{int(pid.Load())} })
	defer w.Close()
	m := w.Begin()
	require.True(t, w.Since(m).Known)
	pid.Store(1 << 30)
	require.False(t, w.Since(m).Known)
	require.True(t, w.Alone(m).Known)
	require.False(t, w.Since(Mark{}).Known)
}
