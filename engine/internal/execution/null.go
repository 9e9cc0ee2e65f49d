//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// The null key (control.NullKey): a place without memory. The table of keys does not have it, so
// the fast path leaves its WQEs to the slow path.

// NullBytes is the size of the memory that stands for a null key. Longer transfers go round in it.
const NullBytes = 64 << 10

// nullKey returns a list of n bytes that repeats mem.
func nullKey(mem []byte) object.Mkey {
	n := uint64(len(mem))
	memory := &object.Mkey{Access: control.AccessLocalWrite, Mem: mem, Size: n}
	return object.Mkey{List: []object.Run{{N: n, Found: memory}}, PerRound: n, Rounds: ^uint64(0) / n,
		Size: ^uint64(0)}
}

func NewNullKeys() nullKeys {
	return nullKeys{zeros: nullKey(make([]byte, NullBytes)), sink: nullKey(make([]byte, NullBytes))}
}

// admitNull adds n bytes of the null key to the list l. need is the right that the access needs.
func (sh *mover) admitNull(l *object.List, n uint64, need uint32) {
	k := &sh.Null.zeros
	if need != 0 {
		k = &sh.Null.sink
	}
	l.Add(nil, k, 0, n)
}
