package numbers

import (
	"crypto/aes"
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A mixer is a cheap block cipher, used as the round function because with AES the test takes
// twice as long. The network is a permutation with any round function.
type mixer struct{ key uint64 }

func (mixer) BlockSize() int      { return aes.BlockSize }
func (mixer) Decrypt(_, _ []byte) { panic("not used") }
func (m mixer) Encrypt(dst, src []byte) {
	x := (uint64(binary.LittleEndian.Uint32(src)) + m.key) * 0x9e3779b97f4a7c15
	binary.LittleEndian.PutUint64(dst, x>>29)
}

// The order contains every number once. So no number is given out again before all others, and
// each lap has the same order. Next leaves out numbers that are taken or reserved.
func TestEveryNumberOnce(t *testing.T) {
	const all = 1 << numberBits
	n := &Sequence{round: mixer{rand.Uint64()}}
	const step = 31 // not every place is checked, because that would take ten seconds
	seen := make([]bool, all)
	for place := uint32(0); place < all; place += step {
		number := n.At(place)
		if seen[number] {
			require.Fail(t, "twice", "number %#06x comes back at place %d", number, place)
		}
		seen[number] = true
	}

	n = New(crand.Reader)
	for range 1 << 16 {
		place := rand.Uint32N(all)
		require.Equal(t, place, n.PlaceOf(n.At(place)))
	}
	none := map[uint32]bool{}
	for _, reserved := range []uint32{0, 1, 15, all - 1} {
		n.next = n.PlaceOf(reserved)
		number := Next(n, none)
		require.True(t, number >= 16 && number < all-1, "%#x is reserved", number)
	}
	for _, given := range []uint32{16, all - 2} {
		n.next = n.PlaceOf(given)
		require.Equal(t, given, Next(n, none))
	}
	n.next = 100
	taken := map[uint32]bool{n.At(100): true, n.At(101): true}
	require.Equal(t, n.At(102), Next(n, taken))
	n.next = 1<<32 - 1
	last := n.At(all - 1)
	require.Equal(t, last, n.At(n.next))
	Next(n, none)
	require.Equal(t, n.At(1), n.At(n.next+1), "after 2^32 numbers the order goes on")
}

// The next numbers cannot be predicted from earlier ones. For two numbers at a fixed distance
// in the order, each bit differs half of the time, and no difference of the two numbers is
// frequent. Random numbers exceed the bounds in less than one of 10^9 runs.
func TestNumbersAreUnpredictable(t *testing.T) {
	const pairs = 1 << 16
	n := New(crand.Reader)
	for _, distance := range []uint32{1, 2, 1 << 11, 1 << halfBits, 1 << 23} {
		var flips [numberBits]int
		differences := map[uint32]int{}
		for i := range uint32(pairs) {
			d := n.At(i) ^ n.At(i+distance)
			differences[d]++
			for bit := range flips {
				flips[bit] += int(d >> bit & 1)
			}
		}
		for bit, count := range flips {
			require.InDelta(t, pairs/2, count, 7*128, "bit %d at distance %d", bit, distance)
		}
		for d, count := range differences {
			require.LessOrEqual(t, count, 5, "difference %#06x at distance %d", d, distance)
		}
	}
	require.NotEqual(t, [2]uint32{n.At(0), n.At(1)}, [2]uint32{New(crand.Reader).At(0), New(crand.Reader).At(1)}, "two sequences have the same order")
}

func BenchmarkNext(b *testing.B) {
	n, none := New(crand.Reader), map[uint32]bool{}
	b.ReportAllocs()
	for b.Loop() {
		Next(n, none)
	}
}
