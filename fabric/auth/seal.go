//go:build linux && (amd64 || arm64)

package auth

import (
	"crypto/cipher"
	"encoding/binary"
	"sync/atomic"
)

const (
	// TagSize is how many bytes a tag has.
	TagSize = 16

	// MostSealed is how many messages are sealed with one key. With 4 KiB in each, that is 2^40 blocks
	// of AES, which can be distinguished from random bytes with a chance of 2^-49 (blocks^2 / 2^129, the
	// bound behind RFC 8446, section 5.5); a tag is forged with less.
	MostSealed = 1 << 32

	nonceSize = 12
)

// A Sealer seals messages. One goroutine uses it. It allocates nothing.
type Sealer struct {
	aead     cipher.AEAD
	encrypts bool
	counter  *atomic.Uint64
	nonce    [nonceSize]byte
}

// Next returns the counter of the next message; false if the key is used up.
func (s *Sealer) Next() (counter uint64, ok bool) {
	n := s.counter.Add(1)
	return n, n <= MostSealed
}

// Seal seals a message in place. The first head bytes are authenticated; the receiver must find the counter
// in them. The bytes after them are authenticated, and encrypted if the session encrypts. The last TagSize
// bytes are set to the tag. A counter must be used once only.
func (s *Sealer) Seal(b []byte, head int, counter uint64) {
	binary.LittleEndian.PutUint64(s.nonce[nonceSize-8:], counter)
	n := len(b) - TagSize
	if s.encrypts {
		s.aead.Seal(b[head:head], s.nonce[:], b[head:n], b[:head])
		return
	}
	s.aead.Seal(b[n:n], s.nonce[:], nil, b[:n])
}

// An Opened says what an Opener makes of a message.
type Opened uint8

const (
	Good     Opened = iota
	Replayed        // its counter has come before, or is older than the window
	Forged          // its tag is wrong
)

// An Opener opens messages of one session. One goroutine uses it. It allocates nothing.
type Opener struct {
	aead     cipher.AEAD
	encrypts bool
	window   window
	nonce    [nonceSize]byte
}

// Open opens a message that Seal has made, in place. If the message is good, the content lies between the
// head and the tag; otherwise any bytes can be there. A message that is not good changes
// nothing in the window.
func (o *Opener) Open(b []byte, head int, counter uint64) Opened {
	n := len(b) - TagSize
	if head < 0 || n < head || counter > MostSealed {
		return Forged
	}
	if !o.window.isNew(counter) {
		return Replayed
	}
	binary.LittleEndian.PutUint64(o.nonce[nonceSize-8:], counter)
	var err error
	if o.encrypts {
		_, err = o.aead.Open(b[head:head], o.nonce[:], b[head:], b[:head])
	} else {
		_, err = o.aead.Open(b[n:n], o.nonce[:], b[n:], b[:n])
	}
	if err != nil {
		return Forged
	}
	o.window.add(counter)
	return Good
}
