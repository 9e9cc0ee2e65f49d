package metrics

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func at(name string) labels { return labels{name} }

func counted(id int, name, owner string, n uint64) entry[int] {
	return entry[int]{id: id, labels: at(name), owner: owner, counts: []uint64{n}, gauges: []float64{1}}
}

func TestLedgerKeepsCountsOfObjectsThatAreGone(t *testing.T) {
	l := newLedger[int](4, 4, 1, 1, at("other"))
	l.update([]entry[int]{counted(1, "a", "", 10), counted(2, "a", "", 5)})
	require.Equal(t, []uint64{15}, l.series[at("a")].counts)
	require.Equal(t, []float64{2}, l.series[at("a")].gauges)
	l.update([]entry[int]{counted(2, "a", "", 6)})
	require.Equal(t, []uint64{16}, l.series[at("a")].counts)
	require.Equal(t, []float64{1}, l.series[at("a")].gauges)
	l.update(nil)
	l.update([]entry[int]{counted(3, "a", "", 7)})
	require.Equal(t, []uint64{23}, l.series[at("a")].counts, "the program runs again")
	l.update([]entry[int]{counted(3, "a", "", 2)})
	require.Equal(t, []uint64{25}, l.series[at("a")].counts, "the object began anew")
}

func TestLedgerEvictsSeriesWithoutObjects(t *testing.T) {
	l := newLedger[int](3, 2, 1, 1, at("other"))
	b, d := counted(2, "b", "x", 1), counted(4, "d", "y", 1)
	l.update([]entry[int]{counted(1, "a", "x", 1), b, counted(3, "c", "x", 1), d})
	require.NotContains(t, l.series, at("c"), "x has two series")
	require.Equal(t, []uint64{1}, l.rest.counts)
	require.Contains(t, l.series, at("d"), "y has room")

	l.update([]entry[int]{b, counted(3, "c", "x", 4), d}) // a has gone
	require.Contains(t, l.series, at("a"), "nobody needs its place")
	require.Equal(t, []uint64{4}, l.rest.counts, "an object without a place stays without")

	l.update([]entry[int]{b, d, counted(5, "e", "z", 1)}) // c has gone
	require.NotContains(t, l.series, at("a"))
	require.Contains(t, l.series, at("e"))
	require.Equal(t, []uint64{4}, l.rest.counts)
	require.Equal(t, []float64{0}, l.rest.gauges)
}

// Whatever comes and goes, no series that stays goes back, and their number is bounded.
func TestLedgerInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most, mostOwner = 5, 3
		l := newLedger[int](most, mostOwner, 1, 1, at("other"))
		type known struct {
			*series
			count uint64
		}
		before := map[labels]known{}
		counts := map[int]uint64{}
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			var now []entry[int]
			for _, id := range rapid.SliceOfNDistinct(rapid.IntRange(0, 30), 0, 15, rapid.ID[int]).Draw(t, "objects") {
				counts[id] += rapid.Uint64Range(0, 100).Draw(t, "growth")
				now = append(now, counted(id, fmt.Sprint("s", id%12), fmt.Sprint("o", id%12%4), counts[id]))
			}
			l.update(now)
			owners, objects := map[string]int{}, l.rest.live
			for _, s := range l.series {
				owners[s.owner]++
				objects += s.live
			}
			if len(l.series) > most || objects != len(now) || len(l.objects) != len(now) {
				t.Fatalf("%d series, %d objects in them, %d known, %d there", len(l.series), objects, len(l.objects), len(now))
			}
			for o, n := range owners {
				if n > mostOwner || n != l.owners[o] {
					t.Fatalf("owner %s has %d series, counted as %d", o, n, l.owners[o])
				}
			}
			for _, s := range l.all() {
				if b, ok := before[s.labels]; ok && b.series == s && s.counts[0] < b.count {
					t.Fatalf("series %v went back from %d to %d", s.labels, b.count, s.counts[0])
				}
				before[s.labels] = known{s, s.counts[0]}
			}
		}
	})
}
