//go:build linux && (amd64 || arm64)

package torture

import (
	"bytes"
	"fmt"

	"github.com/nicless/nicless"
)

// poison fills memory that should not be written.
const poison = 0x5c

var poisoned = bytes.Repeat([]byte{poison}, 1<<16)

func poisonAll(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, poisoned):]
	}
}

// isPoison reports whether all of b still has the bytes of poisonAll.
func isPoison(b []byte) bool {
	for len(b) > len(poisoned) {
		if !bytes.Equal(b[:len(poisoned)], poisoned) {
			return false
		}
		b = b[len(poisoned):]
	}
	return bytes.Equal(b, poisoned[:len(b)])
}

const (
	areaSize = window*slotSize + largeSize
	recvSize = slotSize
)

// memory is the registered memory of one flow. Each part has only the rights that it
// needs.
type memory struct {
	key    uint64        // determines the bytes of the source
	target *nicless.MR   // slots that the peer writes to
	local  *nicless.MR   // slots of local data: gathered from, or scattered to
	source *nicless.MR   // read by the peer; never changes
	recv   *nicless.MR   // receive buffers; nil: the shared queue is used
	words  *nicless.MR   // targets of the peer's atomics
	all    []*nicless.MR // all of the above that are not nil
}

func newMemory(pd *nicless.PD, key uint64, receives int) (*memory, error) {
	m := &memory{key: key}
	for _, part := range []struct {
		mr     **nicless.MR
		size   int
		access nicless.Access
	}{
		{&m.target, areaSize, nicless.LocalWrite | nicless.RemoteWrite | nicless.MWBind},
		{&m.local, areaSize, nicless.LocalWrite},
		{&m.source, sourceSize, nicless.RemoteRead},
		{&m.recv, receives * recvSize, nicless.LocalWrite},
		{&m.words, 4096, nicless.LocalWrite | nicless.RemoteAtomic},
	} {
		if part.size == 0 {
			continue
		}
		mr, err := pd.RegisterMemory(part.size, part.access)
		if err != nil {
			return nil, err
		}
		*part.mr = mr
		m.all = append(m.all, mr)
	}
	pattern(m.source.Bytes(), key, 0)
	return m, nil
}

// renew prepares the memory for a new connection.
func (m *memory) renew() {
	poisonAll(m.target.Bytes())
	poisonAll(m.local.Bytes())
	if m.recv != nil {
		poisonAll(m.recv.Bytes())
	}
	clear(m.words.Bytes())
}

func (m *memory) close() error {
	for _, mr := range m.all {
		if err := mr.Close(); err != nil {
			return err
		}
	}
	return nil
}

// slot returns where the slot of an operation begins in an area, and its size.
func slot(o *Operation) (off, size int) {
	if o.Large {
		return window * slotSize, largeSize
	}
	return int(o.N%window) * slotSize, slotSize
}

// A span is a part of memory.
type span struct{ off, n int }

// remoteSpan is where an operation writes to the target.
func remoteSpan(o *Operation) span {
	off, _ := slot(o)
	return span{off + guard + o.At, o.Len}
}

// localSpans appends the spans of the local pieces of an operation. The spans have gaps between
// them, so that mixed-up pieces are detected.
func localSpans(dst []span, o *Operation) []span {
	off, size := slot(o)
	used := o.Len + (len(o.Pieces)+1)*guard
	off += guard + o.At%max(1, size-used)
	for _, n := range o.Pieces {
		dst = append(dst, span{off, n})
		off += n + guard
	}
	return dst
}

// compare checks that the spans of b hold the bytes of want and that the bytes around the spans
// are poison.
func compare(b []byte, spans []span, want []byte) error {
	for _, s := range spans {
		if i := differ(b[s.off:s.off+s.n], want[:s.n]); i >= 0 {
			return &mismatch{fmt.Sprintf("byte %d of %d at offset %d is %#02x", i, s.n, s.off, b[s.off+i]), fmt.Sprintf("%#02x there", want[i])}
		}
		want = want[s.n:]
	}
	for _, s := range spans {
		before, after := max(0, s.off-guard), min(len(b), s.off+s.n+guard)
		if !isPoison(b[before:s.off]) || !isPoison(b[s.off+s.n:after]) {
			return fmt.Errorf("bytes beside the %d bytes at offset %d were overwritten", s.n, s.off)
		}
	}
	return nil
}

// A mismatch is a byte that is not as it must be.
type mismatch struct{ found, want string }

func (m *mismatch) Error() string { return m.found }

// differ returns the index of the first difference between a and b, or -1 if there is none.
func differ(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// intact checks the bytes that must not change while operations are in flight: the source, and
// the edges of all slots and receive buffers.
func (m *memory) intact() error {
	if err := m.sourceIntact(); err != nil {
		return err
	}
	for name, b := range map[string][]byte{"target": m.target.Bytes(), "local": m.local.Bytes()} {
		for i := range window + 1 {
			off, size := slot(&Operation{N: uint64(i), Large: i == window})
			if !isPoison(b[off:off+guard]) || !isPoison(b[off+size-guard:off+size]) {
				return fmt.Errorf("%s memory: the edge of slot %d was overwritten", name, i)
			}
		}
	}
	if m.recv != nil {
		return edgesIntact(m.recv.Bytes())
	}
	return nil
}

// edgesIntact checks the bytes between receive buffers.
func edgesIntact(b []byte) error {
	for i := 0; i < len(b); i += recvSize {
		if !isPoison(b[i:i+guard]) || !isPoison(b[i+recvSize-guard:i+recvSize]) {
			return fmt.Errorf("the edge of receive buffer %d was overwritten", i/recvSize)
		}
	}
	return nil
}

// untouched checks that all memory is as it was at the start. It is called when no operation is
// in flight.
func (m *memory) untouched() error {
	for name, mr := range map[string]*nicless.MR{"target": m.target, "local": m.local, "receive": m.recv} {
		if mr != nil && !isPoison(mr.Bytes()) {
			return fmt.Errorf("%s memory was overwritten outside of operations", name)
		}
	}
	return m.sourceIntact()
}

func (m *memory) sourceIntact() error {
	b := m.source.Bytes()
	var want [4096]byte
	for off := 0; off < len(b); off += len(want) {
		pattern(want[:], m.key, off)
		if i := differ(b[off:off+len(want)], want[:]); i >= 0 {
			return &mismatch{fmt.Sprintf("source memory: byte %d is %#02x", off+i, b[off+i]), fmt.Sprintf("%#02x there", want[i])}
		}
	}
	return nil
}
