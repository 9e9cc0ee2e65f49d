package pool

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/nicless/nicless/internal/nic"
)

// An index finds nodes by what names them. One goroutine changes it while others read it: it replaces the
// bucket in which a key is, of which there are as many as make the bucket of a key short with 1,024 nodes and
// few addresses each. Nodes choose their addresses, but no node knows the seed, so none can fill one bucket.
type index [256]atomic.Pointer[[]named]

// A named is a node that has a key.
type named struct {
	key  key
	node int32
}

// A key is a GUID, a GID or a LID.
type key struct {
	by    byte
	value [16]byte
}

const (
	byGUID = iota
	byGID
	byLID
)

func guidKey(guid uint64) key {
	k := key{by: byGUID}
	be.PutUint64(k.value[:], guid)
	return k
}

func lidKey(lid uint16) key {
	k := key{by: byLID}
	be.PutUint16(k.value[:], lid)
	return k
}

// keyOf returns the key by which an address names a node. No node has a LID of 0.
func keyOf(to *nic.Address) key {
	switch {
	case to.GUID != 0:
		return guidKey(to.GUID)
	case to.GID != [16]byte{}:
		return key{by: byGID, value: to.GID}
	}
	return lidKey(to.LID)
}

var indexSeed = maphash.MakeSeed()

func (x *index) bucket(k key) *atomic.Pointer[[]named] {
	return &x[maphash.Comparable(indexSeed, k)%uint64(len(x))]
}

// nodes returns the bucket of a key, in the order of the nodes' numbers. Other keys are in it, too.
func (x *index) nodes(k key) []named {
	if b := x.bucket(k).Load(); b != nil {
		return *b
	}
	return nil
}

// add notes that a node has a key.
func (x *index) add(k key, node int) {
	old, n := x.nodes(k), named{k, int32(node)}
	if slices.Contains(old, n) {
		return
	}
	at := 0
	for at < len(old) && old[at].node <= n.node {
		at++
	}
	bucket := make([]named, 0, len(old)+1)
	bucket = append(append(append(bucket, old[:at]...), n), old[at:]...)
	x.bucket(k).Store(&bucket)
}

// remove notes that a node has a key no more.
func (x *index) remove(k key, node int) {
	n := named{k, int32(node)}
	bucket := slices.DeleteFunc(slices.Clone(x.nodes(k)), func(o named) bool { return o == n })
	x.bucket(k).Store(&bucket)
}
