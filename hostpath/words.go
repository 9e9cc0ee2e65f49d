package hostpath

import (
	"fmt"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
)

// The configuration of a queue gives its shared memory as slices. The functions in this file
// check the slices once, when the queue is made, and return words and blocks, which the queue
// uses from then on.

// checkMemory checks that b has at least n bytes and that its address is a multiple of align,
// which is a power of two. The first parameter is the name of the memory for the error.
func checkMemory(of string, b []byte, n, align int) error {
	switch {
	case len(b) < n:
		return fmt.Errorf("hostpath: %s of %d bytes; %d are needed", of, len(b), n)
	case !shm.Aligned(b[:align]):
		return fmt.Errorf("hostpath: %s that does not begin on a multiple of %d bytes", of, align)
	}
	return nil
}

// recordWord returns one of the 32-bit words of a doorbell record.
func recordWord(record []byte, word int) (*shm.BE32, error) {
	if err := checkMemory("doorbell record", record, 4*(word+1), 4); err != nil {
		return nil, err
	}
	return shm.BE32At(record, 4*uint64(word)), nil
}

// registerWords returns the two words of a UAR register to which doorbells are written
// alternately: the first word of each half. If the register has only one half, both results
// are the same word. If there is no register, both are nil.
func registerWords(register []byte) (words [2]*shm.BE64, err error) {
	if len(register) == 0 {
		return words, nil
	}
	if err := checkMemory("UAR register", register, 8, 8); err != nil {
		return words, err
	}
	words[0] = shm.BE64At(register, 0)
	words[1] = words[0]
	if len(register) >= doorbell.BFHalf+8 {
		words[1] = shm.BE64At(register, doorbell.BFHalf)
	}
	return words, nil
}

// blueFlame returns the block at the beginning of each half of a BlueFlame register. If there
// is no register, both are nil.
func blueFlame(register []byte) (blocks [2]*shm.Block, err error) {
	if len(register) == 0 {
		return blocks, nil
	}
	if err := checkMemory("BlueFlame register", register, doorbell.BFRegSize, doorbell.BFHalf); err != nil {
		return blocks, err
	}
	return [2]*shm.Block{shm.BlockAt(register, 0), shm.BlockAt(register, doorbell.BFHalf)}, nil
}
