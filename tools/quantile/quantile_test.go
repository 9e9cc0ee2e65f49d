package quantile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRank(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i
	}
	for percent := range hundred {
		require.Equal(t, percent, Rank(hundred, float64(percent)/100))
	}
	require.Equal(t, 99, Rank(hundred, 1))
	require.Equal(t, time.Duration(2), Rank([]time.Duration{1, 2}, 0.5))
	require.Equal(t, "a", Rank([]string{"a"}, 0.99))
}

func TestBetween(t *testing.T) {
	require.Equal(t, 1.5, Between([]float64{1, 2}, 0.5))
	require.Equal(t, 1.25, Between([]float64{1, 2}, 0.25))
	require.Equal(t, 2.0, Between([]float64{1, 2, 3, 4, 5}, 0.25))
	require.Equal(t, 2.0, Between([]float64{1, 2}, 1))
	require.Equal(t, 7.0, Between([]float64{7}, 0.75))
}
