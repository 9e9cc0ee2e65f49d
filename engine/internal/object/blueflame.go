//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// A blueFlame is the BlueFlame register of a queue pair that has one of its own. A WQE
// that the device finds in the register is executed before the record announces it. Then
// only one cache line moves between the processors, instead of two (ring and record). Only
// the record is authoritative; the register is a hint. A WQE that was overwritten in the
// register before the device saw it, or that is unusual in any way, is executed from the
// ring.
type blueFlame struct {
	Half [2]*shm.Block
	Seen [2]uint64 // the first word of each half when it was last read
	Next uint8     // half in which the next WQE is expected; posters alternate between the halves
	Hot  uint8     // number of further visits that read only that half
}

// AttachBlueFlame gives q a BlueFlame register. page is where the register's UAR page begins
// in its bank. number is the number of the register in that page, counted from 1.
func (q *QP) AttachBlueFlame(page uint64, number uint8) {
	at := page + doorbell.BFOffset + uint64(number-1)*doorbell.BFRegSize
	q.SQ.BlueFlame = &blueFlame{Half: [2]*shm.Block{shm.BlockAt(q.SQ.Registers.Bytes(), at), shm.BlockAt(q.SQ.Registers.Bytes(), at+doorbell.BFHalf)}}
}

// Observe marks the present contents of the register as read, because they are WQEs from
// before a reset.
func (f *blueFlame) Observe() {
	f.Hot = 0
	for i, b := range f.Half {
		f.Seen[i] = b.Word(wqe.WordOp)
	}
}

// MostAhead is how many blocks the register may be ahead of the record. If it were much
// further ahead, the device could not tell that from a record that announces too much.
const MostAhead = 1 << 14

// Hot reports whether this visit may skip reading q's record.
func (q *QP) Hot() bool {
	if q.SQ.BlueFlame.Hot == 0 || q.Job != nil || q.SQ.Ahead > MostAhead/2 {
		return false
	}
	q.SQ.BlueFlame.Hot--
	return true
}

// Lags reports whether a send record that seems to announce n new blocks, modulo 2^16, is in
// fact older than the blocks that were executed from the register: it is behind the device by
// at most the number of these blocks. This is possible because posters store the record after
// the register.
func (q *QP) Lags(n uint16) bool { return -n <= q.SQ.Ahead }
