package fault

import (
	"testing"

	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// acts returns on which of n events of a new source a rule acts.
func acts(t *testing.T, seed Number, m Match, n int) (list []int) {
	t.Helper()
	s, err := NewSet(&Rules{Seed: seed, Rules: []Rule{{Match: m, Stall: Forever}}})
	require.NoError(t, err)
	c := s.Counter(OnWQE, &Source{})
	for i := range n {
		if _, ok := c.Next(&Facts{}, false); ok {
			list = append(list, i+1)
		}
	}
	require.EqualValues(t, len(list), s.Acted(0))
	return list
}

// A rule acts as often as it says.
func TestHowOften(t *testing.T) {
	require.Equal(t, []int{3}, acts(t, 1, Match{Nth: 3}, 10))
	require.Equal(t, []int{3, 6, 9}, acts(t, 1, Match{Every: 3}, 10))
	require.Equal(t, []int{1, 2}, acts(t, 1, Match{Times: 2}, 10))
	require.Equal(t, []int{4, 8}, acts(t, 1, Match{Every: 4, Times: 2}, 20))
	require.Len(t, acts(t, 1, Match{}, 10), 10)
}

// Draws depend on the seed, and their share is the probability.
func TestProbability(t *testing.T) {
	first := acts(t, 7, Match{Probability: 0.25}, 10_000)
	require.InDelta(t, 2500, len(first), 200)
	require.Equal(t, first, acts(t, 7, Match{Probability: 0.25}, 10_000))
	require.NotEqual(t, first, acts(t, 8, Match{Probability: 0.25}, 10_000))
	require.Len(t, acts(t, 7, Match{Probability: 1}, 100), 100)
}

// Only the first rule that acts on an event acts, but the event counts for all.
func TestOneRuleActs(t *testing.T) {
	s, err := NewSet(&Rules{Rules: []Rule{
		{Name: "a", Match: Match{Nth: 2}, RNR: 1},
		{Name: "b", Match: Match{Opcode: Only(wqe.OpSend)}, RNR: 2},
		{Name: "c", Match: Match{Nth: 3}, RNR: 3},
	}})
	require.NoError(t, err)
	c := s.Counter(OnWQE, &Source{})
	require.Nil(t, s.Counter(OnDoorbell, &Source{}))
	var names []string
	for range 3 {
		hit, ok := c.Next(&Facts{Opcode: wqe.OpRDMAWrite}, false)
		names = append(names, "")
		if ok {
			names[len(names)-1] = hit.Rule.Name
		}
	}
	require.Equal(t, []string{"", "a", "c"}, names)
}

// A rule whose event a rule of another set takes has not acted, and acts on the next event that fits.
func TestAnotherSetActs(t *testing.T) {
	s, err := NewSet(&Rules{Rules: []Rule{{Match: Match{Times: 1}, Stall: Forever}, {Match: Match{Nth: 1}, RNR: 1}}})
	require.NoError(t, err)
	c := s.Counter(OnWQE, &Source{})
	_, ok := c.Next(&Facts{}, true)
	require.False(t, ok)
	require.Zero(t, s.Acted(0))
	hit, ok := c.Next(&Facts{}, false)
	require.True(t, ok)
	require.Zero(t, hit.Place)
	require.EqualValues(t, 1, s.Acted(0))
	require.Zero(t, s.Acted(1), "its first event is over")
}
