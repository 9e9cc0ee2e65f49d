//go:build linux && (amd64 || arm64)

// Package numbers gives out the 24-bit numbers of queue pairs, completion queues and
// shared receive queues.
//
// A Sequence goes through all numbers in an order that only the holder of a random key
// knows, and then again in the same order. So the number of an object that has ended is given
// out again only after all other numbers, and a client cannot predict the next numbers from
// the last ones. docs/design/0018-who-is-connected.md says why that matters.
//
// The order is a permutation, computed by a Feistel network over two halves of 12 bits whose
// round function is AES. So it takes no memory. A shuffled list of all numbers would take
// 48 MiB, and a list of the numbers given out lately would be as long.
package numbers

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"io"
)

// A Sequence gives out the numbers of one kind of object. Not safe for concurrent use.
type Sequence struct {
	round   cipher.Block        // the round function
	next    uint32              // place in the order, modulo 2^24
	in, out [aes.BlockSize]byte // input and output of a round; as local variables they would be allocated
}

// rounds is the number of rounds of FF1 of NIST SP 800-38G. This network is the simplest case
// of FF1. Small halves need many rounds: with 4 or 6 rounds, an observer of enough numbers
// could learn something about the next ones.
const rounds = 10

const (
	numberBits = 24
	halfBits   = numberBits / 2
	halfMask   = 1<<halfBits - 1
)

// New returns a Sequence whose key is read from random. Reads from random must not fail.
func New(random io.Reader) *Sequence {
	var key [16]byte
	_, _ = io.ReadFull(random, key[:])
	b, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the length of the key is wrong
	}
	return &Sequence{round: b}
}

// Next returns the next number that is not a key of the map taken. taken must have far fewer
// than 2^24 keys. Next never returns 2^24-1 or a number below 16, because 0, 1 and 0xffffff
// have special meanings in InfiniBand as numbers of queue pairs.
func Next[V any](s *Sequence, taken map[uint32]V) uint32 {
	for {
		number := s.At(s.next)
		s.next++
		if _, found := taken[number]; !found && number >= 16 && number != 1<<numberBits-1 {
			return number
		}
	}
}

// At returns the number at a place of the order. Places are counted modulo 2^24.
func (s *Sequence) At(place uint32) uint32 {
	left, right := place>>halfBits&halfMask, place&halfMask
	for i := range uint32(rounds) {
		binary.LittleEndian.PutUint32(s.in[:], i<<halfBits|right)
		s.round.Encrypt(s.out[:], s.in[:])
		left, right = right, left^binary.LittleEndian.Uint32(s.out[:])&halfMask
	}
	return left<<halfBits | right
}

// PlaceOf returns the place of a number in the order.
func (s *Sequence) PlaceOf(number uint32) uint32 {
	left, right := number>>halfBits&halfMask, number&halfMask
	for i := uint32(rounds); i > 0; i-- {
		binary.LittleEndian.PutUint32(s.in[:], (i-1)<<halfBits|left)
		s.round.Encrypt(s.out[:], s.in[:])
		left, right = right^binary.LittleEndian.Uint32(s.out[:])&halfMask, left
	}
	return left<<halfBits | right
}

// Place returns the place of the number that Next tries first. For tests.
func (s *Sequence) Place() uint32 { return s.next }

// SetPlace makes Next continue at a place: for a replay, which needs certain numbers, and for tests.
func (s *Sequence) SetPlace(place uint32) { s.next = place }
