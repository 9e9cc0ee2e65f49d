package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

// owed is what all users have together.
func (r *rig) owed() bill {
	r.e.shares.mu.Lock()
	defer r.e.shares.mu.Unlock()
	return r.e.shares.taken
}

// A descriptor that does not close holds up its user alone, and what waits counts.
func TestDescriptorsAreClosedPerUser(t *testing.T) {
	r := newRig(t, Config{})
	r.e.shares.most[descriptors] = 8
	stuck, closed := make(chan struct{}), make(chan uint32, 8)
	discard := func(uid uint32, wait <-chan struct{}) error {
		over := r.e.shares.owe(uid, 3)
		r.e.discard(uid, 3, func() {
			if wait != nil {
				<-wait
			}
			closed <- uid
		})
		return over
	}
	require.NoError(t, discard(1, stuck))
	require.Error(t, discard(1, nil), "6 of 8 descriptors")
	require.ErrorIs(t, r.e.shares.take(1, clientBill), &control.Error{Code: control.CodeLimit})
	require.NoError(t, discard(2, nil))
	var order []uint32 // the second of user 1 may get a closer of its own
	for len(order) == 0 || order[len(order)-1] != 2 {
		order = append(order, <-closed)
	}
	require.LessOrEqual(t, len(order), 2)
	close(stuck)
	for len(order) < 3 {
		order = append(order, <-closed)
	}
	r.until("shares are given back", func() bool { return r.owed() == bill{} })
	r.until("and what was beyond them", func() bool { return r.e.shares.owes(1) == bill{} })
}
