package codes

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/field/known"
)

// A code is the position of its explanation in the table, so both have the same order.
func TestEveryCodeIsExplained(t *testing.T) {
	table := known.Explanations()
	require.Len(t, table, int(Count))
	for c := range Count {
		require.Equal(t, table[c].Name, c.String(), "code %d", c)
	}
	require.Equal(t, fmt.Sprintf("code %d", Count), Count.String())
}
