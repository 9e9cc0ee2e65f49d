package journal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A testBudget is a budget whose clock the test sets.
type testBudget struct {
	*Budget
	second time.Duration
}

func newTestBudget(most int) *testBudget {
	b := &testBudget{Budget: NewBudget(most, time.Second)}
	b.SetClock(func() time.Duration { return b.second * time.Second })
	return b
}

// try calls Take for n lines. It returns how many lines may be written, and the sum of the
// counts of lines held back.
func (b *testBudget) try(n int, user uint32, who *Speaker) (written, held int) {
	for range n {
		if more, ok := b.Take(user, who); ok {
			written++
			held += more
		}
	}
	return written, held
}

// Each user has a part of the lines, no matter how many lines other users cause. Each line
// that is held back is counted once.
func TestUsersHaveParts(t *testing.T) {
	b := newTestBudget(64)
	total, unsaid, tries := 0, 0, 0
	try := func(user uint32) int {
		said, held := b.try(100, user, nil)
		total, unsaid, tries = total+said, unsaid+held, tries+100
		return said
	}
	require.Equal(t, []int{32, 16, 8}, []int{try(1), try(2), try(3)})
	require.Zero(t, try(1))
	require.NotZero(t, try(4))
	for user := range uint32(5000) {
		try(100 + user)
	}
	require.LessOrEqual(t, total, 64)
	require.LessOrEqual(t, len(b.accounts), 64, "accounts")
	b.second = 2
	require.Equal(t, 32, try(1))
	b.second = 4
	try(7)
	b.second = 6
	try(1)
	b.second = 8
	_, held := b.try(1, 9, nil)
	b.second = 10
	_, more := b.try(1, 9, nil)
	require.Equal(t, tries-total, unsaid+held+more, "what was held back and what was said to be")
	require.Len(t, b.accounts, 1)
}

// A speaker leaves lines to the other speakers of its user.
func TestSpeakersHaveParts(t *testing.T) {
	b := newTestBudget(64)
	var one, two Speaker
	said, _ := b.try(1000, 1, &one)
	require.Equal(t, 16, said)
	said, unsaid := b.try(1000, 1, &two)
	require.Equal(t, []int{8, 984}, []int{said, unsaid})
	said, _ = b.try(1000, 2, new(Speaker))
	require.Equal(t, 16, said)
	b.second++
	said, unsaid = b.try(1, 1, &one)
	require.Equal(t, []int{1, 992}, []int{said, unsaid})
}

// EndPeriod begins another period, just as the passing of time does.
func TestEndPeriod(t *testing.T) {
	b := newTestBudget(64)
	said, _ := b.try(100, 1, nil)
	require.Equal(t, 32, said)
	b.EndPeriod()
	said, unsaid := b.try(100, 1, nil)
	require.Equal(t, []int{32, 68}, []int{said, unsaid})
}
