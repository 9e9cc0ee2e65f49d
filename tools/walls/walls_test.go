package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The limits of the packages of the engine.
const (
	mostLines   = 5000
	mostMethods = 60
	mostAgainst = 15.0 // percent
)

func TestWallsOfTheEngine(t *testing.T) {
	var paths []string
	for _, name := range engine {
		paths = append(paths, module+"/engine/internal/"+name)
	}
	all, err := measure("../..", append(paths, module+"/engine")...)
	require.NoError(t, err)
	require.Len(t, all, len(engine)+1)
	for _, p := range all {
		assert.LessOrEqual(t, p.lines, mostLines, "lines of %s", p.path)
		assert.LessOrEqual(t, p.methods, mostMethods, "methods of %s in %s", p.greatest, p.path)
		assert.Less(t, p.share(), mostAgainst, "percent of uses against the direction in %s: %v", p.path, p.against)
		t.Logf("%s: %d lines, %s has %d methods, %d of %d uses against the direction", p.path, p.lines, p.greatest, p.methods, len(p.against), p.uses)
	}
}

// Files that use each other in circles have the fewest uses against the direction that are possible.
func TestOrdered(t *testing.T) {
	for name, row := range map[string]struct {
		n    int
		uses [][2]int
		up   int
	}{
		"a chain":                   {4, [][2]int{{0, 1}, {1, 2}, {2, 3}}, 0},
		"a circle":                  {3, [][2]int{{0, 1}, {1, 2}, {2, 0}}, 1},
		"two that use each other":   {2, [][2]int{{0, 1}, {1, 0}}, 1},
		"two circles with one file": {5, [][2]int{{0, 1}, {1, 2}, {2, 0}, {2, 3}, {3, 4}, {4, 2}}, 2},
		"a tree":                    {5, [][2]int{{0, 1}, {0, 2}, {1, 3}, {2, 4}}, 0},
		"nothing":                   {3, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			has := make(map[[2]int]bool)
			for _, u := range row.uses {
				has[u] = true
			}
			order := ordered(row.n, func(i, j int) bool { return has[[2]int{i, j}] })
			require.ElementsMatch(t, order, []int{0, 1, 2, 3, 4}[:row.n])
			up := 0
			for at, i := range order {
				for _, j := range order[at+1:] {
					if has[[2]int{i, j}] {
						up++
					}
				}
			}
			require.Equal(t, row.up, up, "order %v", order)
		})
	}
}
