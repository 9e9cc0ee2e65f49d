//go:build linux && (amd64 || arm64)

package web

import (
	"path/filepath"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cmd/nicless/internal/enginetest"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

// rulesOf returns how many rules of faults an engine obeys, and how many clients it has.
func rulesOf(t *testing.T, path string) (rules, clients int) {
	t.Helper()
	s, err := state.Read(await.Context(t), path, state.Request{})
	require.NoError(t, err)
	return s.Device.Faults, s.Device.Clients
}

// A context of an engine that has ended is closed by what comes next: a question, other rules, or none. Then
// the rules are those of the engine that is there.
func TestRulesOfAnEngineThatEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	for name, next := range map[string]struct {
		do    func(*ruleset) error
		rules int // of the next engine, then
	}{
		"now": {func(s *ruleset) error {
			f, err := s.now()
			require.NoError(t, err)
			require.False(t, f.On)
			require.Empty(t, f.Rules)
			require.Equal(t, rules, f.Text, "the page can offer them again")
			return nil
		}, 0},
		"off": {(*ruleset).off, 0},
		"set": {func(s *ruleset) error { return s.set(rules) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			stop := enginetest.Run(t, path, nicless.Config{})
			s := &ruleset{socket: path}
			require.NoError(t, s.set(rules))
			on, clients := rulesOf(t, path)
			require.Equal(t, []int{1, 1}, []int{on, clients})
			old := s.c
			stop()
			await.Until(t, "the context knows it", func() bool { return gone(old) })

			defer enginetest.Run(t, path, nicless.Config{})()
			require.NoError(t, next.do(s))
			require.NotSame(t, old, s.c)
			_, err := old.AllocPD()
			require.ErrorIs(t, err, nicless.ErrClosed, "nothing of it is left")
			on, clients = rulesOf(t, path)
			require.Equal(t, []int{next.rules, next.rules}, []int{on, clients})
			require.NoError(t, s.off())
			await.Until(t, "no rules", func() bool { on, clients = rulesOf(t, path); return on == 0 && clients == 0 })
		})
	}
}

// Rules take the place of others in one step, by the same context, and wrong ones change nothing.
func TestRulesAreReplaced(t *testing.T) {
	path := enginetest.Serve(t)
	s := &ruleset{socket: path}
	require.NoError(t, s.set(rules))
	c := s.c
	require.ErrorContains(t, s.set("nonsense"), "rules")
	require.NoError(t, s.set(rules+"  - match: {opcode: RDMA_WRITE, nth: 1}\n    stall: 1ms\n"))
	require.Same(t, c, s.c)
	f, err := s.now()
	require.NoError(t, err)
	require.Len(t, f.Rules, 2)
	on, clients := rulesOf(t, path)
	require.Equal(t, []int{2, 1}, []int{on, clients})
	require.NoError(t, s.off())
	require.NoError(t, s.off(), "there is nothing to switch off")
}
