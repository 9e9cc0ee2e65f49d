package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// The reference model says what the device must do, without rings, slices, snapshots or
// time. Work requests are values, each key has a Go slice as its memory, and each command
// is carried out at once and completely. TestProgramsAgreeWithTheModel runs random programs
// on the model and on the engine.

// A modelKey is registered memory.
type modelKey struct {
	owner  int // number of the client that has the key; each client has one domain
	access uint32
	mem    []byte
	gone   bool
}

func (k *modelKey) gives(owner int, need uint32) bool {
	return !k.gone && k.owner == owner && k.access&need == need
}

// A span names a part of a key. The part may be outside the key, or the key may be stale.
type span struct {
	key   *modelKey
	stale bool // the key is named with another variant
	off   int  // first byte; may be outside the key
	n     int
}

// bytes returns the memory of the span, or nil if owner may not use that memory with this
// right.
func (s span) bytes(owner int, need uint32) []byte {
	if s.stale || !s.key.gives(owner, need) || s.off < 0 || s.off+s.n > len(s.key.mem) {
		return nil
	}
	return s.key.mem[s.off : s.off+s.n]
}

// A modelWQE is a work request as its poster means it.
type modelWQE struct {
	op      wqe.Opcode
	ce      uint8
	local   []span
	inline  []byte
	remote  span
	imm     uint32
	add     uint64 // operand of atomics
	compare uint64
	index   uint16
	blocks  int
	srq     *modelRQ // on an XRC queue pair: the SRQ that it names; nil: a number that no SRQ has
}

// A modelWC is a completion, with the fields that the model knows.
type modelWC struct {
	syndrome cqe.Syndrome
	op       cqe.WCOpcode // if syndrome is 0: the operation that succeeded
	n        int          // if syndrome is 0: number of bytes
	imm      uint32
	index    uint16
}

// A modelRQ is a receive queue: that of a queue pair, or a shared one of an XRC domain.
type modelRQ struct {
	domain   int    // number of the client whose keys the receives and the requests of peers name
	entries  uint16 // if shared: how many entries the ring has, after which the indices begin anew
	recvs    [][]span
	received uint16 // index of the next receive
	recvWC   []modelWC
	gone     bool // the shared queue was destroyed
}

// A modelQP is a queue pair on a reliable connection, or on an extended one (XRC).
type modelQP struct {
	modelRQ
	owner    int
	xrc      bool // sends or receives by XRC
	state    uint8
	dest     *modelQP
	access   uint32
	rnrRetry uint8
	sends    []modelWQE
	failed   bool
	waits    cqe.Syndrome // if the next send waits: the error with which the wait would end
	sendWC   []modelWC
}

type model struct {
	qps  []*modelQP
	wire bool // requests travel over a cable
}

func (q *modelQP) listens() bool {
	return q.state == control.StateRTR || q.state == control.StateRTS
}

// reset drops all state.
func (q *modelQP) reset() {
	*q = modelQP{modelRQ: modelRQ{domain: q.owner}, owner: q.owner, xrc: q.xrc}
}

// responder returns the receive queue that the next send of q is for, and whose client's memory it
// may use. It returns nil if the send names an SRQ that does not exist.
func (q *modelQP) responder() *modelRQ {
	if q.xrc {
		s := q.sends[0].srq
		if s == nil || s.gone {
			return nil
		}
		return s
	}
	return &q.dest.modelRQ
}

// run carries out everything that can be carried out.
func (m *model) run() {
	for again := true; again; {
		again = false
		for _, q := range m.qps {
			for q.step(false) || m.wire && q.sendsAgain() {
				again = true
			}
		}
	}
}

// expire makes every timer run out, which ends every wait that has a timer.
func (m *model) expire() {
	m.run()
	for again := true; again; {
		again = false
		for _, q := range m.qps {
			if q.step(true) {
				again = true
				m.run()
			}
		}
	}
}

// waitsForEver reports whether a queue pair waits with a timer that never runs out.
func (m *model) waitsForEver() bool {
	for _, q := range m.qps {
		if q.state == control.StateRTS && len(q.sends) > 0 && q.patient() {
			return true
		}
	}
	return false
}

// waiting counts the queue pairs that wait.
func (m *model) waiting() (n int) {
	for _, q := range m.qps {
		if q.state == control.StateRTS && len(q.sends) > 0 {
			n++
		}
	}
	return n
}

