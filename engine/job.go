//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// A job is one WQE that has been judged: which bytes go where, and what is reported
// afterwards. A short job is done at once, in the shard's scratch. A long job is kept by
// its queue pair and moves its bytes slice by slice, so that other queues need not wait.
type job struct {
	head    head
	blocks  int // number of blocks of the WQE
	request request
	src     list
	dst     list
	findings
	index uint16 // index of the receive that was opened
	epoch uint64 // epoch in which the job's keys were last found unchanged
	life  uint32 // value of peer.life when the job was kept

	// These fields are for pieces that workers copy; see dma.go.
	offloaded  int // number of pieces that workers have
	lastWorker int // index of the worker that was given the last piece

	inline  [wqe.MaxBlocks*wqe.BlockSize + grhSize]byte
	carried [cqe.MaxInline64]byte
}

// Findings are what is found out about a job. All of them are zero when it begins.
type findings struct {
	total    uint64  // bytes to move
	moved    uint64  // bytes moved so far
	cast     uint64  // number of the member that peer is of a multicast group; 0: no datagram to a group
	fault    uintptr // address at which a worker met memory without a page; 0: none
	peer     *qp     // nil if the operation has none
	srq      *srq    // the SRQ from which a receive is taken; nil: the peer's own queue
	shared   *srq    // that SRQ, from when the receive is taken until it is consumed; nil: none is taken
	recv     bool    // a receive of the peer is consumed
	local    bool    // a datagram without a GRH
	carries  bool    // the bytes go to carried, and from there into the CQE
	recalled bool    // a piece was taken back from a worker before it was copied
}

// A head is the control segment of a WQE as two big-endian words. The methods cut its
// fields out of these words where they are needed. A struct of small fields would be stored
// in parts and loaded as a whole, and such a load waits for all the stores.
type head struct {
	first  wqe.OpWord
	second wqe.FlagWord
}

func parseHead(b *[wqe.CtrlSize]byte) head {
	return head{wqe.OpWord(binary.BigEndian.Uint64(b[:8])), wqe.FlagWord(binary.BigEndian.Uint64(b[8:]))}
}

func (h head) opcode() wqe.Opcode { return h.first.Opcode() }
func (h head) ds() int            { return h.first.DS() }
func (h head) blocks() int        { return (h.ds() + 3) / 4 }
func (h head) signature() uint8   { return h.second.Sig() }
func (h head) ce() uint8          { return h.second.CE() }
func (h head) solicited() bool    { return h.second.Flags()&wqe.FlagSolicited != 0 }
func (h head) imm() uint32        { return h.second.Imm() }

// over reports whether nothing is left to be moved. A job that has met a fault is never
// over, so that the next visit handles the fault.
func (j *job) over() bool { return j.moved >= j.total && j.offloaded == 0 && j.fault == 0 }

// reads reports whether the WQE brings bytes to its poster, as READs and atomics do.
func (j *job) reads() bool { return j.head.opcode().Info().Reads }

// reset makes j the job of a WQE with this control segment, before it is judged.
func (j *job) reset(h head) {
	j.head, j.blocks = h, h.blocks()
	j.findings = findings{}
	j.src.reset()
	j.dst.reset()
}

// A piece is n bytes and the key that gives access to them. key is nil for inline data. mem
// is nil if the key is a list or a key for unmapped memory. The piece is then those n bytes
// of the key that begin at the offset off. If the key is a list, they are found run by run; a
// run is an entry of the list.
type piece struct {
	mem []byte
	key *mkey
	off uint64
	n   uint64
}

// A list is pieces in order, and a position in them.
type list struct {
	n, at    int                     // number of pieces; index of the piece at the position
	off      uint64                  // the position in that piece, in bytes
	spot     spot                    // the position in that piece, if its key is a list
	unmapped bool                    // some of the memory is unmapped
	piece    [wqe.MaxUnits + 1]piece // one more than a WQE has units, for a GRH
}

func (l *list) reset() { l.n, l.at, l.off, l.unmapped = 0, 0, 0, false }

