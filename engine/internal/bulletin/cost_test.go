//go:build linux && (amd64 || arm64)

package bulletin

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/nicless/nicless/internal/board"
	"github.com/stretchr/testify/require"
)

// rackOf returns a bulletin with what so many other engines announce, 59 entries each.
func rackOf(engines int) *Bulletin[string] {
	b := newBulletin()
	for i := range engines {
		b.Set("pool", uint64(1000+i), entries(59, 7, 0))
	}
	return b
}

// entries returns n announcements for a user.
func entries(n int, user uint32, round int) (list []board.Entry) {
	for i := range n {
		list = append(list, board.Entry{Client: uint32(i + 1), User: user, Value: fmt.Sprint(round % 2)})
	}
	return list
}

// BenchmarkSet: one of so many engines announces something else: one entry, or as many as there is room for,
// to another user each time.
func BenchmarkSet(b *testing.B) {
	for _, engines := range []int{16, 1000} {
		bulletin := rackOf(engines)
		b.Run(fmt.Sprint("one/", engines), func(b *testing.B) {
			list := entries(59, 7, 0)
			for n := 0; b.Loop(); n++ {
				list = append([]board.Entry(nil), list...)
				list[7].Value = fmt.Sprint(n)
				bulletin.Set("pool", 1005, list)
			}
		})
		b.Run(fmt.Sprint("hostile/", engines), func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				bulletin.Set("pool", 1007, entries(727, uint32(n), n))
			}
		})
	}
}

// Whatever one engine announces costs no more in a rack than beside a few others: there may be 60,000
// entries, and the bulletin is locked meanwhile.
func TestOneEngineOfARack(t *testing.T) {
	b := rackOf(1000)
	used := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	list := entries(59, 7, 0)
	list[7].Value = "other"
	require.Less(t, used(func() { b.Set("pool", 1005, list) }), uint64(256<<10), "bytes")
}
