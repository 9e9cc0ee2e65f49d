package programs

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A share is the part of the combinations that a run takes: those whose number, divided by of, leaves
// part. All programs in all modes and places take half an hour of a slow machine. So each commit runs one
// half of the combinations, in which every program is, and the next commit runs the other half.
type share struct{ part, of int }

// shared is the share of this run. Without -share it is everything.
var shared = share{0, 1}

func init() {
	flag.Var(&shared, "share", "`I/N`: of the combinations of a program and a place, only each N-th from the I-th on, counted from 0")
}

// has reports whether the combination with the sum of these indices belongs to the share.
func (s share) has(indices ...int) bool {
	sum := 0
	for _, i := range indices {
		sum += i
	}
	return sum%s.of == s.part
}

func (s *share) String() string { return fmt.Sprintf("%d/%d", s.part, s.of) }

func (s *share) Set(text string) error {
	var n share
	if _, err := fmt.Sscanf(text, "%d/%d", &n.part, &n.of); err != nil || n.String() != text {
		return fmt.Errorf("two numbers are needed, such as 0/2")
	}
	if n.of < 1 || n.part < 0 || n.part >= n.of {
		return fmt.Errorf("part %d of %d; 0 to %d are possible", n.part, n.of, n.of-1)
	}
	*s = n
	return nil
}

// The shares of a matrix are apart, and together they are all of it.
func TestShare(t *testing.T) {
	for _, of := range []int{1, 2, 3} {
		for row := range 5 {
			for place := range 4 {
				in := 0
				for part := range of {
					var s share
					require.NoError(t, s.Set(fmt.Sprintf("%d/%d", part, of)))
					if s.has(row, place) {
						in++
					}
				}
				require.Equal(t, 1, in, "row %d, place %d, of %d shares", row, place, of)
			}
		}
	}
	for _, wrong := range []string{"", "1", "2/2", "-1/2", "0/0", "a/b", "0/2x"} {
		require.Error(t, new(share).Set(wrong), wrong)
	}
}
