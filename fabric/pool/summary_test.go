package pool

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/await"
)

// summaryPools returns three nodes that know each other. The first two count how often their summary was
// read.
func summaryPools(t *testing.T) (pools []*Pool, reads []*atomic.Int64) {
	path := filepath.Join(t.TempDir(), "pool")
	w := newWorld(t, 1)
	for i := range 3 {
		d := &node{w: w, guid: uint64(100 + i)}
		p, err := Open(t.Context(), d, Config{Path: path, Node: i, Nodes: 4, Size: 4 << 20, Dead: time.Hour})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		count := &atomic.Int64{}
		if i < 2 {
			p.SetSummary(func() string { return fmt.Sprint("engine ", d.guid, " read ", count.Add(1)) })
		}
		pools, reads = append(pools, p), append(reads, count)
	}
	for _, p := range pools {
		await.Until(t, "the others are seen", func() bool {
			up := 0
			for _, s := range p.Peers() {
				if s.Up {
					up++
				}
			}
			return up == 2
		}, func() any { return p.Peers() })
	}
	return pools, reads
}

// A look brings what each engine does at that time. It opens no rings, and an engine at which nobody looks
// does not read its state. A node that writes no summary has none.
func TestSummaries(t *testing.T) {
	pools, reads := summaryPools(t)
	require.Zero(t, reads[0].Load())
	first := pools[2].Summaries(t.Context(), time.Minute)
	require.Len(t, first, 2)
	second := pools[2].Summaries(t.Context(), time.Minute)
	for guid, s := range second {
		require.Contains(t, s, fmt.Sprintf("engine %d read ", guid))
		require.NotEqual(t, first[guid], s, "an old summary is not taken")
	}
	for _, p := range pools {
		for _, s := range p.Peers() {
			require.Zero(t, s.MTU, "there are no rings")
		}
	}
	pools[0].Summaries(t.Context(), 5*tick)
	require.NotContains(t, pools[0].Summaries(t.Context(), 5*tick), uint64(102))
	n := reads[0].Load()
	require.Error(t, pools[0].putSummary(strings.Repeat("x", mostSummary+1)))
	require.NoError(t, pools[0].putSummary(strings.Repeat("x", mostSummary)))
	require.Equal(t, n, reads[0].Load(), "nobody has looked")
}

// Bytes of a hostile node that are too long, or without their check sum, are no summary.
func TestHostileSummaries(t *testing.T) {
	pools, _ := summaryPools(t)
	p, part := pools[2], pools[1].part
	_, before, _ := p.readSummary(part, 0)
	require.NoError(t, pools[1].putSummary("right"))
	s, now, err := p.readSummary(part, before)
	require.NoError(t, err)
	require.Equal(t, "right", s)
	_, _, err = p.readSummary(part, now)
	require.ErrorIs(t, err, errUnchanged)
	for _, length := range []uint64{mostSummary + 1, 1 << 63, 4} {
		p.view.store(part+summaryAt+8, length)
		_, _, err = p.readSummary(part, before)
		require.Error(t, err)
	}
	p.view.store(part+summaryAt+8, 0)
	_, _, err = p.readSummary(part, before)
	require.Error(t, err)
}
