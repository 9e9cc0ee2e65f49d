package engine

import (
	"fmt"
	"os"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

// The log names a client by what the kernel says of it; what it says of itself
// stands beside that, in quotes, and is said once.
func TestAClientDoesNotNameItself(t *testing.T) {
	r := newRig(t, Config{})
	c := r.dial(r.serve())
	forged := hello
	forged.Name = "pid 1 uid 0\nroot"
	require.Nil(t, c.call(control.OpHello, &forged, &control.Welcome{}))
	var name string
	r.e.Do(func() {
		for c := range r.e.clients {
			name = c.name
		}
	})
	require.Equal(t, fmt.Sprintf(`pid %d uid %d "pid 1 uid 0?root"`, os.Getpid(), os.Getuid()), name)
	again := c.call(control.OpHello, &hello, &control.Welcome{})
	require.Equal(t, control.CodeInvalid, again.Code)
	require.Contains(t, again.Text, "twice")
	require.Nil(t, c.call(control.OpAllocPD, &control.Empty{}, &control.PD{}), "the connection goes on")
}

// Ids begin again after 2^32 of them, without 0 and without those in use.
func TestIDsGoRound(t *testing.T) {
	h := newRig(t, Config{}).host("h")
	ids := map[uint32]bool{0: true, h.region: true, h.pd: true}
	_, ans := h.socketAnd(control.OpCreateChannel)
	ids[ans.(*control.Channel).ID] = true
	have := len(ids)
	h.c.nextID = 1<<32 - 2
	for range 8 {
		id := h.allocPD()
		require.False(t, ids[id], "id %d", id)
		ids[id] = true
	}
	require.Len(t, ids, have+8)
	require.Less(t, h.c.nextID, uint32(16))
}
