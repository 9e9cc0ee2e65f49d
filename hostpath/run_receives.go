package hostpath

import (
	"encoding/binary"
	"math/bits"

	"github.com/nicless/nicless/wqe"
)

// layRun posts receives from the beginning of wrs, as long as they have one SGE whose length is not 0
// and there is room. It returns how many it posted. The effect is the same as a PostRecv of each of
// them.
func (q *RQ) layRun(wrs []RecvWR) int {
	if q.posts != nil {
		return 0
	}
	if q.next+uint64(len(wrs))-q.seen > q.size {
		q.seen = q.freed.Observe()
	}
	next, n := q.next, 0
	room := min(uint64(len(wrs)), q.seen+q.size-next)
	le := binary.LittleEndian
	for n < int(room) {
		wr := &wrs[n]
		if len(wr.SGE) != 1 || wr.SGE[0].Length-1 >= maxLength {
			break
		}
		// The same as putRecv and endRecv.
		i, sge := next&(q.size-1), &wr.SGE[0]
		at := i * q.stride
		entry := (*[wqe.DataSize]byte)(q.ring[at : at+wqe.DataSize])
		le.PutUint64(entry[:], bits.ReverseBytes64(uint64(sge.Length&^wqe.InlineFlag)<<32|uint64(sge.LKey)))
		le.PutUint64(entry[wqe.DataAddr:], bits.ReverseBytes64(sge.Addr))
		if q.stride > wqe.DataSize {
			endRecv(q.ring[at:at+q.stride], wqe.DataSize)
		}
		q.ids[i] = wr.ID
		next++
		n++
	}
	q.next = next
	return n
}
