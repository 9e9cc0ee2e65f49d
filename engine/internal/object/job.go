//go:build linux && (amd64 || arm64)

package object

import (
	"encoding/binary"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

// The budget of a visit is counted in bytes, and everything that takes the time of copying so
// many bytes costs so many. A client chooses how its bytes are cut into pieces and where the
// pieces are, so the bytes alone would bound nothing.

// PieceCost is the least number of bytes that a piece costs of a budget. Judging one entry
// of a list costs the same. Each takes about the time of copying this many bytes.
const PieceCost = 64

// Scattered reports whether the list is, or may be, more than one contiguous range of
// memory.
func (l *List) Scattered() bool { return l.N > 1 || l.Piece[0].Mem == nil }

// Touched returns the key of the bytes that next has returned. If that key is a list,
// Touched also returns within, the key of the list's entry that contains these bytes.
func (l *List) Touched() (k, within *Mkey) {
	p := &l.Piece[l.At]
	if p.Mem == nil {
		within = p.Key.List[l.Spot.run].Found
	}
	return p.Key, within
}

// A Job is one WQE that has been judged: which bytes go where, and what is reported
// afterwards. A short job is done at once, in the shard's scratch. A long job is kept by
// its queue pair and moves its bytes slice by slice, so that other queues need not wait.
type Job struct {
	Head    Head
	Blocks  int // number of blocks of the WQE
	Request Request
	Src     List
	Dst     List
	findings
	Index uint16 // index of the receive that was opened
	Epoch uint64 // epoch in which the job's keys were last found unchanged
	Life  uint32 // value of peer.life when the job was kept

	// These fields are for pieces that workers copy; see execution/dma.go.
	Offloaded  int // number of pieces that workers have
	LastWorker int // index of the worker that was given the last piece

	inline  [wqe.MaxBlocks*wqe.BlockSize + GRHSize]byte
	Carried [cqe.MaxInline64]byte
}

// Findings are what is found out about a job. All of them are zero when it begins.
type findings struct {
	Total    uint64  // bytes to move
	Moved    uint64  // bytes moved so far
	Cast     uint64  // number of the member that peer is of a multicast group; 0: no datagram to a group
	Fault    uintptr // address at which a worker met memory without a page; 0: none
	Peer     *QP     // nil if the operation has none
	SRQ      *SRQ    // the SRQ from which a receive is taken; nil: the peer's own queue
	Shared   *SRQ    // that SRQ, from when the receive is taken until it is consumed; nil: none is taken
	Recv     bool    // a receive of the peer is consumed
	Local    bool    // a datagram without a GRH
	Carries  bool    // the bytes go to carried, and from there into the CQE
	Recalled bool    // a piece was taken back from a worker before it was copied
}

// A Head is the control segment of a WQE as two big-endian words. The methods cut its
// fields out of these words where they are needed. A struct of small fields would be stored
// in parts and loaded as a whole, and such a load waits for all the stores.
type Head struct {
	First  wqe.OpWord
	Second wqe.FlagWord
}

func ParseHead(b *[wqe.CtrlSize]byte) Head {
	return Head{wqe.OpWord(binary.BigEndian.Uint64(b[:8])), wqe.FlagWord(binary.BigEndian.Uint64(b[8:]))}
}

func (h Head) Opcode() wqe.Opcode { return h.First.Opcode() }

func (h Head) DS() int { return h.First.DS() }

func (h Head) Blocks() int { return (h.DS() + 3) / 4 }

func (h Head) Signature() uint8 { return h.Second.Sig() }

func (h Head) CE() uint8 { return h.Second.CE() }

func (h Head) Solicited() bool { return h.Second.Flags()&wqe.FlagSolicited != 0 }

func (h Head) Imm() uint32 { return h.Second.Imm() }

// Over reports whether nothing is left to be moved. A job that has met a fault is never
// over, so that the next visit handles the fault.
func (j *Job) Over() bool { return j.Moved >= j.Total && j.Offloaded == 0 && j.Fault == 0 }

// Reads reports whether the WQE brings bytes to its poster, as READs and atomics do.
func (j *Job) Reads() bool { return j.Head.Opcode().Info().Reads }

// Reset makes j the job of a WQE with this control segment, before it is judged.
func (j *Job) Reset(h Head) {
	j.Head, j.Blocks = h, h.Blocks()
	j.findings = findings{}
	j.Src.Reset()
	j.Dst.Reset()
}

// A Piece is n bytes and the key that gives access to them. key is nil for inline data. mem
// is nil if the key is a list or a key for unmapped memory. The piece is then those n bytes
// of the key that begin at the offset off. If the key is a list, they are found run by run; a
// run is an entry of the list.
type Piece struct {
	Mem []byte
	Key *Mkey
	off uint64
	N   uint64
}

// A List is pieces in order, and a position in them.
type List struct {
	N, At    int                     // number of pieces; index of the piece at the position
	Off      uint64                  // the position in that piece, in bytes
	Spot     spot                    // the position in that piece, if its key is a list
	Unmapped bool                    // some of the memory is unmapped
	Piece    [wqe.MaxUnits + 1]Piece // one more than a WQE has units, for a GRH
}

func (l *List) Reset() { l.N, l.At, l.Off, l.Unmapped = 0, 0, 0, false }

// Add appends a piece. It stores field by field, for the reason given at head.
func (l *List) Add(mem []byte, key *Mkey, off, n uint64) {
	p := &l.Piece[l.N]
	p.Mem, p.Key, p.off, p.N = mem, key, off, n
	l.N++
}

// Next returns the next contiguous bytes of the list: at least one, at most n.
func (l *List) Next(n uint64) []byte {
	for l.Off == l.Piece[l.At].N {
		l.At++
		l.Off = 0
	}
	p := &l.Piece[l.At]
	if p.Mem != nil {
		return p.Mem[l.Off:][:min(n, p.N-l.Off)]
	}
	if l.Off == 0 {
		l.Spot = p.Key.Seek(p.off)
	}
	return p.Key.Bytes(l.Spot, min(n, p.N-l.Off))
}

// Advance moves the position past n of the bytes that next returned.
func (l *List) Advance(n int) {
	l.Off += uint64(n)
	if p := &l.Piece[l.At]; p.Mem == nil {
		p.Key.Advance(&l.Spot, uint64(n))
	}
}

// Settle copies inline data out of the snapshot, which the next WQE will overwrite.
func (j *Job) Settle() {
	free := j.inline[:]
	for i := range j.Src.N {
		if p := &j.Src.Piece[i]; p.Key == nil {
			n := copy(free, p.Mem)
			p.Mem, free = free[:n:n], free[n:]
		}
	}
}
