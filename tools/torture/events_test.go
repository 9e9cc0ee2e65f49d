//go:build linux && (amd64 || arm64)

package torture

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/stretchr/testify/require"
)

// newRun returns a run that has not begun, and the end of a process of it that has the order to end.
func newRun(t *testing.T, spec Spec) (*run, event) {
	t.Helper()
	b, err := newBoard()
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.mem.Close() })
	cmd := exec.Command("true")
	require.NoError(t, cmd.Run())
	p := &process{spec: spec, cmd: cmd, name: "it", ending: true}
	b.setPID(spec.slot(), cmd.Process.Pid)
	return &run{board: b, all: map[*process]struct{}{p: {}}, events: make(chan event, 4)}, event{p: p, exit: cmd.ProcessState}
}

// When clients have the order to end, those that have done so are no evidence of later waits: nothing is
// known of them, so no wait could be decided. Before that, another process takes the place of one that has
// ended.
func TestEndedClientsAreNoEvidence(t *testing.T) {
	r, end := newRun(t, Spec{Role: roleClient})
	require.NoError(t, r.handle(end))
	require.Equal(t, []int{end.p.cmd.Process.Pid}, r.board.correct())
	r.leaving = true
	require.NoError(t, r.handle(end))
	require.Empty(t, r.board.correct())

	r.board.setPID(end.p.spec.slot(), 1) // another process has the slot
	require.NoError(t, r.handle(end))
	require.Equal(t, []int{1}, r.board.correct())
}

// Corruption counts, also if it is reported by a process that has the order to end, or when the run ends for
// another reason.
func TestLateCorruptionCounts(t *testing.T) {
	told := func(k verdict.Kind) Report { return Report{Is: isFault, Last: true, Fault: &verdict.Fault{Kind: k}} }
	r, end := newRun(t, Spec{Role: roleVisitor})
	require.NoError(t, r.handle(event{p: end.p, report: told(verdict.NoAnswer)}))
	require.Empty(t, r.result.Faults)
	require.ErrorIs(t, r.handle(event{p: end.p, report: told(verdict.WrongBytes)}), errFault)
	require.Equal(t, verdict.WrongBytes, verdict.Worst(r.result.Faults))

	r, end = newRun(t, Spec{Role: roleVisitor})
	r.events <- event{p: end.p, report: told(verdict.NoAnswer)}
	r.events <- event{p: end.p, report: told(verdict.Lost)}
	r.events <- end
	r.end()
	require.Len(t, r.result.Faults, 1)
	require.Equal(t, verdict.Lost, r.result.Faults[0].Kind)
	require.Equal(t, "it", r.result.Faults[0].Who)
}

// The end of an engine is no excuse for wrong bytes, and for calls that had no answer before.
func TestWhatTheEndOfAnEngineExcuses(t *testing.T) {
	fault := func(k verdict.Kind) error { return fmt.Errorf("said: %w", &verdict.Fault{Kind: k}) }
	require.True(t, outlives(fault(verdict.WrongBytes)))
	require.False(t, outlives(fault(verdict.Failed)))
	require.False(t, outlives(errors.Join(nicless.ErrDeviceGone)))
	require.False(t, outlives(nil))
}
