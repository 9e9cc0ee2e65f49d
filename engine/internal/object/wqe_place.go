//go:build linux && (amd64 || arm64)

package object

import "github.com/nicless/nicless/wqe"

// BlocksAt returns how many blocks the WQE at an index has. It returns 0 if no WQE with the
// right index and QPN is there.
func (q *QP) BlocksAt(index uint64) int {
	var b [wqe.CtrlSize]byte
	copy(b[:], q.SQ.Blocks.At(index)[:])
	if h := ParseHead(&b); h.Place() == Place(q.Num, index) && h.Opcode() < 64 &&
		q.Allowed>>h.Opcode()&1 != 0 {
		return h.Blocks()
	}
	return 0
}

// EndsAt reports whether a WQE ends right before block n.
func (q *QP) EndsAt(n uint64) bool {
	for blocks := 1; blocks <= wqe.MaxBlocks; blocks++ {
		if uint64(blocks) <= n && q.BlocksAt(n-uint64(blocks)) == blocks {
			return true
		}
	}
	return false
}

// Place returns the QPN and the index of a WQE at the bit positions that they have in the
// first word of a control segment.
func Place(qpn uint32, index uint64) wqe.OpWord { return wqe.MakeOpWord(0, uint16(index), qpn, 0) }

func (h Head) Place() wqe.OpWord { return h.First.Place() }

// NewlyMisplaced reports whether the index or the QPN of a control segment is wrong in a way
// that has not been explained yet.
func (q *QP) NewlyMisplaced(h Head) bool {
	return !q.SQ.Managed && h.DS() != 0 &&
		((h.First.Index() != uint16(q.SQ.Done) && !q.Suspicion.Index) ||
			(h.First.QPN() != q.Num && !q.Suspicion.QPN))
}
