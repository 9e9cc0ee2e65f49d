package trace

import "fmt"

// Values of Index in an event of kind KindKey.
const (
	KeyGone    = 0
	KeyMade    = 1
	KeyChanged = 2
)

// A KeyInfo says what a memory key gives access to: the data of an event of kind KindKey.
type KeyInfo struct {
	Addr   uint64 // first address of the memory, as work requests give it
	Length uint64 // bytes
	Client uint32 // number of the client that the key belongs to
}

// KeyInfoSize is the bytes of a KeyInfo.
const KeyInfoSize = 20

// Append appends the bytes of k to b.
func (k KeyInfo) Append(b []byte) []byte {
	return le.AppendUint32(le.AppendUint64(le.AppendUint64(b, k.Addr), k.Length), k.Client)
}

// ParseKeyInfo returns the KeyInfo in b, which may have further bytes.
func ParseKeyInfo(b []byte) (KeyInfo, error) {
	if len(b) < KeyInfoSize {
		return KeyInfo{}, fmt.Errorf("trace: %d bytes of a key; it has %d", len(b), KeyInfoSize)
	}
	return KeyInfo{le.Uint64(b), le.Uint64(b[8:]), le.Uint32(b[16:])}, nil
}
