package share

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The shares of a matrix are apart, and together they are all of it.
func TestShare(t *testing.T) {
	for _, of := range []int{1, 2, 3, 4} {
		for row := range 5 {
			for place := range 4 {
				in := 0
				for i := range of {
					var p part
					require.NoError(t, p.Set(fmt.Sprintf("%d/%d", i, of)))
					if p.has(row, place) {
						in++
					}
				}
				require.Equal(t, 1, in, "row %d, place %d, of %d shares", row, place, of)
			}
		}
	}
	for _, wrong := range []string{"", "1", "2/2", "-1/2", "0/0", "a/b", "0/2x"} {
		require.Error(t, new(part).Set(wrong), wrong)
	}
}

// Without the flag a run takes everything.
func TestWithoutTheFlag(t *testing.T) {
	for i := range 7 {
		require.True(t, Has(i, i))
	}
	require.Equal(t, []string{"a", "b"}, Of([]string{"a", "b"}))
	require.Equal(t, "-share=0/1", Flag())
}

// A test of another share is skipped, and one of this share is not.
func TestOnly(t *testing.T) {
	defer func(before part) { run = before }(run)
	require.NoError(t, run.Set("1/2"))
	var ran []int
	for i := range 4 {
		t.Run("", func(t *testing.T) {
			Only(t, i, 1)
			ran = append(ran, i)
		})
	}
	require.Equal(t, []int{0, 2}, ran)
}
