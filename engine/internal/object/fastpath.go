//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// Ordinary reports whether the fast path can handle the control segment of q's next WQE:
// it asks for no event, and nothing about it has to be explained.
func (q *QP) Ordinary(h Head) bool {
	return h.Second.CE() != wqe.CEEvent && (h.First.Place() == Place(q.Num, q.SQ.Done) ||
		!q.NewlyMisplaced(h)) // rule: a wrong index is explained
}

// FastRight returns the right that the remote key must give for a WRITE or a READ from q
// to its peer p. ok says whether the operation can take the fast path.
func (q *QP) FastRight(p *QP, op wqe.Opcode) (need uint32, ok bool) {
	if op != wqe.OpRDMAWrite && op != wqe.OpRDMARead || q.FastOps>>op&1 == 0 {
		return 0, false
	}
	info := op.Info()
	need = uint32(info.Remote)
	return need, p.Attr.Access&need != 0 && // rule: the peer gives the right
		(!info.Reads || p.Attr.MaxDestRdAtomic != 0) // rule: the peer takes READs
}

// FastReceive returns the first piece of q's next receive: its memory, the first word of its data
// segment, and its key. The key is nil if a message of n bytes cannot take the fast path into this
// piece. FastReceive does not read the other pieces of the receive.
func (q *QP) FastReceive(keys *keyTable, n uint64) (mem []byte, piece wqe.DataWord, k *Mkey) {
	at := q.RQ.Done & q.RQ.Mask << q.RQ.Stride
	piece = wqe.DataWord(shm.BE64At(q.RQ.Ring, at).Observe())
	room := piece.ByteCount()
	if room < n || // rule: the receive has room
		piece.Inline() {
		return nil, 0, nil
	}
	k = keys.Find(piece.LKey())
	if k == nil || k.PD != q.PD || k.Access&control.AccessLocalWrite == 0 {
		return nil, 0, nil
	}
	// The whole piece is checked, as by the slow path.
	if mem, ok := k.Span(shm.BE64At(q.RQ.Ring, at+wqe.DataAddr).Observe(), room); ok {
		return mem, piece, k
	}
	return nil, 0, nil
}

const MostSeries = 16

// Payloads returns where the local payloads of a series are: memory, the address of its first byte,
// and the last offset at which a payload of n bytes fits. same has the bits in which the first words
// of the data segments must not differ. k is nil if the payloads are inline.
func (k *Mkey) Payloads(n uint64) (mem []byte, base, last uint64, same wqe.DataWord) {
	if k == nil {
		return nil, 0, 0, ^wqe.MayDifferInline
	}
	return k.Mem, k.Base, uint64(len(k.Mem)) - n, ^wqe.MayDifferPointer
}
