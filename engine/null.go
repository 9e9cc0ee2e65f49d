//go:build linux && (amd64 || arm64)

package engine

import "github.com/nicless/nicless/internal/control"

// The null key (control.NullKey): a place without memory. The table of keys does not have it, so
// the fast path leaves its WQEs to the slow path.

// nullBytes is the size of the memory that stands for a null key. Longer transfers go round in
// it.
const nullBytes = 64 << 10

// A nullKeys has two keys without a client, which stand for the null key: one where it is read,
// and one where it is written. Each is a list that repeats the same bytes. Every shard has its
// own, so no two shards write the same bytes.
type nullKeys struct{ zeros, sink mkey }

// nullKey returns a list of n bytes that repeats mem.
func nullKey(mem []byte) mkey {
	n := uint64(len(mem))
	memory := &mkey{access: control.AccessLocalWrite, mem: mem, size: n}
	return mkey{list: []run{{n: n, found: memory}}, perRound: n, rounds: ^uint64(0) / n, size: ^uint64(0)}
}

func newNullKeys() nullKeys {
	return nullKeys{zeros: nullKey(make([]byte, nullBytes)), sink: nullKey(make([]byte, nullBytes))}
}

// admitNull adds n bytes of the null key to the list l. need is the right that the access needs.
func (sh *mover) admitNull(l *list, n uint64, need uint32) {
	k := &sh.null.zeros
	if need != 0 {
		k = &sh.null.sink
	}
	l.add(nil, k, 0, n)
}
