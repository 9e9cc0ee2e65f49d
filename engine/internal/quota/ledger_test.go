package quota

import (
	"os"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

var refused = &control.Error{Code: control.CodeLimit}

// A user gets no more than it leaves free: the first user gets half of everything, the second
// half of the rest, and so on.
func TestUserLeavesAsMuchAsItHas(t *testing.T) {
	l := New(os.DirFS("/"))
	l.limits = Charge{Mappings: 20, Descriptors: 6, Connections: 8, Memory: 8 << 10}
	client := Charge{Mappings: 2, Descriptors: 2, Connections: 1, Memory: 1 << 10}

	require.NoError(t, l.Take(1, client))
	require.ErrorIs(t, l.Take(1, client), refused, "4 of 6 descriptors")
	require.Equal(t, client, l.Taken(), "a refusal charges nothing")
	require.NoError(t, l.Take(1, Charge{Mappings: 8}))
	require.ErrorContains(t, l.Take(1, Charge{Mappings: 1}), "user 1 has 10 mappings of the device's process and asks for 1 more; 10 of 20 are free, and a user may have no more than it leaves free (vm.max_map_count is")
	require.NoError(t, l.Take(2, Charge{Mappings: 5}))
	require.ErrorContains(t, l.Take(2, Charge{Mappings: 1}), "user 2 has 5 mappings of the device's process and asks for 1 more; 5 of 20 are free")
	require.NoError(t, l.Take(3, Charge{Mappings: 2}))
	require.NoError(t, l.Take(4, Charge{Mappings: 1}))
	require.ErrorIs(t, l.Take(3, Charge{Mappings: 1}), refused)
	require.NoError(t, l.Take(5, Charge{Mappings: 1}))
	require.Equal(t, client.Plus(Charge{Mappings: 8}), l.Has(1))
	require.Equal(t, 5, l.Users())

	l.Refund(5, Charge{Mappings: 1})
	l.Refund(4, Charge{Mappings: 1})
	l.Refund(3, Charge{Mappings: 2})
	l.Refund(2, Charge{Mappings: 5})
	l.Refund(1, Charge{Mappings: 8})
	l.Refund(1, client)
	require.Equal(t, Charge{}, l.Taken())
	require.Zero(t, l.Users())
}

// A user that has used up its part can still send a message with a descriptor. The excess over the
// user's part is a debt, which does not reduce what others may have.
func TestDebts(t *testing.T) {
	l := New(os.DirFS("/"))
	l.limits[Descriptors] = 64
	require.NoError(t, l.Take(1, Charge{Descriptors: 32}))
	require.NoError(t, l.Incur(1, Charge{Descriptors: 4}))
	require.ErrorContains(t, l.Incur(1, Charge{Descriptors: 1}), "user 1 has 37 descriptors, with those that wait to be closed; 32 of 64 are free, and a user may have no more than it leaves free (ulimit -n, RLIMIT_NOFILE, is ")
	require.Equal(t, 32, l.Taken()[Descriptors], "others have theirs")
	require.Equal(t, 37, l.Has(1)[Descriptors])
	require.NoError(t, l.Take(2, Charge{Descriptors: 16}))
	require.ErrorIs(t, l.Take(1, Charge{Descriptors: 1}), refused)
	l.Refund(1, Charge{Descriptors: 37})
	l.Refund(2, Charge{Descriptors: 16})
	require.Equal(t, Charge{}, l.Taken())
	require.Empty(t, l.debts)
	require.Zero(t, l.Users())
}

// Refunds for a uid go to the user that paid for it, even if the ranges have changed in
// between.
func TestRangesChangeWhileInUse(t *testing.T) {
	l := New(os.DirFS("/"))
	l.owners = ownersOf(t, "alice:100000:10\n")
	l.limits[Descriptors] = 32
	require.NoError(t, l.Take(100_001, Charge{Descriptors: 8}))
	require.NoError(t, l.Take(1000, Charge{Descriptors: 8}))
	require.ErrorContains(t, l.Take(100_002, Charge{Descriptors: 1}), "user 1000, to whom /etc/subuid gives uid 100002, has 16 descriptors")
	require.NoError(t, l.Take(2000, Charge{Descriptors: 1}))
	require.EqualValues(t, 1000, l.Payer(100_001))
	require.NoError(t, os.Remove(l.owners.subuid))
	require.Error(t, l.Take(100_001, Charge{Descriptors: 1}))
	require.NoError(t, l.Take(100_002, Charge{Descriptors: 1}), "a user of its own now")
	for uid, n := range map[uint32]int{100_001: 8, 1000: 8, 100_002: 1, 2000: 1} {
		l.Refund(uid, Charge{Descriptors: n})
	}
	require.Equal(t, Charge{}, l.Taken())
	require.Empty(t, l.users)
	require.Empty(t, l.others)
}

// Try charges what Take would, without an error, and does not wait.
func TestTry(t *testing.T) {
	l := New(os.DirFS("/"))
	l.limits = Charge{Descriptors: 6, Memory: 8}
	require.False(t, l.Try(1, Charge{Memory: 1}), "nothing is charged to the user")
	require.NoError(t, l.Take(1, Charge{Memory: 1}))
	require.True(t, l.Try(1, Charge{Memory: 3}))
	require.False(t, l.Try(1, Charge{Memory: 1}), "4 of 8")
	require.True(t, l.Try(1, Charge{Memory: -3}))
	require.Equal(t, Charge{Memory: 1}, l.Taken())
	l.mu.Lock()
	require.False(t, l.Try(1, Charge{Memory: 1}), "another goroutine uses it")
	l.mu.Unlock()
	require.True(t, l.Try(1, Charge{Memory: 1}))
}
