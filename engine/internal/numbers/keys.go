//go:build linux && (amd64 || arm64)

package numbers

import (
	"encoding/binary"
	"io"
)

// An All has the numbers of all kinds of objects of a device.
type All struct {
	QP, CQ, SRQ *Sequence
	Keys        *Keys
}

// A Keys is the source of a device's memory keys. Not safe for concurrent use.
type Keys struct {
	Random io.Reader
	chosen uint32
	choose bool
}

// Choose makes the next read of four bytes return a key, as a little-endian number.
func (k *Keys) Choose(key uint32) { k.chosen, k.choose = key, true }

// Read reads random bytes, or the chosen key.
func (k *Keys) Read(b []byte) (int, error) {
	if k.choose && len(b) == 4 {
		k.choose = false
		binary.LittleEndian.PutUint32(b, k.chosen)
		return 4, nil
	}
	return k.Random.Read(b)
}
