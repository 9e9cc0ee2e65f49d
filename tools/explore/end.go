//go:build linux && (amd64 || arm64)

package explore

import (
	"encoding/binary"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// An end is a queue pair, with its memory and what the checker knows of it.
type end struct {
	area
	client   *client
	link     *Link
	number   int
	qpn      uint32
	peer     *end
	cq       queue
	receives *receives
	ring     []byte // send queue
	record   []byte
	register []byte // two halves, written in turn; nil: none
	half     int

	sent   uint16     // index after the last block
	count  int        // work requests of this life
	work   []*request // posted, and not known to have ended
	life   *life
	keyOut bool // its key may be gone
}

// A queue is a completion queue.
type queue struct {
	ring, record []byte
	log          uint
	next         uint64
}

// A request is a work request that was posted.
type request struct {
	Work
	opcode wqe.Opcode
	by     *end
	life   *life
	index  uint16 // of its first block
	slot   int    // place of its bytes in the memory of its end

	sure    bool // it takes a receive, and there were enough when it was posted
	done    bool // without an error
	arrived bool // a receive has completed for it
}

// A life of a queue pair lasts from its connection to the next one.
type life struct {
	peer     *life
	over     bool
	messages []*request // posted, that take a receive
	matched  int        // messages before this one have come to the peer, or never will
	arrived  int        // receives that have completed for messages of the peer
	done     int        // messages that have completed without an error
	failed   []failure
	missing  []*request // of UC, whose bytes have not come
	flushed  bool       // a completion says so

	sendFlushed bool // one of a work request
	broken      bool // the plan, a rule or an error of the peer has put the queue pair into error
}

// A failure is a work request that has failed, but for another reason than that others have.
type failure struct {
	*request
	syndrome cqe.Syndrome
	vendor   uint8
}

// receives is a receive queue.
type receives struct {
	area
	ring   []byte
	ringAt uint64
	record []byte
	number uint32 // of the shared receive queue
	shared bool
	posted uint16
	next   uint16         // that completes next, in a queue that is not shared
	list   map[uint16]int // sizes of those that were posted and have not completed
	stains []stain        // messages that may have come in part
	least  int            // size of the shortest one so far
	keyOut bool           // its key may be gone
}

// index returns the index by which completions name the receive of a count.
func (r *receives) index(count uint16) uint16 {
	if r.shared {
		return count & (slots - 1)
	}
	return count
}

// slot returns where the bytes of a receive are.
func (r *receives) slot(index uint16) int {
	return guard + int(index&(slots-1))*(messageSize+guard)
}

// usable reports whether work can be posted to q.
func (q *end) usable() bool { return !q.client.gone }

// userIndex returns the user index of a queue pair: it uses all 24 bits.
func (q *end) userIndex() uint32 { return 0xabcd00 + uint32(q.number) }

// immediate returns the immediate of a work request: it uses all 32 bits.
func (r *Work) immediate() uint32 { return r.ID * 0x9e3779b1 }

// pattern returns the bytes of a work request.
func pattern(id uint32, n int) []byte {
	b := make([]byte, n)
	x := id*0x9e3779b1 + 1
	for i := range b {
		if i%4 == 0 {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
		}
		b[i] = byte(x >> (i % 4 * 8))
	}
	return b
}

// post posts work requests with one doorbell. If there is a register, the device is stepped between the
// register and the record: it may execute what is in the register before the record says that it is posted.
func (w *world) post(q *end, list []Work, steps int) error {
	if !q.usable() {
		return nil
	}
	from := q.sent
	for i := range list {
		if len(q.work) >= mostWork || len(q.ring) < (q.blocks(0)+mostBlocks)*wqe.BlockSize {
			break
		}
		x := list[i]
		x.Silent = x.Silent && q.blocks(q.signaled()) <= mostUnasked
		if err := w.write(q, &x); err != nil {
			return err
		}
	}
	if q.register != nil && q.sent != from {
		q.ringRegister(from)
		for range steps {
			w.e.Step()
		}
	}
	put32(q.record[4:], uint32(q.sent))
	return nil
}

// blocks returns how many blocks are in use, from a work request on.
func (q *end) blocks(from int) int {
	if from == len(q.work) {
		return 0
	}
	return int(q.sent - q.work[from].index)
}

// signaled returns after which work request, of those under way, none has a signal.
func (q *end) signaled() int {
	n := len(q.work)
	for n > 0 && q.work[n-1].Silent {
		n--
	}
	return n
}

// ringRegister writes a WQE of one block, or a doorbell, to the register.
func (q *end) ringRegister(from uint16) {
	half := shm.BlockAt(q.register, uint64(q.half)*doorbell.BFHalf)
	q.half ^= 1
	if q.sent-from == 1 {
		at := int(from) * wqe.BlockSize % len(q.ring)
		half.PublishHead((*[wqe.BlockSize]byte)(q.ring[at:]))
		return
	}
	half.PublishFirst(uint64(doorbell.MakeRing(q.sent, q.qpn)))
}

// clearRegister takes out what was posted before a reset.
func (q *end) clearRegister() {
	for i := range q.register {
		q.register[i] = 0
	}
}

// write writes one WQE.
func (w *world) write(q *end, x *Work) error {
	r := &request{Work: *x, opcode: opcodes[x.Op], by: q, life: q.life, index: q.sent,
		slot: localAt + q.count%mostWork*messageSize}
	info := r.opcode.Info()
	b := wqe.Start(q.ring, q.sent)
	if q.link.Transport == ud && r.opcode != wqe.OpNop {
		b.AV(wqe.AV{CompactAV: wqe.CompactAV{Key: wqe.UDKey(qkey), Ext: true, DQP: q.peer.qpn}, GRH: 1 << 30})
	}
	if remote(r.opcode) {
		at := uint64(targetAt)
		switch {
		case r.opcode == wqe.OpRDMARead:
			at = readAt
		case info.Atomic():
			at = wordsAt
		}
		b.Raddr(wqe.Raddr{Addr: q.peer.addr + at + uint64(r.At), RKey: q.peer.key})
	}
	if info.Atomic() {
		b.Atomic(wqe.Atomic{SwapAdd: r.Operand, Compare: r.Compare})
	}
	fetches := info.Atomic() || r.opcode == wqe.OpRDMARead
	switch {
	case r.opcode == wqe.OpNop:
	case r.Inline && !fetches:
		b.Inline(pattern(r.ID, r.N))
	default:
		if !fetches {
			copy(q.mem[r.slot:], pattern(r.ID, r.N))
			copy(q.shadow[r.slot:], pattern(r.ID, r.N))
		}
		pieces(r.slot, r.N, r.Pieces, func(at, n int) {
			b.Data(wqe.Data{Addr: q.addr + uint64(at), LKey: q.key, ByteCount: uint32(n)})
		})
	}
	ctrl := wqe.Ctrl{Opcode: r.opcode, QPN: q.qpn, Imm: r.immediate(), Flags: wqe.CEAlways}
	if r.Silent {
		ctrl.Flags = wqe.CEOnError
	}
	if r.Fence {
		ctrl.Flags |= wqe.FenceVerbs
	}
	blocks, err := b.Finish(ctrl)
	if err != nil {
		return err
	}
	q.sent += uint16(blocks)
	q.count++
	q.work = append(q.work, r)
	if takesReceive(r.opcode) {
		r.sure = q.finds(r.opcode, r.N)
		q.life.messages = append(q.life.messages, r)
	}
	w.seen.Work++
	return nil
}

// finds reports whether a message that is posted to q next, with n bytes, will find a receive for certain,
// and cannot be taken for an earlier one. The receives of a shared queue may go to messages that are posted
// later.
func (q *end) finds(op wqe.Opcode, n int) bool {
	waiting := len(q.life.messages) - q.life.matched
	r := q.peer.receives
	return !r.shared && waiting < len(r.list) && (op != wqe.OpSend || n >= 4)
}

// pieces calls f for each of the pieces into which n bytes are divided.
func pieces(at, n, of int, f func(at, n int)) {
	for left := max(of, 1); n > 0; left-- {
		k := (n + left - 1) / left
		f(at, k)
		at, n = at+k, n-k
	}
}

func remote(op wqe.Opcode) bool {
	switch op {
	case wqe.OpSend, wqe.OpSendImm, wqe.OpNop:
		return false
	}
	return true
}

func takesReceive(op wqe.Opcode) bool {
	return op == wqe.OpSend || op == wqe.OpSendImm || op == wqe.OpRDMAWriteImm
}

// receive posts receives of a size.
func (w *world) receive(q *end, n, size int) {
	r := q.receives
	if !q.usable() {
		return
	}
	most := slots
	if r.shared {
		most-- // the last entry is no receive
	}
	for range n {
		index := r.index(r.posted)
		if _, busy := r.list[index]; busy || len(r.list) >= most {
			break
		}
		r.put(size)
	}
	r.least = min(r.least, size)
	put32(r.record, uint32(r.posted))
}

// put writes a receive.
func (r *receives) put(size int) {
	index := r.index(r.posted)
	b := r.ring[int(index&(slots-1))<<logStride:][:1<<logStride]
	clear(b)
	if r.shared {
		wqe.SRQNext{Next: (index + 1) & (slots - 1)}.Put((*[wqe.SRQNextSize]byte)(b))
		b = b[wqe.SRQNextSize:]
	}
	d := wqe.Data{Addr: r.addr + uint64(r.slot(index)), LKey: r.key, ByteCount: uint32(size)}
	if size == 0 {
		d = wqe.Data{LKey: wqe.KeyEnd}
	}
	d.Put((*[wqe.UnitSize]byte)(b))
	if !r.shared {
		wqe.Data{LKey: wqe.KeyEnd}.Put((*[wqe.UnitSize]byte)(b[wqe.UnitSize:]))
	}
	r.posted++
	r.list[index] = size
}

// qkey is the qkey of all UD queue pairs.
const qkey = 0x1ee7

// connect takes two queue pairs from RST to RTS.
func (w *world) connect(a, b *end) error {
	a.life, b.life = &life{}, &life{}
	a.life.peer, b.life.peer = b.life, a.life
	for _, q := range []*end{a, b} {
		for _, at := range []*control.QPAttr{q.toInit(), q.toRTR(w.d.GUID())} {
			if err := q.client.call(control.OpModifyQP, at, &control.Empty{}); err != nil {
				return err
			}
		}
	}
	for _, q := range []*end{a, b} {
		if err := q.client.call(control.OpModifyQP, q.toRTS(), &control.Empty{}); err != nil {
			return err
		}
	}
	return nil
}

// toInit, toRTR and toRTS return the attributes of a transition.
func (q *end) toInit() *control.QPAttr {
	a := &control.QPAttr{QPN: q.qpn, State: control.StateINIT, Port: 1,
		Mask: control.AttrState | control.AttrPKeyIndex | control.AttrPort}
	if q.link.Transport == ud {
		a.Mask |= control.AttrQKey
		a.QKey = qkey
		return a
	}
	a.Mask |= control.AttrAccess
	a.Access = control.AccessAll &^ control.AccessZeroBased
	return a
}

func (q *end) toRTR(guid uint64) *control.QPAttr {
	a := &control.QPAttr{QPN: q.qpn, State: control.StateRTR, GUID: guid, PathMTU: 5, DestQPN: q.peer.qpn,
		MaxDestRdAtomic: 4, MinRNRTimer: q.link.MinRNRTimer, Mask: control.AttrState}
	if q.link.Transport != ud {
		a.Mask |= control.AttrAV | control.AttrPathMTU | control.AttrDestQPN | control.AttrRQPSN
	}
	if q.link.reliable() {
		a.Mask |= control.AttrMaxDestRdAtom | control.AttrMinRNRTimer
	}
	return a
}

func (q *end) toRTS() *control.QPAttr {
	l := q.link
	a := &control.QPAttr{QPN: q.qpn, State: control.StateRTS, Timeout: l.Timeout, RetryCount: l.RetryCount,
		RNRRetry: l.RNRRetry, MaxRdAtomic: 4, Mask: control.AttrState | control.AttrSQPSN}
	if l.reliable() {
		a.Mask |= control.AttrTimeout | control.AttrRetryCount | control.AttrRNRRetry |
			control.AttrMaxRdAtomic
	}
	return a
}

// modify brings a queue pair to RST or ERR.
func (q *end) modify(state uint8) error {
	a := &control.QPAttr{QPN: q.qpn, Mask: control.AttrState, State: state}
	return q.client.call(control.OpModifyQP, a, &control.Empty{})
}

// word returns what is to be in a word for atomics.
func (q *end) word(at int) uint64 { return binary.LittleEndian.Uint64(q.shadow[wordsAt+at:]) }