// step carries out the next entry in q's queues, if there is an entry that can be carried
// out. If late is true, the timers of stalled queues have run out.
func (q *modelQP) step(late bool) bool {
	switch q.state {
	case control.StateERR:
		q.waits = 0
		if len(q.sends) > 0 {
			q.fail(cqe.Flush)
			return true
		}
		if len(q.recvs) > 0 {
			q.receive(modelWC{syndrome: cqe.Flush})
			return true
		}
		return false
	case control.StateRTS:
		if len(q.sends) == 0 {
			return false
		}
		// A stalled send is checked again only when the reason to wait is gone.
		if q.waits != 0 && !q.cleared() {
			return late && !q.patient() && q.fail(q.waits)
		}
		q.waits = 0
		return q.execute(q.sends[0])
	}
	return false
}

// sendsAgain checks the local memory of a send that waits for the peer. If it may not be used any more,
// the send fails.
func (q *modelQP) sendsAgain() bool {
	if q.state != control.StateRTS || q.waits == 0 || len(q.sends) == 0 {
		return false
	}
	_, _, ok := q.sends[0].gather(q.owner)
	return !ok && !q.sends[0].postpones(q.owner) && q.fail(cqe.LocalProtection)
}

func (q *modelQP) reaches(p *modelQP) bool {
	return p != nil && p.listens() && p.dest == q && p.xrc == q.xrc
}

// cleared reports whether the reason to wait is gone, or has become another.
func (q *modelQP) cleared() bool {
	if q.waits == cqe.TransportRetry {
		return q.reaches(q.dest)
	}
	if !q.reaches(q.dest) {
		return true
	}
	r := q.responder()
	return r == nil || len(r.recvs) > 0
}

// patient reports whether q waits for ever.
func (q *modelQP) patient() bool { return q.waits == cqe.RNRRetry && q.rnrRetry == 7 }

// fail completes the next send with an error.
func (q *modelQP) fail(s cqe.Syndrome) bool {
	w := q.sends[0]
	q.sends, q.waits = q.sends[1:], 0
	if w.ce != wqe.CEFirstError || !q.failed {
		q.failed = true
		q.sendWC = append(q.sendWC, modelWC{syndrome: s, index: w.index})
	}
	q.state = control.StateERR
	return true
}

// receive completes the next receive.
func (r *modelRQ) receive(w modelWC) {
	w.index = r.received
	r.received++
	if r.received == r.entries && r.entries != 0 {
		r.received = 0
	}
	r.recvs = r.recvs[1:]
	r.recvWC = append(r.recvWC, w)
}

// succeed completes the next send.
func (q *modelQP) succeed(op cqe.WCOpcode, n int) bool {
	w := q.sends[0]
	q.sends = q.sends[1:]
	if w.ce >= wqe.CEAlways {
		q.sendWC = append(q.sendWC, modelWC{op: op, n: n, index: w.index})
	}
	return true
}

// refuse fails the next send and puts the peer into error too.
func (q *modelQP) refuse(s cqe.Syndrome) bool {
	q.dest.state = control.StateERR
	return q.fail(s)
}

func (w modelWQE) atomic() bool { return w.op == wqe.OpAtomicFA || w.op == wqe.OpAtomicCS }

func (w modelWQE) fetches() bool { return w.op == wqe.OpRDMARead || w.atomic() }

// gather returns the bytes of each span of the local list, by reference, and their number. ok is false if
// there are spans that may not be used.
func (w modelWQE) gather(owner int) (mem [][]byte, n int, ok bool) {
	need := uint32(0)
	if w.fetches() {
		need = control.AccessLocalWrite
	}
	ok = true
	for _, s := range w.local {
		b := s.bytes(owner, need)
		ok = ok && b != nil
		mem = append(mem, b)
		n += s.n
	}
	return mem, n, ok
}

// postpones reports whether spans that may not be used fail the work request only when its answer comes. The
// device takes the second span of an atomic for a mistake in the size of the WQE.
func (w modelWQE) postpones(owner int) bool {
	return w.fetches() && (!w.atomic() || w.local[0].bytes(owner, control.AccessLocalWrite) == nil)
}

// spread copies data over the pieces of mem, in order.
func spread(mem [][]byte, data []byte) {
	for _, b := range mem {
		data = data[copy(b, data):]
	}
}

