//go:build linux && (amd64 || arm64)

package ucx

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"testing"

	"github.com/nicless/nicless/fabric/ucx/ucxtest"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/chacha20poly1305"
)

// A sealer is carrier/seal.c, without UCX.
type sealer struct {
	t   *testing.T
	in  io.Writer
	out io.Reader
}

func newSealer(t *testing.T, kind byte, encrypt bool, out, in []byte) *sealer {
	_, _, program := ucxtest.Checks(t)
	c := exec.Command(program, strconv.Itoa(int(kind)), map[bool]string{true: "1", false: "0"}[encrypt])
	to, err := c.StdinPipe()
	require.NoError(t, err)
	from, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	_, err = to.Write(append(append([]byte(nil), out...), in...))
	require.NoError(t, err)
	return &sealer{t, to, from}
}

func (s *sealer) do(open bool, id uint32, count uint64, plain, head, data, tag []byte) (ok bool, outHead, outData, outTag []byte) {
	b := binary.LittleEndian.AppendUint32(nil, map[bool]uint32{true: 1}[open])
	b = binary.LittleEndian.AppendUint32(b, id)
	b = binary.LittleEndian.AppendUint64(b, count)
	for _, n := range []int{len(plain), len(head), len(data), 0} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	for _, part := range [][]byte{plain, head, data, tag} {
		b = append(b, part...)
	}
	_, err := s.in.Write(b)
	require.NoError(s.t, err)
	result := make([]byte, 1+len(head)+len(data)+16)
	_, err = io.ReadFull(s.out, result)
	require.NoError(s.t, err)
	h := result[1:]
	return result[0] == 1, h[:len(head)], h[len(head) : len(head)+len(data)], h[len(head)+len(data):]
}

// C seals as Go's own ciphers do, and opens what they have sealed.
func TestSealIsThatOfTheStandard(t *testing.T) {
	key, other := bytes.Repeat([]byte{1, 2}, 16), bytes.Repeat([]byte{3, 4}, 16)
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	aead := func(kind byte, key []byte) cipher.AEAD {
		if kind == cipherAES {
			block, err := aes.NewCipher(key)
			require.NoError(t, err)
			a, err := cipher.NewGCM(block)
			require.NoError(t, err)
			return a
		}
		a, err := chacha20poly1305.New(key)
		require.NoError(t, err)
		return a
	}
	for _, kind := range []byte{cipherAES, cipherChaCha} {
		for _, encrypt := range []bool{false, true} {
			s := newSealer(t, kind, encrypt, key, other)
			out, in := aead(kind, key), aead(kind, other)
			for n, size := range []int{0, 1, 8, 16, 100, 4096, 32768, 65535} {
				plain, head, data := random(32), random(n*6), random(size)
				count, id := uint64(n)+1, uint32(amPacket)
				nonce := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, id), count)
				aad, text := append(append(append([]byte(nil), plain...), head...), data...), []byte(nil)
				if encrypt {
					aad, text = plain, append(append([]byte(nil), head...), data...)
				}
				want := out.Seal(nil, nonce, text, aad)
				ok, h, d, tag := s.do(false, id, count, plain, head, data, make([]byte, 16))
				require.True(t, ok)
				if encrypt {
					require.Equal(t, want, append(append(append([]byte(nil), h...), d...), tag...))
				} else {
					require.Equal(t, want, tag)
					require.True(t, bytes.Equal(data, d) && bytes.Equal(head, h), "they are not changed")
				}
				sealed := in.Seal(nil, nonce, text, aad)
				sealedHead, sealedData, tag := head, data, sealed[len(sealed)-16:]
				if encrypt {
					sealedHead, sealedData = sealed[:len(head)], sealed[len(head):len(sealed)-16]
				}
				for at, part := range [][]byte{plain, sealedHead, sealedData, tag} {
					if len(part) > 0 {
						part[len(part)/2]++
						ok, _, _, _ = s.do(true, id, count, plain, sealedHead, sealedData, tag)
						require.False(t, ok, "part %d was changed", at)
						part[len(part)/2]--
					}
				}
				ok, _, _, _ = s.do(true, id-1, count, plain, sealedHead, sealedData, tag)
				require.False(t, ok, "a message of another kind")
				ok, h, d, _ = s.do(true, id, count, plain, sealedHead, sealedData, tag)
				require.True(t, ok)
				require.True(t, bytes.Equal(append(append([]byte(nil), head...), data...), append(append([]byte(nil), h...), d...)))
				ok, _, _, _ = s.do(true, id, count, plain, sealedHead, sealedData, tag)
				require.False(t, ok, "the same message again")
			}
		}
	}
}

// A message is taken once, and only if it comes less than
// 8192 messages behind the newest. The model is a set.
func TestReplayWindow(t *testing.T) {
	key := make([]byte, 32)
	block, err := aes.NewCipher(key)
	require.NoError(t, err)
	in, err := cipher.NewGCM(block)
	require.NoError(t, err)
	s := newSealer(t, cipherAES, false, key, key)
	taken, newest := map[uint64]bool{}, uint64(0)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 30000 {
		count := newest + 1
		switch rng.IntN(8) {
		case 0:
			count += rng.Uint64N(200)
		case 1:
			count += rng.Uint64N(20000)
		case 2, 3, 4:
			count -= min(count, rng.Uint64N(300))
		case 5:
			count -= min(count, 8100+rng.Uint64N(200))
		case 6:
			count -= min(count, rng.Uint64N(9000))
		}
		tag := in.Seal(nil, binary.BigEndian.AppendUint64(make([]byte, 4), count), nil, []byte("p"))
		want := count > 0 && !taken[count] && count+8192 > newest
		ok, _, _, _ := s.do(true, 0, count, []byte("p"), nil, nil, tag)
		require.Equal(t, want, ok, "count %d, newest %d", count, newest)
		if ok {
			taken[count] = true
			newest = max(newest, count)
		}
	}
	tag := in.Seal(nil, binary.BigEndian.AppendUint64(make([]byte, 4), 1<<32+1), nil, []byte("p"))
	ok, _, _, _ := s.do(true, 0, 1<<32+1, []byte("p"), nil, nil, tag)
	require.False(t, ok, "no key seals so many messages")
}
