//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/nicless/nicless/internal/explore"
	"github.com/stretchr/testify/require"
)

func testLocal() *local {
	a := netip.MustParseAddr("10.0.0.1")
	return &local{number: 1, addr: a, plain: a, senders: []sendSocket{{port: 0xc000}}}
}

func keyOf(n uint32, class, hops uint8) key {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 11<<24|n)
	return key{local: 1, remote: netip.AddrFrom4(b).As16(), class: class, hops: hops}
}

// A table that is full of held paths refuses more, and takes new ones when one is released. Its
// numbers are not used again.
func TestTableIsFull(t *testing.T) {
	table, from := newTable(Config{Strangers: 10}), testLocal()
	seen := map[uint32]bool{}
	var first *path
	for i := range uint32(tableSize) {
		p, err := table.hold(keyOf(i, 0, defaultHops), from)
		require.NoError(t, err)
		require.False(t, seen[p.number])
		seen[p.number] = true
		if first == nil {
			first = p
		}
	}
	_, err := table.hold(keyOf(tableSize, 0, defaultHops), from)
	require.ErrorContains(t, err, "all 4096 paths are in use")
	_, err = table.hold(keyOf(tableSize, 0x20, defaultHops), from)
	require.ErrorContains(t, err, "all 4096 paths are in use")
	_, err = table.use(keyOf(tableSize, 0, defaultHops), from, wanted)
	require.Error(t, err)

	table.release(first.number)
	require.Equal(t, first, table.find(first.number), "kept as long as nobody needs the place")
	p, err := table.use(keyOf(tableSize, 0, defaultHops), from, wanted)
	require.NoError(t, err)
	require.Nil(t, table.find(first.number))
	require.False(t, seen[p.number])
	require.Equal(t, first.number%tableSize, p.number%tableSize)
}

// Random operations agree with a model: held paths are found by number and key, those that
// are not held are at most as many as there may be, and every path's source exists.
func TestTableAgreesWithModel(t *testing.T) {
	const most = 20
	table, from := newTable(Config{Strangers: most}), testLocal()
	table.most[wanted] = most
	rng := rand.New(rand.NewPCG(3, 4))
	held := map[uint32]int{}
	keys := map[uint32]key{}
	for range explore.Rounds(8_000, 50_000) {
		k := keyOf(rng.Uint32N(60), []uint8{0, 0, 0x20}[rng.IntN(3)], defaultHops)
		switch rng.IntN(3) {
		case 0:
			p, err := table.hold(k, from)
			require.NoError(t, err)
			held[p.number]++
			keys[p.number] = k
		case 1:
			_, err := table.use(k, from, origin(rng.IntN(2)))
			require.NoError(t, err)
		case 2:
			for n := range held {
				table.release(n)
				held[n]--
				if held[n] == 0 {
					delete(held, n)
				}
				break
			}
		}
		for who, list := range table.idle {
			idle := 0
			for p := list.first; p != nil; p = p.next {
				idle++
				require.Zero(t, p.refs)
				require.Equal(t, origin(who), p.origin)
			}
			require.Equal(t, list.n, idle)
			require.LessOrEqual(t, idle, table.most[who])
		}
	}
	for n, count := range held {
		p := table.find(n)
		require.NotNil(t, p)
		require.Equal(t, keys[n], p.key)
		require.Equal(t, count, p.routes)
	}
	used := 0
	for i := range table.slots {
		if p := table.slots[i].Load(); p != nil {
			used++
			require.Equal(t, p.source, table.find(p.source.number))
			require.Equal(t, p, table.paths[p.key])
		}
	}
	require.Len(t, table.paths, used)
	require.Len(t, table.free, tableSize-used)

	table.endAll(from)
	require.Empty(t, table.paths)
	require.Len(t, table.free, tableSize)
	require.Zero(t, table.idle[stranger].n+table.idle[wanted].n)
	_, err := table.hold(keyOf(1, 0, defaultHops), from)
	require.Error(t, err)
	for n := range held {
		table.release(n)
	}
}

// However many strangers come, they end no path that was requested, even if it is not held.
func TestStrangersEndStrangersOnly(t *testing.T) {
	table, from := newTable(Config{Strangers: 5}), testLocal()
	own, err := table.use(keyOf(1, 0x20, defaultHops), from, wanted)
	require.NoError(t, err)
	was, err := table.use(keyOf(2, 0, defaultHops), from, stranger)
	require.NoError(t, err)
	_, err = table.use(was.key, from, wanted)
	require.NoError(t, err)
	for i := range uint32(tableSize) {
		_, err := table.use(keyOf(100+i, 0, defaultHops), from, stranger)
		require.NoError(t, err)
	}
	require.Equal(t, own, table.find(own.number))
	require.Equal(t, own.source, table.find(own.source.number))
	require.Equal(t, was, table.find(was.number))
	require.Len(t, table.paths, 3+5)

	// Those that were requested end each other.
	for i := range uint32(2 * tableSize) {
		_, err := table.use(keyOf(10_000+i, 0, defaultHops), from, wanted)
		require.NoError(t, err)
	}
	require.Nil(t, table.find(own.number))
	require.LessOrEqual(t, len(table.paths), tableSize)
}
