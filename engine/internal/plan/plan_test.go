package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Functions are taken at their times, in order, and not after they were dropped.
func TestPlan(t *testing.T) {
	var p Plan
	var did string
	do := func(s string) func() { return func() { did += s } }
	run := func(now uint64) string {
		did = ""
		for f := p.Take(now); f != nil; f = p.Take(now) {
			f()
		}
		return did
	}
	require.Nil(t, p.Take(^uint64(0)))
	p.Add(20, 1, do("c"))
	p.Add(10, 2, do("a"))
	p.Add(20, 2, do("d"))
	p.Add(10, 1, do("b"))
	p.Add(0, 3, do("now "))
	require.Equal(t, uint64(1), p.Next)
	require.Equal(t, "now ", run(9))
	require.Equal(t, "", run(9))
	require.Equal(t, "ab", run(10))
	require.Equal(t, uint64(20), p.Next)
	p.Drop(1)
	require.Equal(t, "", run(19))
	require.Equal(t, "d", run(50))
	require.Zero(t, p.Next)
	p.Add(60, 1, do("x"))
	p.Drop(1)
	require.Zero(t, p.Next)
	require.Equal(t, "", run(^uint64(0)))
}
