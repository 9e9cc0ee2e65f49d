package trace

import "fmt"

// A ChangedPart says which bytes an event of kind KindChanged is about.
type ChangedPart uint16

const (
	ChangedSource       ChangedPart = iota // those that a WQE sends
	ChangedBuffer                          // those that a receive of a queue pair is to fill
	ChangedSharedBuffer                    // those that a receive of a shared receive queue is to fill
	ChangedWQE                             // the WQE itself
	ChangedEntry                           // the entry of a receive of a queue pair
	ChangedSharedEntry                     // the entry of a receive of a shared receive queue
)

var changedNames = [...]string{"source", "buffer", "shared-buffer", "wqe", "entry", "shared-entry"}

// String returns the part in one lower-case word, as it is in JSON.
func (p ChangedPart) String() string {
	if int(p) < len(changedNames) {
		return changedNames[p]
	}
	return fmt.Sprintf("part-%d", uint16(p))
}

// Shared reports whether Queue of the event is a shared receive queue.
func (p ChangedPart) Shared() bool { return p == ChangedSharedBuffer || p == ChangedSharedEntry }

// A Change says which bytes of a piece of memory have changed: the data of an event of kind KindChanged of
// the parts up to ChangedSharedBuffer.
type Change struct {
	Addr   uint64 // of the piece, as the list has it
	Length uint64 // bytes of it
	Key    uint32
	Was    uint32 // Checksum of the piece when the device found it
	Is     uint32 // Checksum of the piece now
}

// ChangeSize is the bytes of a Change.
const ChangeSize = 28

// Append appends the bytes of c to b, in the order of its fields.
func (c Change) Append(b []byte) []byte {
	b = le.AppendUint64(le.AppendUint64(b, c.Addr), c.Length)
	return le.AppendUint32(le.AppendUint32(le.AppendUint32(b, c.Key), c.Was), c.Is)
}

// ParseChange returns the Change in b, which may have further bytes.
func ParseChange(b []byte) (Change, error) {
	if len(b) < ChangeSize {
		return Change{}, fmt.Errorf("trace: %d bytes of a change; it has %d", len(b), ChangeSize)
	}
	return Change{le.Uint64(b), le.Uint64(b[8:]),
		le.Uint32(b[16:]), le.Uint32(b[20:]), le.Uint32(b[24:])}, nil
}
