package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

// After 2^32 ids, ids begin again. 0 and ids that are in use are left out.
func TestIDsGoRound(t *testing.T) {
	h := newRig(t, Config{}).host("h")
	ids := map[uint32]bool{0: true, h.region: true, h.pd: true}
	_, ans := h.socketAnd(control.OpCreateChannel)
	ids[ans.(*control.Channel).ID] = true
	have := len(ids)
	h.c.NextID = 1<<32 - 2
	for range 8 {
		id := h.allocPD()
		require.False(t, ids[id], "id %d", id)
		ids[id] = true
	}
	require.Len(t, ids, have+8)
	require.Less(t, h.c.NextID, uint32(16))
}