// add appends a piece. It stores field by field, for the reason given at head.
func (l *list) add(mem []byte, key *mkey, off, n uint64) {
	p := &l.piece[l.n]
	p.mem, p.key, p.off, p.n = mem, key, off, n
	l.n++
}

// next returns the next contiguous bytes of the list: at least one, at most n.
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

// advance moves the position past n of the bytes that next returned.
func (l *list) advance(n int) {
	l.off += uint64(n)
	if p := &l.piece[l.at]; p.mem == nil {
		p.key.advance(&l.spot, uint64(n))
	}
}

// moveJob copies bytes of a job within a budget of bytes, and returns how much of the budget it used. It may
// use one piece more than the budget. Both lists hold at least total bytes. If c is not
// nil, c does the copying.
//
// No single copy is longer than a slice, because from 1 MiB up Go's copy would bypass the
// caches.
func moveJob(j *job, budget int, c *copying.Copier) (used int) {
	if src, dst := j.src.piece[0].mem, j.dst.piece[0].mem; j.src.n == 1 && j.dst.n == 1 && j.moved == 0 &&
		j.total <= uint64(budget) && src != nil && dst != nil {
		copy(dst[:j.total], src)
		j.moved = j.total
		return int(j.total)
	}
	var at footing
	for (used < budget || j.moved < indivisible) && j.moved < j.total {
		most := min(uint64(max(budget-used, indivisible)), j.total-j.moved)
		dst, src := j.dst.next(most), j.src.next(most)
		var n int
		if c != nil {
			n = c.Copy(dst, src)
		} else {
			n = copy(dst, src)
		}
		j.src.advance(n)
		j.dst.advance(n)
		j.moved += uint64(n)
		used += at.cost(dst, src, n)
	}
	return used
}

// A mover finds memory by keys and moves bytes.
type mover struct {
	completer
	null nullKeys
	dma  dma
}

// keepJob leaves the scratch job with q, for later steps, and takes another job as the
// scratch job. It allocates that job only when more long transfers are in progress than
// ever before.
func (sh *mover) keepJob(q *qp) {
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

// settle copies inline data out of the snapshot, which the next WQE will overwrite.
func (j *job) settle() {
	free := j.inline[:]
	for i := range j.src.n {
		if p := &j.src.piece[i]; p.key == nil {
			n := copy(free, p.mem)
			p.mem, free = free[:n:n], free[n:]
		}
	}
}

// parkJob takes q's job from q, if q has one. Either the job is over, or its WQE will be
// judged again and start from its first byte. If q is in SQD, q has drained once it has no job.
// A WQE that is not done then waits until q is in RTS again.
func (sh *mover) parkJob(q *qp) {
	if q.job == nil {
		return
	}
	if q.job.offloaded > 0 {
		sh.recallTasks(q.job, nil, nil)
	}
	sh.putBack(q.job)
	sh.scratch.spare = append(sh.scratch.spare, q.job)
	q.job = nil
	if q.attr.State == control.StateSQD {
		sh.drained(q)
	}
}

// resumeJob reports whether q may continue its job. If a key or the peer has changed since
// the job was judged, it parks the job and returns false.
//
// It is called before each slice. So a request that changes a key need not search the
// transfers of all clients for those that use the key.
func (sh *mover) resumeJob(q *qp) bool {
	j, now := q.job, sh.epoch.Load()
	if j.offloaded > 0 {
		sh.collectTasks()
	}
	if j.recalled || j.peer != nil && j.peer.life != j.life || j.srq != nil && j.srq.gone || j.epoch != now && sh.changedSince(j) {
		sh.parkJob(q)
		return false
	}
	j.epoch = now
	return true
}

// changedSince reports whether a key of the job has changed since its epoch.
func (sh *mover) changedSince(j *job) bool {
	for _, l := range []*list{&j.src, &j.dst} {
		for i := l.at; i < l.n; i++ {
			if k := l.piece[i].key; k != nil && sh.lastChange(k) > j.epoch {
				return true
			}
		}
	}
	return false
}
