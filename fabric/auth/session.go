//go:build linux && (amd64 || arm64)

package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/sys/cpu"
)

// hasAES says whether the processor has the instructions that crypto/aes uses for AES-GCM. Without them,
// AES-GCM is slow, and its time depends on the key.
var hasAES = (runtime.GOARCH == "amd64" &&
	cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ && cpu.X86.HasSSE41 && cpu.X86.HasSSSE3) ||
	(runtime.GOARCH == "arm64" && cpu.ARM64.HasAES && cpu.ARM64.HasPMULL)

// A Session is the result of a handshake. Fields that are not atomic do not change.
type Session struct {
	Remote    PublicKey // of the other end
	Number    uint32    // the number by which the other end names the session
	Own       uint32    // the number by which this end names the session
	Initiator bool      // this end has begun the handshake
	Encrypted bool
	Cipher    string // "AES-256-GCM" or "ChaCha20-Poly1305"

	send     [keySize]byte
	receive  [keySize]byte
	makeAEAD func(key []byte) (cipher.AEAD, error)
	opener   *Opener
	sealed   atomic.Uint64 // counter that was used last
}

func newSession(send, receive [keySize]byte, own, theirs offer) (*Session, error) {
	s := &Session{
		Number: theirs.number, Own: own.number, Encrypted: own.encrypt, send: send, receive: receive,
	}
	s.Cipher, s.makeAEAD = "ChaCha20-Poly1305", chacha20poly1305.New
	if own.aes && theirs.aes {
		s.Cipher, s.makeAEAD = "AES-256-GCM", func(key []byte) (cipher.AEAD, error) {
			block, err := aes.NewCipher(key)
			if err != nil {
				return nil, err
			}
			return cipher.NewGCM(block)
		}
	}
	a, err := s.makeAEAD(receive[:])
	if err != nil {
		return nil, fmt.Errorf("auth: cipher of a session: %w", err)
	}
	s.opener = &Opener{aead: a, encrypts: s.Encrypted}
	return s, nil
}

// Sealer returns a sealer of the session. Several goroutines may seal, each with a Sealer of its own: they
// share the counter.
func (s *Session) Sealer() *Sealer {
	a, _ := s.makeAEAD(s.send[:]) // newSession has tried a key of this length
	return &Sealer{aead: a, encrypts: s.Encrypted, counter: &s.sealed}
}

// Opener returns the opener of the session. There is one, because it knows which counters have come.
func (s *Session) Opener() *Opener { return s.opener }

// Sealed returns how many counters were used.
func (s *Session) Sealed() uint64 { return s.sealed.Load() }

// Skip lets n counters go unused. It is for tests of what happens when they are used up.
func (s *Session) Skip(n uint64) { s.sealed.Add(n) }
