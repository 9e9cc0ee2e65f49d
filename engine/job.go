package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// A job is one WQE that has been judged: which bytes go where, and what is to
// be reported afterwards. Small ones are done in one go from the engine's
// scratch; a long one stays with its QP and moves on slice by slice, so that
// nobody waits behind it.
type job struct {
	head    head
	blocks  int // of the WQE
	request request
	src     list
	dst     list
	total   uint64 // bytes to move
	moved   uint64
	peer    *qp    // nil for NOP
	recv    bool   // a receive of the peer is consumed
	index   uint16 // of the receive that was opened
	taken   *srq   // whose receive it is, if shared, until it is consumed
	epoch   uint64 // of keys, when what the job was judged by was last found to be so
	life    uint32 // of peer, likewise

	// What workers have of it, see dma.go.
	lent     int
	by       *worker // who was given the last piece
	recalled bool    // a piece that was lent has not been copied
	fault    uintptr // where memory was missing; 0: nowhere

	inline [wqe.MaxBlocks*wqe.BlockSize + grhSize]byte
}

// A head is the control segment of a WQE as two big-endian words. Its fields
// are cut out where they are needed: a struct of small fields would be stored
// in parts and loaded as a whole, which waits for the stores on every WQE.
type head struct {
	first  uint64 // opmod:8 index:16 opcode:8 qpn:24 ds:8
	second uint64 // signature:8 stream:16 fm_ce_se:8 imm:32
}