func join(mem [][]byte) (data []byte) {
	for _, b := range mem {
		data = append(data, b...)
	}
	return data
}

// execute carries out the next send of q. It returns false if the send has to wait for the
// peer.
func (q *modelQP) execute(w modelWQE) bool {
	if w.op == wqe.OpNop {
		return q.succeed(cqe.WCFromPost, 0)
	}
	mem, n, ok := w.gather(q.owner)
	if !ok && !w.postpones(q.owner) {
		return q.fail(cqe.LocalProtection)
	}
	data := append(append([]byte(nil), w.inline...), join(mem)...)
	n += len(w.inline)
	if w.atomic() && n != 8 {
		return q.fail(cqe.LocalLength)
	}
	p := q.dest
	if !q.reaches(p) {
		q.waits = cqe.TransportRetry
		return false
	}
	r := q.responder()
	if r == nil {
		return q.refuse(cqe.RemoteInvalidRequest)
	}
	takes := w.op == wqe.OpSend || w.op == wqe.OpSendImm || w.op == wqe.OpRDMAWriteImm
	if takes && len(r.recvs) == 0 {
		if q.rnrRetry == 0 {
			return q.fail(cqe.RNRRetry)
		}
		q.waits = cqe.RNRRetry
		return false
	}
	if w.op == wqe.OpSend || w.op == wqe.OpSendImm {
		return q.send(r, w, data)
	}
	need := map[wqe.Opcode]uint32{
		wqe.OpRDMAWrite: control.AccessRemoteWrite, wqe.OpRDMAWriteImm: control.AccessRemoteWrite,
		wqe.OpRDMARead: control.AccessRemoteRead, wqe.OpAtomicFA: control.AccessRemoteAtomic, wqe.OpAtomicCS: control.AccessRemoteAtomic,
	}[w.op]
	var target []byte
	if n > 0 {
		if p.access&need == 0 || w.atomic() && w.remote.off%8 != 0 {
			return q.refuse(cqe.RemoteInvalidRequest)
		}
		far := w.remote
		far.n = n
		if target = far.bytes(r.domain, need); target == nil {
			if takes {
				r.receive(modelWC{syndrome: cqe.LocalAccess})
			}
			return q.refuse(cqe.RemoteAccess)
		}
	}
	switch w.op {
	case wqe.OpRDMARead:
		if !ok {
			return q.fail(cqe.LocalProtection)
		}
		spread(mem, append([]byte(nil), target...))
		return q.succeed(cqe.WCRDMARead, n)
	case wqe.OpAtomicFA, wqe.OpAtomicCS:
		le := binary.LittleEndian
		old := le.Uint64(target)
		switch {
		case w.op == wqe.OpAtomicFA:
			le.PutUint64(target, old+w.add)
		case old == w.compare:
			le.PutUint64(target, w.add)
		}
		if !ok {
			return q.fail(cqe.LocalProtection)
		}
		spread(mem, le.AppendUint64(nil, old))
		if w.op == wqe.OpAtomicFA {
			return q.succeed(cqe.WCFetchAdd, 8)
		}
		return q.succeed(cqe.WCCompSwap, 8)
	}
	copy(target, data)
	if w.op == wqe.OpRDMAWriteImm {
		r.receive(modelWC{op: cqe.WCRecvRDMAImm, n: n, imm: w.imm})
	}
	return q.succeed(cqe.WCRDMAWrite, 0)
}

// send delivers a message to the next receive of r. Only the part of the receive's list
// that the message fills is checked.
func (q *modelQP) send(r *modelRQ, w modelWQE, data []byte) bool {
	left := len(data)
	var mem [][]byte
	for _, s := range r.recvs[0] {
		if left == 0 {
			break
		}
		b := s.bytes(r.domain, control.AccessLocalWrite)
		if b == nil {
			r.receive(modelWC{syndrome: cqe.LocalProtection})
			return q.refuse(cqe.RemoteOperation)
		}
		mem = append(mem, b)
		left -= min(left, s.n)
	}
	if left > 0 {
		r.receive(modelWC{syndrome: cqe.LocalLength})
		return q.refuse(cqe.RemoteInvalidRequest)
	}
	spread(mem, data)
	got := modelWC{op: cqe.WCRecv, n: len(data)}
	if w.op == wqe.OpSendImm {
		got.imm = w.imm
	}
	r.receive(got)
	return q.succeed(cqe.WCSend, 0)
}
