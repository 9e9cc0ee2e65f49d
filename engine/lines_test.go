package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// A linesBed is a budget whose clock the test moves.
type linesBed struct {
	*lines
	second time.Duration
}

func newLinesBed(most int) *linesBed {
	b := &linesBed{lines: newLines(most, time.Second)}
	b.past = func() time.Duration { return b.second * time.Second }
	return b
}

// try says n lines, and returns how many were written and the counts that were
// said with them.
func (b *linesBed) try(n int, user uint32, who *nic.Speaker) (said, unsaid int) {
	for range n {
		if held, ok := b.spend(user, who); ok {
			said++
			unsaid += held
		}
	}
	return said, unsaid
}

// Each user has a part of the lines, whatever others say, and each line that is not
// written is counted once.
func TestLinesOfUsers(t *testing.T) {
	b := newLinesBed(64)
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
	require.LessOrEqual(t, len(b.users), 64, "accounts")
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
	require.Len(t, b.users, 1)
}

// A client of a user leaves lines to the user's others.
func TestLinesOfClients(t *testing.T) {
	b := newLinesBed(64)
	var one, two nic.Speaker
	said, _ := b.try(1000, 1, &one)
	require.Equal(t, 16, said)
	said, unsaid := b.try(1000, 1, &two)
	require.Equal(t, []int{8, 984}, []int{said, unsaid})
	said, _ = b.try(1000, 2, new(nic.Speaker))
	require.Equal(t, 16, said)
	b.second++
	said, unsaid = b.try(1, 1, &one)
	require.Equal(t, []int{1, 992}, []int{said, unsaid})
}
