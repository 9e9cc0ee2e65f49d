package engine

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"io"
)

// numbers gives out the 24-bit numbers of one kind of object: QPs, CQs or SRQs. It
// goes through all of them, in an order that only the holder of a random key knows,
// and then again in the same order. So a number whose object has ended comes back after
// all others have been given out, and the next numbers cannot be told from the last
// ones.
//
// The order is a permutation: a Feistel network over two halves of 12 bits, whose
// round function is AES. It takes no memory, whereas a shuffled list of all numbers
// takes 48 MiB, and a list of those given out lately would be as long.
type numbers struct {
	round   cipher.Block
	next    uint32              // place in the order
	in, out [aes.BlockSize]byte // of a round; here because what goes through an interface is on the heap
}

// feistelRounds is how many FF1 of NIST SP 800-38G has, of which this is the simplest
// case. Small halves need many: with 4 or 6, an observer who has seen enough numbers
// can tell something about the next ones.
const feistelRounds = 10

const (
	numberBits = 24
	halfBits   = numberBits / 2
	halfMask   = 1<<halfBits - 1
)

func newNumbers(random io.Reader) *numbers {
	var key [16]byte
	_, _ = io.ReadFull(random, key[:]) // crypto/rand does not fail
	b, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the length of the key is wrong
	}
	return &numbers{round: b}
}

// at returns the number at a place of the order.
func (n *numbers) at(place uint32) uint32 {
	left, right := place>>halfBits&halfMask, place&halfMask
	for i := range uint32(feistelRounds) {
		binary.LittleEndian.PutUint32(n.in[:], i<<halfBits|right)
		n.round.Encrypt(n.out[:], n.in[:])
		left, right = right, left^binary.LittleEndian.Uint32(n.out[:])&halfMask
	}
	return left<<halfBits | right
}

// freeNumber returns the next number that is not a key of m. Numbers below 16 and
// the last one are left to those who give them a meaning.
func freeNumber[V any](n *numbers, m map[uint32]V) uint32 {
	for {
		number := n.at(n.next)
		n.next++ // its upper bits do not count
		if _, taken := m[number]; !taken && number >= 16 && number != 1<<numberBits-1 {
			return number
		}
	}
}
