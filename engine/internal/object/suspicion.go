//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/wqe"
)

// A Suspicion is what a queue pair has been suspected of since RST. It also holds what has
// been explained, so that nothing is explained twice.
type Suspicion struct {
	Record    uint32 // value of the last send record that was explained, plus one; 0: none
	Suspected codes.Code
	Since     uint64 // device clock at which suspected was first found; 0: nothing is suspected
	Said      bool   // suspected has been explained
	Index     bool   // a wrong index in a control segment has been explained
	QPN       bool   // a wrong QPN in a control segment has been explained
	Waits     bool   // it has been explained that the queue waits for ever
	Receive   bool   // a receive record in host byte order has been explained
	Reborn    bool   // the ring may hold WQEs from before a reset
}

// BlocksAt returns how many blocks the WQE at an index has. It returns 0 if no WQE with the
// right index and QPN is there.
func (q *QP) BlocksAt(index uint64) int {
	var b [wqe.CtrlSize]byte
	copy(b[:], q.SQ.Blocks.At(index)[:])
	if h := ParseHead(&b); h.Place() == Place(q.Num, index) && h.Opcode() < 64 && q.Allowed>>h.Opcode()&1 != 0 {
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

// MisplacedNews reports whether the index or the QPN of a control segment is wrong in a way
// that has not been explained yet.
func (q *QP) MisplacedNews(h Head) bool {
	return !q.SQ.Managed && h.DS() != 0 &&
		(h.First.Index() != uint16(q.SQ.Done) && !q.Suspicion.Index || h.First.QPN() != q.Num && !q.Suspicion.QPN)
}
