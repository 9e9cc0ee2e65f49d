//go:build linux && (amd64 || arm64)

package auth

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// After three messages both ends have a session with each other, for all choices of cipher and encryption.
func TestHandshake(t *testing.T) {
	for _, noAES := range []bool{false, true} {
		for _, encrypt := range []bool{false, true} {
			a, b := pair(t)
			b.noAES = noAES
			a.Encrypt, b.Encrypt = encrypt, encrypt
			x, err := a.Handshake(carrier, true, there, 1, []byte("from a"))
			require.NoError(t, err)
			y, err := b.Handshake(carrier, false, here, 2, []byte("from b"))
			require.NoError(t, err)
			m1, err := x.Write()
			require.NoError(t, err)
			require.Len(t, m1, Message1Size)
			require.NoError(t, y.Read(m1))
			m2, err := y.Write()
			require.NoError(t, err)
			require.Len(t, m2, Message2Size+6)
			require.NoError(t, x.Read(m2))
			m3, err := x.Write()
			require.NoError(t, err)
			require.Len(t, m3, Message3Size+6)
			require.NoError(t, y.Read(m3))
			require.Equal(t, "from b", string(x.Payload()))
			require.Equal(t, "from a", string(y.Payload()))
			for _, m := range [][]byte{m2, m3} {
				require.NotContains(t, string(m), "from", "offers are encrypted")
			}
			s, r := x.Session(), y.Session()
			require.Equal(t, b.Identity.Public(), s.Remote)
			require.Equal(t, a.Identity.Public(), r.Remote)
			require.Equal(t, []uint32{2, 1, 1, 2}, []uint32{s.Number, s.Own, r.Number, r.Own})
			require.Equal(t, s.Cipher, r.Cipher)
			if noAES {
				require.Equal(t, "ChaCha20-Poly1305", s.Cipher)
			}
			require.Equal(t, encrypt, s.Encrypted)
			exchange(t, s, r)
			exchange(t, r, s)
		}
	}
}

// exchange seals messages in one session and opens them in the other.
func exchange(t *testing.T, s, r *Session) {
	t.Helper()
	seal, open := s.Sealer(), r.Opener()
	for i := range 100 {
		text := bytes.Repeat([]byte{byte(i + 1)}, 3*i)
		b := append([]byte("head"), text...)
		b = append(b, make([]byte, TagSize)...)
		counter, ok := seal.Next()
		require.True(t, ok)
		seal.Seal(b, 4, counter)
		if i > 3 {
			require.Equal(t, !s.Encrypted, bytes.Contains(b, text), "only sessions that encrypt hide the content")
		}
		require.Equal(t, Good, open.Open(b, 4, counter))
		require.Equal(t, append([]byte("head"), text...), b[:len(b)-TagSize])
		require.Equal(t, Replayed, open.Open(b, 4, counter))
	}
}

// Each end refuses a key that it does not accept from the address of the other, and says why. An initiator
// sends such an end no information about itself.
func TestHandshakeRefused(t *testing.T) {
	a, b := pair(t)
	other := newEnd(t, false)
	other.accepts(t, a, here)

	x, y := begin(t, a, other)
	require.NoError(t, move(t, x, y))
	err := move(t, y, x)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, other.Identity.Public().String())
	require.ErrorContains(t, err, b.Identity.Public().Fingerprint())
	require.Equal(t, UnknownKey, x.Verdict())

	other.accepts(t, b, there)
	x, y = begin(t, other, b)
	require.NoError(t, move(t, x, y))
	require.NoError(t, move(t, y, x))
	require.ErrorIs(t, move(t, x, y), ErrRefused)
	require.Equal(t, UnknownKey, y.Verdict())
	v, err := x.Session().OpenVerdict(x.Session().Opener(), y.Session().SealVerdict(y.Session().Sealer(), y.Verdict()))
	require.NoError(t, err)
	require.Equal(t, UnknownKey, v)

	b.Encrypt = true
	x, y = begin(t, a, b)
	require.NoError(t, move(t, x, y))
	err = move(t, y, x)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "encrypt")
	err = move(t, x, y)
	require.ErrorIs(t, err, ErrRefused, "both ends hear of it")
	require.ErrorContains(t, err, "encrypt")
}

