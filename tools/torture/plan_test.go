package torture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The same seed and length give the same plan and hash. Another seed or length gives another
// plan.
func TestPlanFollowsFromItsSeed(t *testing.T) {
	a, b := NewPlan(7, 20*time.Second), NewPlan(7, 20*time.Second)
	require.Equal(t, a, b)
	require.Equal(t, a.Hash(), b.Hash())
	seen := map[uint64]uint64{}
	for seed := range uint64(200) {
		p := NewPlan(seed, time.Second)
		require.NotContains(t, seen, p.Hash(), seed)
		seen[p.Hash()] = seed
	}
	c := a
	c.Actions = append([]Action(nil), a.Actions...)
	c.Actions[len(c.Actions)-1].Seed++
	require.NotEqual(t, a.Hash(), c.Hash(), "the hash is of all actions")
}

// For any seed, a plan of a minute kills 100 clients, stops 20 and has all attacks, and every
// plan ends at least two engines. Pauses and slots are in their ranges.
func TestPlanKillsEnough(t *testing.T) {
	for seed := range uint64(100) {
		for _, d := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
			p := NewPlan(seed, d)
			var did [actionKinds]int
			ways, slow := map[Attack]bool{}, map[Attack]bool{}
			length := time.Duration(0)
			for _, a := range p.Actions {
				did[a.Kind]++
				length += a.Pause
				assert.GreaterOrEqual(t, a.Pause, leastPause)
				assert.Less(t, a.Pause, mostPause)
				switch a.Kind {
				case KillClient:
					assert.Less(t, a.Slot, 2*pairs)
				case KillHostile:
					assert.Less(t, a.Slot, hostileSlots)
					ways[a.Attack] = true
					if a.Slot == longSlot {
						assert.GreaterOrEqual(t, a.Attack, Puncher)
						slow[a.Attack] = true
					}
				case PauseHostile:
					assert.Less(t, a.Slot, hostileSlots)
				case PauseClient:
					assert.Less(t, a.Slot, 2*pairs)
				case PausePair:
					assert.Less(t, a.Slot, pairs)
				}
				if a.Kind >= PauseHostile {
					assert.GreaterOrEqual(t, a.Length, leastLength)
					assert.LessOrEqual(t, a.Length, mostLength)
				}
			}
			require.GreaterOrEqual(t, did[KillEngine], 2, "seed %d, %v", seed, d)
			require.LessOrEqual(t, length, d+mostPause*leastStops)
			if d == time.Minute {
				require.GreaterOrEqual(t, did[KillClient]+did[KillHostile], 100, "seed %d", seed)
				require.Len(t, ways, int(attackKinds), "seed %d", seed)
				require.Len(t, slow, int(attackKinds-Puncher), "seed %d", seed)
				require.GreaterOrEqual(t, did[PauseHostile]+did[PauseClient]+did[PausePair], 20, "seed %d", seed)
			}
		}
	}
}