func parseHead(b *[wqe.CtrlSize]byte) head {
	return head{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (h head) opcode() wqe.Opcode { return wqe.Opcode(h.first >> 32) }
func (h head) ds() int            { return int(h.first & wqe.MaxUnits) }
func (h head) blocks() int        { return (h.ds() + 3) / 4 }
func (h head) signature() uint8   { return uint8(h.second >> 56) }
func (h head) ce() uint8          { return uint8(h.second>>32) & wqe.CEMask }
func (h head) solicited() bool    { return h.second>>32&wqe.FlagSolicited != 0 }
func (h head) imm() uint32        { return uint32(h.second) }

// over reports whether nothing is left to be moved. Of a job that has met a fault that
// is never so: the next visit finds it.
func (j *job) over() bool { return j.moved >= j.total && j.lent == 0 && j.fault == 0 }

// reads reports whether the WQE brings bytes to its poster.
func (j *job) reads() bool { return j.head.opcode().Info().Reads }

// reset makes j the job of the WQE with this control segment, of which nothing
// has been judged.
func (j *job) reset(h head) {
	j.head, j.blocks = h, h.blocks()
	j.total, j.moved, j.recv, j.peer, j.taken = 0, 0, false, nil, nil
	j.recalled, j.fault = false, 0
	j.src.reset()
	j.dst.reset()
}

// A piece is a run of n bytes, and the key that allows to touch them; nil for
// inline data. Where the key is a list, mem is nil and the bytes are found
// piece by piece, from off on in the key's own count; where it is of memory of
// a process, mem is nil as well.
type piece struct {
	mem []byte
	key *mkey
	off uint64
	n   uint64
}

// A list is pieces in order, and how far they have been used.
type list struct {
	n, at    int
	off      uint64                  // within piece at
	spot     spot                    // likewise, where that is a list itself
	unmapped bool                    // some of it is memory of a process
	piece    [wqe.MaxUnits + 1]piece // one more for a GRH
}

func (l *list) reset() { l.n, l.at, l.off, l.unmapped = 0, 0, 0, false }

// add stores a piece field by field, for the reason given at head.
func (l *list) add(mem []byte, key *mkey, off, n uint64) {
	p := &l.piece[l.n]
	p.mem, p.key, p.off, p.n = mem, key, off, n
	l.n++
}

// next returns the next bytes of the list: at least one, at most n.
func (l *list) next(n uint64) []byte {
	for l.off == l.piece[l.at].n {
		l.at++
		l.off = 0
	}
	p := &l.piece[l.at]
	if p.mem != nil {
		return p.mem[l.off:][:min(n, p.n-l.off)]
	}
	if l.off == 0 {
		l.spot = p.key.seek(p.off)
	}
	return p.key.bytes(l.spot, min(n, p.n-l.off))
}

// advance says that n bytes of what next returned have been used.
func (l *list) advance(n int) {
	l.off += uint64(n)
	if p := &l.piece[l.at]; p.mem == nil {
		p.key.advance(&l.spot, uint64(n))
	}
}

// pieceCost is what a piece costs of a budget of bytes, however short it is, and
// so does an entry of a list that is judged: about the time of so many bytes.
const pieceCost = 64

// move copies within a budget of bytes, and returns how much of it was used,
// more than all by a piece at the most. Both lists hold at least total bytes.
//
// No single copy is longer than a slice, which keeps Go's copy below the 1 MiB
// from which it goes past the caches by itself. What c is for goes by c.
func (j *job) move(budget int, c *copier) (used int) {
	if src, dst := j.src.piece[0].mem, j.dst.piece[0].mem; j.src.n == 1 && j.dst.n == 1 && j.moved == 0 &&
		j.total <= uint64(budget) && src != nil && dst != nil {
		copy(dst[:j.total], src)
		j.moved = j.total
		return int(j.total)
	}
	for (used < budget || j.moved < indivisible) && j.moved < j.total {
		most := min(uint64(max(budget-used, indivisible)), j.total-j.moved)
		dst, src := j.dst.next(most), j.src.next(most)
		var n int
		if c != nil {
			n = c.copy(dst, src)
		} else {
			n = copy(dst, src)
		}
		j.src.advance(n)
		j.dst.advance(n)
		j.moved += uint64(n)
		used += max(n, pieceCost)
	}
	return used
}

// keepJob leaves the scratch job with q, to be gone on with in later steps, and
// takes another as scratch. There is a spare one unless more long transfers are
// under way than ever before; only then memory is allocated.
func (sh *shard) keepJob(q *qp) {
	q.job = sh.scratch.job
	q.job.settle()
	q.job.epoch = sh.epoch.Load()
	if p := q.job.peer; p != nil {
		q.job.life = p.life
	}
	if n := len(sh.scratch.spare); n > 0 {
		sh.scratch.job, sh.scratch.spare = sh.scratch.spare[n-1], sh.scratch.spare[:n-1]
		return
	}
	sh.scratch.job = new(job)
}

// settle copies inline data out of the snapshot, which the next WQE overwrites.
func (j *job) settle() {
	free := j.inline[:]
	for i := range j.src.n {
		if p := &j.src.piece[i]; p.key == nil {
			n := copy(free, p.mem)
			p.mem, free = free[:n:n], free[n:]
		}
	}
}

// parkJob takes q's job from it, if it has one: it has come to its end, or its
// WQE is to be judged anew, from its first byte on. A queue in SQD has stopped
// then; what it had begun and could not end waits for RTS.
func (sh *shard) parkJob(q *qp) {
	if q.job == nil {
		return
	}
	if q.job.lent > 0 {
		sh.recallTasks(q.job, nil, nil)
	}
	sh.putBack(q.job)
	sh.scratch.spare = append(sh.scratch.spare, q.job)
	q.job = nil
	if q.attr.State == control.StateSQD {
		sh.drained(q)
	}
}

// resumeJob reports whether q may go on with its job. If a key or the peer has
// changed since the job was judged, the job is parked instead.
//
// It is asked before each slice, so whoever changes something has nobody to look
// for: that would be every transfer under way, of all clients, for each change.
func (sh *shard) resumeJob(q *qp) bool {
	j, now := q.job, sh.epoch.Load()
	if j.lent > 0 {
		sh.collectTasks()
	}
	if j.recalled || j.peer != nil && j.peer.life != j.life || j.epoch != now && sh.changedSince(j) {
		sh.parkJob(q)
		return false
	}
	j.epoch = now
	return true
}

// changedSince reports whether a key of the job has changed since its epoch.
func (sh *shard) changedSince(j *job) bool {
	for _, l := range []*list{&j.src, &j.dst} {
		for i := l.at; i < l.n; i++ {
			if k := l.piece[i].key; k != nil && sh.lastChange(k) > j.epoch {
				return true
			}
		}
	}
	return false
}
