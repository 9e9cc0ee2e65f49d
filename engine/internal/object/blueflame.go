//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// AttachBlueFlame gives q a BlueFlame register. page is where the register's UAR page begins
// in its bank. number is the number of the register in that page, counted from 1.
func (q *QP) AttachBlueFlame(page uint64, number uint8) {
	at := page + doorbell.BFOffset + uint64(number-1)*doorbell.BFRegSize
	q.SQ.BlueFlame = &blueFlame{Half: [2]*shm.Block{shm.BlockAt(q.SQ.Registers.Bytes(), at),
		shm.BlockAt(q.SQ.Registers.Bytes(), at+doorbell.BFHalf)}}
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
// further ahead, the device could not distinguish that from a record that announces too much.
const MostAhead = 1 << 14

// SkipRecord reports whether this visit may skip reading q's record. It counts the visits that do.
func (q *QP) SkipRecord() bool {
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
