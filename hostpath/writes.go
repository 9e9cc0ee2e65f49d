package hostpath

import (
	"github.com/nicless/nicless/wqe"
)

// A WriteWR is an RDMA write of one piece of memory. It does not have the fields that a
// SendWR has for other operations, because warps collect many WriteWRs before they post.
type WriteWR struct {
	SGE        SGE
	RemoteAddr uint64
	RKey       uint32
}

// PostWrites posts the writes as PostList does. The last write is signaled. The first write
// also gets the flags in first.
func (q *SharedSQ) PostWrites(list []WriteWR, first Flags) error {
	n := uint64(len(list))
	if n == 0 {
		return nil
	}
	for i := range list {
		if !q.plain(&list[i]) {
			return q.postUnplain(list, first)
		}
	}
	if n > q.size {
		return q.tooLong(n)
	}
	start, previous, ok := q.seq.reserve(n, 0, &q.freed)
	if !ok {
		return ErrFull
	}
	op := &ops[OpWrite]
	flags, last := q.flags(first, fenceFor(previous)), q.flags(Signaled, 0)
	for i := range list {
		// The same as layPointer, but in one loop, for the reason given in run.go.
		at := start + uint64(i)
		b, w := q.block(at), &list[i]
		if i == len(list)-1 {
			flags |= last
		}
		putMove(b, q.firstWord(at, op), wqe.MakeFlagWord(flags, 0), &w.RemoteAddr, &w.RKey, &w.SGE)
		q.slots[at&(q.size-1)] = noted(0, 1, OpWrite)
		flags = q.flags(0, 0)
	}
	q.seq.commit(start, start+n)
	q.Ring()
	return nil
}

// plain reports whether the WQE of a write is one block with one pointer, to 1 to maxLength bytes.
func (q *SharedSQ) plain(w *WriteWR) bool {
	return ops[OpWrite].short&q.short != 0 && w.SGE.Length-1 < maxLength
}

// postUnplain posts writes of which some are not plain: they have no bytes, or more bytes
// than one pointer can name.
func (q *SharedSQ) postUnplain(list []WriteWR, first Flags) error {
	wrs := make([]SendWR, len(list))
	for i := range list {
		wrs[i] = SendWR{
			Op: OpWrite, SGE: []SGE{list[i].SGE}, RemoteAddr: list[i].RemoteAddr, RKey: list[i].RKey,
		}
	}
	wrs[0].Flags = first
	wrs[len(wrs)-1].Flags |= Signaled
	_, err := q.PostList(wrs)
	return err
}
