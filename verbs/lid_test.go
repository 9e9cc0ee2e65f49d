package verbs

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// LIDs follow from the GUID, are those of ports, and are left to others who have them.
func TestChosenLIDs(t *testing.T) {
	const guid = 0x5a4e4cfffe000001
	first := chooseLIDs(guid, 2, nil)
	require.Equal(t, first, chooseLIDs(guid, 2, nil), "they stay")
	require.Equal(t, first, chooseLIDs(guid, 2, []uint16{first - 1, first + 2}), "neighbours are no matter")
	require.Equal(t, first+2, chooseLIDs(guid, 2, []uint16{first, first + 1}))
	require.Equal(t, first+2, chooseLIDs(guid, 2, []uint16{first + 1}))

	r := rand.New(rand.NewPCG(1, 2))
	seen := make(map[uint16]int)
	for range 1000 {
		n := 1 + r.IntN(MaxDevices)
		lid := chooseLIDs(r.Uint64(), n, nil)
		require.GreaterOrEqual(t, lid, uint16(firstLID))
		require.LessOrEqual(t, int(lid)+n, multicastLID)
		seen[chooseLIDs(guid+uint64(len(seen)), 1, nil)]++
	}
	require.Greater(t, len(seen), 900, "engines whose GUIDs follow each other differ, too")

	var all []uint16
	for lid := uint16(firstLID); lid < multicastLID; lid++ {
		if lid != 0x1234 {
			all = append(all, lid)
		}
	}
	require.Equal(t, uint16(0x1234), chooseLIDs(guid, 1, all))
	require.Equal(t, first, chooseLIDs(guid, 2, all), "there is no choice")
}

// A server leaves LIDs to engines that links know when it starts.
func TestLIDsThatAreTaken(t *testing.T) {
	wires := &cable{pool: true}
	a := wires.server(t).s
	b := wires.server(t).s
	require.NotEqual(t, a.devices[0].lid, b.devices[0].lid)
	require.Equal(t, a.devices[0].lid+1, a.devices[1].lid)
	require.Equal(t, []uint16{a.devices[0].lid, a.devices[1].lid}, takenLIDs(b.fabric))
	require.True(t, a.hasLID(a.devices[1].lid))
	require.False(t, a.hasLID(b.devices[0].lid))
}
