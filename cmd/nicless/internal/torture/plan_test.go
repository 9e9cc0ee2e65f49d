package torture

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The same seed and length give the same plan, down to its hash; others do not.
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

// Whatever the seed, a plan of a minute kills 100 clients, stops 20, and has chaos
// clients of all kinds; and every plan ends two engines or more. Pauses and slots are
// in their ranges.
func TestPlanKillsEnough(t *testing.T) {
	for seed := range uint64(100) {
		for _, d := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
			p := NewPlan(seed, d)
			var did [deeds]int
			ways, slow := map[Chaos]bool{}, map[Chaos]bool{}
			length := time.Duration(0)
			for _, a := range p.Actions {
				did[a.Deed]++
				length += a.Pause
				assert.GreaterOrEqual(t, a.Pause, leastPause)
				assert.Less(t, a.Pause, mostPause)
				switch a.Deed {
				case KillClient:
					assert.Less(t, a.Slot, 2*pairs)
				case KillChaos:
					assert.Less(t, a.Slot, chaosSlots)
					ways[a.Chaos] = true
					if a.Slot == longSlot {
						assert.GreaterOrEqual(t, a.Chaos, Puncher)
						slow[a.Chaos] = true
					}
				case PauseChaos:
					assert.Less(t, a.Slot, chaosSlots)
				case PauseClient:
					assert.Less(t, a.Slot, 2*pairs)
				case PausePair:
					assert.Less(t, a.Slot, pairs)
				}
				if a.Deed >= PauseChaos {
					assert.GreaterOrEqual(t, a.Length, leastLength)
					assert.LessOrEqual(t, a.Length, mostLength)
				}
			}
			require.GreaterOrEqual(t, did[KillEngine], 2, "seed %d, %v", seed, d)
			require.LessOrEqual(t, length, d+mostPause*leastStops)
			if d == time.Minute {
				require.GreaterOrEqual(t, did[KillClient]+did[KillChaos], 100, "seed %d", seed)
				require.Len(t, ways, int(chaosKinds), "seed %d", seed)
				require.Len(t, slow, int(chaosKinds-Puncher), "seed %d", seed)
				require.GreaterOrEqual(t, did[PauseChaos]+did[PauseClient]+did[PausePair], 20, "seed %d", seed)
			}
		}
	}
}