// Messages that are forged, cut, repeated, out of turn or of another carrier are refused. An initiator goes
// on with the true ones; a responder takes another handshake.
func TestHandshakeSurvivesForgeries(t *testing.T) {
	a, b := pair(t)
	x, y := begin(t, a, b)
	m1, err := x.Write()
	require.NoError(t, err)
	_, err = x.Write()
	require.ErrorIs(t, err, errTurn)
	require.ErrorIs(t, y.Read(m1[:31]), errShort)
	require.ErrorIs(t, y.Read(append(m1, 0)), errShort)
	require.NoError(t, y.Read(m1))
	require.ErrorIs(t, y.Read(m1), errTurn)
	m2, err := y.Write()
	require.NoError(t, err)
	forge := func(h *Handshake, m []byte) {
		t.Helper()
		for n := range len(m) {
			if n%7 == 0 {
				require.Error(t, h.Read(m[:n]))
			}
			bad := bytes.Clone(m)
			bad[n] ^= 1
			err := h.Read(bad)
			require.Error(t, err, "byte %d", n)
			require.NotErrorIs(t, err, ErrRefused)
		}
	}
	forge(x, m2)
	require.NoError(t, x.Read(m2))
	m3, err := x.Write()
	require.NoError(t, err)
	bad := bytes.Clone(m3)
	bad[60] ^= 1
	require.ErrorIs(t, y.Read(m3[:Message3Size-1]), errShort)
	require.Error(t, y.Read(bad))
	require.ErrorIs(t, y.Read(m3), errOver)
	require.Nil(t, y.Session())
	x, y = begin(t, a, b)
	require.NoError(t, move(t, x, y))
	require.NoError(t, move(t, y, x))
	m3, err = x.Write()
	require.NoError(t, err)
	require.NoError(t, y.Read(m3))
	require.ErrorIs(t, y.Read(m3), errTurn)
	exchange(t, x.Session(), y.Session())

	// Messages of another handshake, or carrier.
	_, y2 := begin(t, a, b)
	require.NoError(t, y2.Read(m1), "a repeated message 1 leads to another ephemeral key")
	_, err = y2.Write()
	require.NoError(t, err)
	require.Error(t, y2.Read(m3))
	z, err := b.Handshake("nicless other 1", false, here, 7, nil)
	require.NoError(t, err)
	x3, _ := begin(t, a, b)
	m1, err = x3.Write()
	require.NoError(t, err)
	require.NoError(t, z.Read(m1))
	m2, err = z.Write()
	require.NoError(t, err)
	require.Error(t, x3.Read(m2))
	_, err = a.Handshake(carrier, true, there, 1, make([]byte, MostPayload+1))
	require.ErrorContains(t, err, "at most 16384")
}

// A public key of low order, which makes the shared secret public, is refused.
func TestLowOrderKeys(t *testing.T) {
	a, b := pair(t)
	_, y := begin(t, a, b)
	require.NoError(t, y.Read(make([]byte, Message1Size)))
	_, err := y.Write()
	require.Error(t, err)
}

// No input in place of a handshake's messages causes a panic, or a session with a stranger.
func FuzzHandshake(f *testing.F) {
	a, b := pair(f)
	x, y := begin(f, a, b)
	m1, _ := x.Write()
	require.NoError(f, y.Read(m1))
	m2, _ := y.Write()
	require.NoError(f, x.Read(m2))
	m3, _ := x.Write()
	for _, m := range [][]byte{m1, m2, m3, nil, make([]byte, 32), m3[:Message3Size-1]} {
		f.Add(m, m)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		x, y := begin(t, a, b)
		require.Nil(t, y.Session())
		if y.Read(first) == nil {
			if _, err := y.Write(); err == nil {
				require.Error(t, y.Read(second))
			}
		}
		require.Nil(t, y.Session())
		_, err := x.Write()
		require.NoError(t, err)
		require.Error(t, x.Read(first))
		require.Error(t, x.Read(second))
		require.Nil(t, x.Session())
		o, err := parseOffer(first)
		if err == nil && o.version == version && first[1]&^3 == 0 && first[2] == 0 && first[3] == 0 {
			require.Equal(t, first, o.append(nil))
		}
	})
}
