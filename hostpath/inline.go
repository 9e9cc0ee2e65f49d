package hostpath

import (
	"encoding/binary"
	"math/bits"

	"github.com/nicless/nicless/wqe"
)

// Bytes of an inline segment that are all in its first unit, and that are written as two words.
const (
	fewestBytes = 8
	mostBytes   = wqe.UnitSize - wqe.InlineHead
)

// fewBytes reports whether putFewBytes can write data, which may have as many bytes as the parameter most:
// fewestBytes to mostBytes.
func fewBytes(data []byte, most int) bool {
	return uint(len(data)-fewestBytes) <= uint(most-fewestBytes)
}

// fewMost is the most bytes that putFewBytes may write into the queue. It is at least fewestBytes, because
// the form of a request says whether the queue takes as many.
func (q *SendRing) fewMost() int { return min(max(q.shortMax, fewestBytes), mostBytes) }

// putFewBytes writes an inline segment of one unit with two stores. The bytes after the data become 0.
// fewBytes has said that it is possible.
func putFewBytes(unit *[wqe.UnitSize]byte, data []byte) {
	le, n := binary.LittleEndian, len(data)
	head := bits.ReverseBytes32(wqe.InlineFlag | uint32(n))
	le.PutUint64(unit[:], uint64(head)|uint64(le.Uint32(data))<<32)
	// The last eight bytes of the data, without those that are in the first word.
	le.PutUint64(unit[8:], le.Uint64(data[n-8:])>>(8*(mostBytes-n)&63))
}

// putInline writes an inline segment with 1 to wqe.MoveInlineMost bytes.
func putInline(segment *[2 * wqe.UnitSize]byte, data []byte) {
	if fewBytes(data, mostBytes) {
		putFewBytes((*[wqe.UnitSize]byte)(segment[:]), data)
		return
	}
	be.PutUint32(segment[:], wqe.InlineFlag|uint32(len(data)))
	copy(segment[wqe.InlineHead:], data)
}
