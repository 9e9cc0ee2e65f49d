//go:build linux && (amd64 || arm64)

package recovery

import (
	"testing"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/stretchr/testify/require"
)

// A purse is what a user has left of the device's memory, in portions.
type purse struct{ left int }

func (p *purse) try(bytes int) bool {
	n := bytes / PortionCost
	if n > p.left {
		return false
	}
	p.left -= n
	return true
}

// charged returns a queue pair of a user, and the function that keeps so many more packets at most.
func charged(s *Store, user uint32, p *purse) (q *State, keep func(most int) (n int)) {
	q = NewState(new(Path), 100)
	q.Stretches(s, 1024)
	q.Charge(user, p.try)
	next := uint32(1)
	return q, func(most int) (n int) {
		for n < most {
			if kept, _ := q.Early.Keep(s, &packetring.Packet{}, 0, next, 1, 0); !kept {
				break
			}
			n++
			next++
		}
		return n
	}
}

// A user pays for what its queue pairs keep, in portions, and has it back when they have left.
func TestUsersPayForEarlyPackets(t *testing.T) {
	s, p := NewStore(), &purse{left: 3}
	q, keep := charged(&s, 7, p)
	require.Equal(t, portion, keep(portion))
	require.Equal(t, 2, p.left)
	other, keepOther := charged(&s, 7, p)
	require.Equal(t, portion+portion/2, keepOther(portion+portion/2))
	require.Equal(t, 0, p.left)
	require.Equal(t, portion/2, keep(portion), "the user can have no more")
	require.Zero(t, q.Early.Room(&s, 1024))

	other.Early.Clear(&s)
	require.Equal(t, 0, p.left, "a portion is left")
	q.Early.Clear(&s)
	require.Equal(t, 2, p.left)
	_, owed := other.Leave()
	require.Zero(t, owed)
	user, owed := q.Leave()
	require.EqualValues(t, 7, user)
	require.Equal(t, PortionCost, owed)
	require.Empty(t, s.accounts)
}

// A user that could not pay for a portion keeps packets again when it can: its other memory was freed, or the
// ledger was in use at that moment.
func TestUserPaysAgainAfterARefusal(t *testing.T) {
	s, p := NewStore(), &purse{}
	q, keep := charged(&s, 7, p)
	require.Zero(t, keep(1))
	require.Zero(t, q.Early.Room(&s, 1024))
	p.left = 2
	require.Equal(t, 10, keep(10))
	require.NotZero(t, q.Early.Room(&s, 1024))
	require.Equal(t, 1, p.left)
}

// A user keeps no more than it leaves free, however many queue pairs it has.
func TestOneUserLeavesHalfOfTheMemory(t *testing.T) {
	s, p := NewStore(), &purse{left: mostEarly}
	s.packets = s.packets[:4096]
	for range 32 {
		_, keep := charged(&s, 7, p)
		keep(Reach)
	}
	require.Equal(t, 2048, s.taken)
	_, keep := charged(&s, 8, p)
	require.Equal(t, 410, keep(Reach), "a queue pair keeps a quarter of what is left")
}

// A queue pair goes to another user with what it keeps.
func TestEarlyPacketsOfAnotherUser(t *testing.T) {
	s, p, other := NewStore(), &purse{left: 3}, &purse{left: 3}
	q, keep := charged(&s, 7, p)
	keep(10)
	user, owed := q.Charge(8, other.try)
	require.EqualValues(t, 7, user)
	require.Equal(t, PortionCost, owed)
	require.Equal(t, 10, s.accounts[8].taken)
	keep(1)
	require.Equal(t, 2, other.left)
	q.Early.Clear(&s)
	user, owed = q.Leave()
	require.EqualValues(t, 8, user)
	require.Equal(t, PortionCost, owed)
	require.Empty(t, s.accounts)
}

// The memory is given back after a quiet time. Until that is done, nothing is kept.
func TestMemoryIsGivenBack(t *testing.T) {
	s, p := NewStore(), &purse{left: 3}
	now, quiet := uint64(1), clock.Cycles(quietTime)
	require.Nil(t, s.Rest(now), "nothing was kept")
	q, keep := charged(&s, 7, p)
	keep(5)
	for range 3 {
		now += 2 * quiet
		require.Nil(t, s.Rest(now), "packets are kept")
	}
	q.Early.Clear(&s)
	require.Nil(t, s.Rest(now))
	keep(1)
	q.Early.Clear(&s)
	require.Nil(t, s.Rest(now+quiet), "it was not quiet")
	require.Nil(t, s.Rest(now+2*quiet-1))
	unused := s.Rest(now + 2*quiet)
	require.Len(t, unused, 5*piece)
	require.Nil(t, s.Rest(now+9*quiet), "it is being given back")
	require.Zero(t, keep(1))
	require.Equal(t, 2, p.left)
	s.Rested()
	require.Equal(t, 3, p.left)
	require.Equal(t, 7, keep(7))
	require.Equal(t, 7, s.used)
}

// A refund that was impossible when the memory was given back, because the ledger was in use, is made later.
func TestRefundIsTriedAgain(t *testing.T) {
	s, p := NewStore(), &purse{left: 3}
	now, quiet, busy := uint64(1), clock.Cycles(quietTime), false
	q, keep := charged(&s, 7, p)
	s.accounts[7].try = func(bytes int) bool { return !busy && p.try(bytes) }
	keep(1)
	q.Early.Clear(&s)
	require.Nil(t, s.Rest(now))
	require.NotNil(t, s.Rest(now+quiet))
	busy = true
	s.Rested()
	require.Equal(t, 2, p.left)
	busy = false
	require.Nil(t, s.Rest(now+2*quiet))
	require.Equal(t, 3, p.left)
}
