package engine

import (
	"crypto/aes"
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

// A mixer is a cheap block cipher. What makes the network a permutation is not its
// round function, and with AES all 2^24 places take twice the time.
type mixer struct{ key uint64 }

func (mixer) BlockSize() int      { return aes.BlockSize }
func (mixer) Decrypt(_, _ []byte) { panic("nobody needs it") }
func (m mixer) Encrypt(dst, src []byte) {
	x := (uint64(binary.LittleEndian.Uint32(src)) + m.key) * 0x9e3779b97f4a7c15
	binary.LittleEndian.PutUint64(dst, x>>29)
}

// placeOf is the inverse of at.
func (n *numbers) placeOf(number uint32) uint32 {
	left, right := number>>halfBits, number&halfMask
	for i := uint32(feistelRounds); i > 0; i-- {
		binary.LittleEndian.PutUint32(n.in[:], (i-1)<<halfBits|left)
		n.round.Encrypt(n.out[:], n.in[:])
		left, right = right^binary.LittleEndian.Uint32(n.out[:])&halfMask, left
	}
	return left<<halfBits | right
}

// The order has every number once, so none comes back before all others have been
// given out, and the next lap is like the last. Numbers that are taken or kept back
// are left out.
func TestEveryNumberOnce(t *testing.T) {
	const all = 1 << numberBits
	n := &numbers{round: mixer{rand.Uint64()}}
	const step = 31 // all of them take ten seconds
	seen := make([]bool, all)
	for place := uint32(0); place < all; place += step {
		number := n.at(place)
		if seen[number] {
			require.Fail(t, "twice", "number %#06x, the second time at place %d", number, place)
		}
		seen[number] = true
	}

	n = newNumbers(crand.Reader)
	for range 1 << 16 {
		place := rand.Uint32N(all)
		require.Equal(t, place, n.placeOf(n.at(place)))
	}
	none := map[uint32]bool{}
	for _, kept := range []uint32{0, 1, 15, all - 1} {
		n.next = n.placeOf(kept)
		number := freeNumber(n, none)
		require.True(t, number >= 16 && number < all-1, "%#x is kept back", number)
	}
	for _, given := range []uint32{16, all - 2} {
		n.next = n.placeOf(given)
		require.Equal(t, given, freeNumber(n, none))
	}
	n.next = 100
	taken := map[uint32]bool{n.at(100): true, n.at(101): true}
	require.Equal(t, n.at(102), freeNumber(n, taken))
	n.next = 1<<32 - 1
	last := n.at(all - 1)
	require.Equal(t, last, n.at(n.next))
	freeNumber(n, none)
	require.Equal(t, n.at(1), n.at(n.next+1), "after 2^32 numbers the order goes on")
}

// The next numbers cannot be told from earlier ones: each bit of the number at a
// distance differs as often as not, and no difference of two numbers comes often. The
// bounds are such that chance passes them in less than one of 10^9 runs.
func TestNextNumberCannotBeTold(t *testing.T) {
	const pairs = 1 << 16
	n := newNumbers(crand.Reader)
	for _, distance := range []uint32{1, 2, 1 << 11, 1 << halfBits, 1 << 23} {
		var flips [numberBits]int
		differences := map[uint32]int{}
		for i := range uint32(pairs) {
			d := n.at(i) ^ n.at(i+distance)
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
	require.NotEqual(t, [2]uint32{n.at(0), n.at(1)}, [2]uint32{newNumbers(crand.Reader).at(0), newNumbers(crand.Reader).at(1)}, "two devices have one order")
}

// Among objects that come and go no number comes twice. (Of random numbers, a dozen
// of 20,000 do.)
func TestNumbersAreNotReusedSoon(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	c := h.cq(control.CQ{LogSize: 4})
	seen := map[uint32]bool{}
	for range 20_000 {
		p := h.bare(c)
		require.False(t, seen[p.QPN], "QP number %#06x a second time", p.QPN)
		seen[p.QPN] = true
		h.call(control.OpDestroyQP, &p, &control.Empty{})
	}
}

// bare makes a queue pair that is only to exist.
func (h *host) bare(c *poller) (ans control.QPN) {
	h.Helper()
	h.call(control.OpCreateQP, &control.QP{PDN: h.pd, SendCQN: c.num, RecvCQN: c.num, NoReceive: 1, SQ: h.base, DBRec: h.base}, &ans)
	return ans
}

func BenchmarkFreeNumber(b *testing.B) {
	n, none := newNumbers(crand.Reader), map[uint32]bool{}
	b.ReportAllocs()
	for b.Loop() {
		freeNumber(n, none)
	}
}

// BenchmarkCreateQP is what a queue pair takes to be made and to end.
func BenchmarkCreateQP(b *testing.B) {
	r := newRig(b, Config{})
	h := r.host("h")
	c := h.cq(control.CQ{LogSize: 4})
	b.ReportAllocs()
	for b.Loop() {
		p := h.bare(c)
		h.call(control.OpDestroyQP, &p, &control.Empty{})
	}
}
