//go:build linux && (amd64 || arm64)

package auth

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// keyed returns a sealer and an opener with a key.
func keyed(t testing.TB, key byte, aes, encrypt bool) (*Sealer, *Opener) {
	t.Helper()
	k := [keySize]byte(bytes.Repeat([]byte{key}, keySize))
	s, err := newSession(k, k, offer{encrypt: encrypt, aes: aes}, offer{aes: aes})
	require.NoError(t, err)
	return s.Sealer(), s.Opener()
}

// Bytes that Python's cryptography 48 (OpenSSL) has made from the key 07…07, the nonce 0 0 0 0 and the
// counter 1 in 8 bytes, little-endian, the head "head" and the content "content".
var vectors = []struct {
	aes, encrypt bool
	want         string
}{
	{true, false, "68656164636f6e74656e74007437fe474b4cbe3e6c2d655cce01a8"},
	{true, true, "686561645cf51dbe61c09c9ed972b9a2553226429dfd1ba3af5db2"},
	{false, false, "68656164636f6e74656e7458ae32cf750914d97b4b2cabc3ca7f27"},
	{false, true, "68656164d93c5e144018c56ee600e5d49f3e5152bce4d865c79e87"},
}

// Sealed bytes are the standard's.
func TestSealVectors(t *testing.T) {
	for _, row := range vectors {
		seal, open := keyed(t, 7, row.aes, row.encrypt)
		b := append([]byte("headcontent"), make([]byte, TagSize)...)
		counter, _ := seal.Next()
		seal.Seal(b, 4, counter)
		require.Equal(t, row.want, hex.EncodeToString(b), "AES %v, encrypt %v", row.aes, row.encrypt)
		require.Equal(t, Good, open.Open(unhex(t, row.want), 4, 1))
	}
}

// A message with another bit, length, head or counter is
// forged. It changes nothing: the true one is good after it.
func TestForged(t *testing.T) {
	for _, aes := range []bool{false, true} {
		for _, encrypt := range []bool{false, true} {
			seal, open := keyed(t, 1, aes, encrypt)
			b := append([]byte("head and content"), make([]byte, TagSize)...)
			counter, _ := seal.Next()
			seal.Seal(b, 4, counter)
			for bit := range 8 * len(b) {
				bad := bytes.Clone(b)
				bad[bit/8] ^= 1 << (bit % 8)
				require.Equal(t, Forged, open.Open(bad, 4, counter), "bit %d", bit)
			}
			for n := range len(b) {
				require.Equal(t, Forged, open.Open(bytes.Clone(b[:n]), 4, counter), "%d bytes", n)
			}
			require.Equal(t, Forged, open.Open(bytes.Clone(b), 4, counter+1))
			require.Equal(t, Forged, open.Open(bytes.Clone(b), 4, MostSealed+1))
			require.Equal(t, Replayed, open.Open(bytes.Clone(b), 4, 0))
			if encrypt {
				require.Equal(t, Forged, open.Open(bytes.Clone(b), 5, counter))
			}
			require.Equal(t, Good, open.Open(b, 4, counter))
		}
	}
}

// Keys are used up after MostSealed messages.
func TestSealerEnds(t *testing.T) {
	seal, _ := keyed(t, 1, true, true)
	seal.counter.Store(MostSealed - 1)
	n, ok := seal.Next()
	require.True(t, ok)
	require.EqualValues(t, MostSealed, n)
	_, ok = seal.Next()
	require.False(t, ok)
}

// The window agrees with a set of all counters that have come, for steps of all sizes.
func TestWindow(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var w window
		came := map[uint64]bool{}
		latest := uint64(0)
		for range 20000 {
			n := latest + uint64(rng.IntN(5))
			switch rng.IntN(20) {
			case 0:
				n = latest + uint64(rng.IntN(2*Window))
			case 1, 2, 3, 4, 5, 6:
				n = latest - min(uint64(rng.IntN(Window+200)), latest)
			}
			want := n > 0 && !came[n] && n+Window > latest
			require.Equal(t, want, w.isNew(n), "seed %d: %d after %d", seed, n, latest)
			if want {
				w.add(n)
				came[n] = true
				latest = max(latest, n)
			}
		}
	}
}

// The edges of the window, and the end of the numbers.
func TestWindowEdges(t *testing.T) {
	require.GreaterOrEqual(t, Window, 8192)
	var w window
	w.add(1)
	w.add(Window)
	require.False(t, w.isNew(1))
	require.True(t, w.isNew(2))
	w.add(Window + 2)
	require.False(t, w.isNew(2), "too old")
	require.True(t, w.isNew(3))
	require.False(t, w.isNew(0))
	w.add(1 << 63)
	require.False(t, w.isNew(3))
	require.True(t, w.isNew(1<<63-Window+1))
	require.False(t, w.isNew(1<<63-Window))
	w.add(1<<64 - 1)
	require.False(t, w.isNew(1<<64-1))
}

// Sealing and opening allocate no memory.
func TestSealDoesNotAllocate(t *testing.T) {
	for _, aes := range []bool{false, true} {
		for _, encrypt := range []bool{false, true} {
			seal, open := keyed(t, 1, aes, encrypt)
			b := make([]byte, 4096+TagSize)
			require.Zero(t, testing.AllocsPerRun(100, func() {
				n, _ := seal.Next()
				seal.Seal(b, 28, n)
				if open.Open(b, 28, n) != Good {
					panic("forged")
				}
			}))
		}
	}
}

// Open neither panics on any input nor accepts a message that the sealer has not made.
func FuzzOpen(f *testing.F) {
	good := func(t testing.TB, n int) []byte {
		seal, _ := keyed(t, 3, true, true)
		b := append(make([]byte, 4), make([]byte, n+TagSize)...)
		seal.Seal(b, 4, 5)
		return b
	}
	f.Add(good(f, 0), uint64(5), 4)
	f.Add(good(f, 100), uint64(5), 4)
	f.Add(good(f, 100), uint64(6), 4)
	f.Add([]byte{}, uint64(0), 0)
	f.Add(make([]byte, 20), uint64(1)<<63, -1)
	f.Fuzz(func(t *testing.T, b []byte, counter uint64, head int) {
		_, open := keyed(t, 3, true, true)
		was := open.window
		if open.Open(bytes.Clone(b), head, counter) == Good {
			require.True(t, head == 4 && counter == 5 && len(b) >= 20 && bytes.Equal(b, good(t, len(b)-20)), "forged: %x", b)
			return
		}
		require.Equal(t, was, open.window)
	})
}

func BenchmarkSeal(b *testing.B) {
	for _, aes := range []bool{true, false} {
		for _, encrypt := range []bool{false, true} {
			for _, size := range []int{32, 4096} {
				b.Run(fmt.Sprintf("aes=%v/encrypt=%v/%d", aes, encrypt, size), func(b *testing.B) {
					seal, open := keyed(b, 1, aes, encrypt)
					m := make([]byte, 16+size+TagSize)
					b.SetBytes(int64(size))
					for b.Loop() {
						n, _ := seal.Next()
						seal.Seal(m, 16, n)
						if open.Open(m, 16, n) != Good {
							b.Fatal("forged")
						}
					}
				})
			}
		}
	}
}
