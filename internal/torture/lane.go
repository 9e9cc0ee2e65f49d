package torture

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

const sendDepth = 64

// A corruption is data or a completion that is not what it must be.
type corruption struct{ text string }

func (c *corruption) Error() string { return c.text }

func corrupt(format string, args ...any) error {
	return &corruption{fmt.Sprintf(format, args...)}
}

// A lane is one end of a connection: it carries out its stream of operations
// and checks that of its peer.
type lane struct {
	c    *client
	i    int
	menu Menu
	mem  *memory
	qp   *nicless.QP

	far   Lane    // the peer's
	mine  *Stream // what this end does
	peer  *Stream // what the peer does
	sends *Ledger
	recvs *Ledger
	posts [sendDepth]posted // by number of the send

	pending  *Operation // generated, not posted yet
	next     uint64     // operations of mine posted
	acked    uint64     // those that the peer has checked
	checked  uint64     // operations of the peer that this end has checked
	told     uint64     // those that it has acknowledged
	stopping bool
	failed   bool // an error completion has come
	model    [words]uint64

	scratch []byte
	spans   []span
	sges    []nicless.SGE
}

// posted is what is remembered of a send.
type posted struct {
	op   Operation
	kind postedKind
	old  uint64 // atomics: what must have been found
}

type postedKind uint8

const (
	isData postedKind = iota
	isAck
	isProbe
)

// open makes the queue pair for a new connection and posts its receives.
func (l *lane) open() (err error) {
	l.mem.renew()
	*l = lane{c: l.c, i: l.i, menu: l.menu, mem: l.mem, scratch: l.scratch, spans: l.spans, sges: l.sges}
	l.sends, l.recvs = NewLedger(sendDepth), NewLedger(recvDepth)
	if l.qp, err = l.c.pd.CreateQP(nicless.QPConfig{
		SendCQ: l.c.cq, MaxSendWR: sendDepth, MaxRecvWR: recvDepth, MaxSendSGE: maxPieces, MaxRecvSGE: 2, MaxInline: maxInline,
	}); err != nil {
		return err
	}
	for range recvDepth {
		if err := l.postRecv(); err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) describe() Lane {
	return Lane{QP: l.qp.Descriptor(), Target: l.mem.target.Remote("target"), Source: l.mem.source.Remote("source"), Words: l.mem.words.Remote("words")}
}

func (l *lane) connect(peer Lane, epoch int) error {
	l.far = peer
	l.mine = NewStream(derive(l.c.spec.Seed, l.c.spec.Pair, epoch, l.c.spec.End, l.i), l.menu)
	l.peer = NewStream(derive(l.c.spec.Seed, l.c.spec.Pair, epoch, 1-l.c.spec.End, l.i), l.menu)
	return l.qp.Connect(peer.QP, nicless.Connection{Retry: 2, Timeout: 8, MinRNRTimer: 1})
}

// recvSpans are where receive number n of any size scatters to: two pieces.
func recvSpans(dst []span, n uint64, size int) []span {
	i := int(n % recvDepth)
	first := 64 + i*24
	at := i*recvSize + guard
	dst = append(dst, span{at, min(first, size)})
	if size > first {
		dst = append(dst, span{at + first + guard, size - first})
	}
	return dst
}

func (l *lane) postRecv() error {
	n := l.recvs.Post(true)
	l.spans = recvSpans(l.spans[:0], n, recvSize-3*guard)
	var sges [2]nicless.SGE
	for i, s := range l.spans {
		sges[i] = l.mem.recv.SGE(s.off, s.n)
	}
	return l.qp.PostRecv(&nicless.RecvWR{ID: n, SGE: sges[:]})
}

// post posts what may be posted, and returns whether something was.
func (l *lane) post() (did bool, err error) {
	for l.told+group <= l.checked && l.sends.Room() > 0 {
		if err := l.acknowledge(); err != nil {
			return did, err
		}
		did = true
	}
	// Two are left for an acknowledgement and a probe.
	for l.sends.Room() > 2 {
		if l.pending == nil {
			if l.stopping && l.next%group == 0 {
				return did, nil
			}
			o := l.mine.Next()
			l.pending = &o
		}
		if !l.mayPost(l.pending) {
			return did, nil
		}
		if err := l.postData(l.pending); err != nil {
			return did, err
		}
		l.pending, did = nil, true
		l.next++
	}
	return did, nil
}

// mayPost reports whether the slots of an operation are free, here and there.
func (l *lane) mayPost(o *Operation) bool {
	if o.N >= l.acked+window {
		return false
	}
	for n := l.sends.Oldest(); n < l.sends.Oldest()+uint64(l.sends.Outstanding()); n++ {
		if p := &l.posts[n%sendDepth]; p.kind == isData {
			return p.op.N+window > o.N
		}
	}
	return true
}

func (l *lane) acknowledge() error {
	l.told += group
	return l.send(posted{kind: isAck}, &nicless.SendWR{
		Op: nicless.WriteImm, Flags: nicless.Signaled, Imm: ackBit | uint32(l.told)&(ackBit-1),
		RemoteAddr: l.far.Target.Addr, RKey: l.far.Target.RKey,
	})
}

// probe posts something that fails if the peer is gone.
func (l *lane) probe() error {
	if l.sends.Room() == 0 {
		return nil
	}
	return l.send(posted{kind: isProbe}, &nicless.SendWR{
		Op: nicless.Write, Flags: nicless.Signaled, RemoteAddr: l.far.Target.Addr, RKey: l.far.Target.RKey,
	})
}

func (l *lane) send(p posted, wr *nicless.SendWR) error {
	wr.ID = l.sends.Post(wr.Flags&nicless.Signaled != 0)
	l.posts[wr.ID%sendDepth] = p
	return l.qp.PostSend(wr)
}

// postData posts an operation of the stream.
func (l *lane) postData(o *Operation) error {
	p := posted{op: *o}
	wr := nicless.SendWR{Op: o.Op, Flags: o.Flags, Imm: o.Immediate()}
	switch o.Op {
	case nicless.FetchAdd, nicless.CompareSwap:
		word := &l.model[o.At]
		wr.RemoteAddr, wr.RKey = l.far.Words.Addr+uint64(o.At*guard), l.far.Words.RKey
		wr.SwapAdd, p.old = o.Add, *word
		switch {
		case o.Op == nicless.FetchAdd:
			*word += o.Add
		case o.Hit:
			wr.Compare = *word
			*word = o.Add
		default:
			wr.Compare = *word + 1 + o.Add>>1
		}
	case nicless.Read:
		wr.RemoteAddr, wr.RKey = l.far.Source.Addr+uint64(o.At), l.far.Source.RKey
	case nicless.Write, nicless.WriteImm:
		wr.RemoteAddr, wr.RKey = l.far.Target.Addr+uint64(remoteSpan(o).off), l.far.Target.RKey
	}
	gathers := o.Op != nicless.Read && o.Op != nicless.FetchAdd && o.Op != nicless.CompareSwap
	var data []byte
	if gathers {
		data = l.payload(l.mine, o)
	}
	if o.Pieces == nil {
		wr.Data = data
	} else {
		l.spans, l.sges = localSpans(l.spans[:0], o), l.sges[:0]
		local := l.mem.local.Bytes()
		for _, s := range l.spans {
			l.sges = append(l.sges, l.mem.local.SGE(s.off, s.n))
			if gathers {
				data = data[copy(local[s.off:s.off+s.n], data):]
			}
		}
		wr.SGE = l.sges
	}
	return l.send(p, &wr)
}

// payload returns the bytes that an operation carries.
func (l *lane) payload(s *Stream, o *Operation) []byte {
	b := l.scratch[:o.Len]
	pattern(b, s.Key(o.N), 0)
	return b
}

// complete accounts for a completion.
func (l *lane) complete(c *nicless.Completion) error {
	l.c.count.Completions++
	outcome := Done
	if err := c.Err(); err != nil {
		outcome = Failed
		if errors.Is(err, cqe.Flush) {
			outcome = Flushed
		} else if !errors.Is(err, cqe.TransportRetry) || !c.Requester() {
			return corrupt("lane %d: %v", l.i, err)
		}
		l.failed = true
	}
	book, kind := l.recvs, "receive"
	if c.Requester() {
		book, kind = l.sends, "send"
	}
	before := book.Wrong
	first, ok := book.Complete(c.ID, outcome)
	if book.Wrong != before {
		return corrupt("lane %d: completion of %s %d (%v) after %d had ended: %+v", l.i, kind, c.ID, c.WC, first, book.Wrong)
	}
	if !ok {
		return nil
	}
	if c.Requester() {
		for n := first; n <= c.ID; n++ {
			if n == c.ID && outcome != Done {
				break
			}
			var own *nicless.Completion
			if n == c.ID {
				own = c
			}
			if err := l.sent(&l.posts[n%sendDepth], own); err != nil {
				return err
			}
		}
		return nil
	}
	if outcome != Done {
		return nil
	}
	if err := l.received(c); err != nil {
		return err
	}
	return l.postRecv()
}

var sendOpcodes = map[nicless.Op]cqe.WCOpcode{
	nicless.Write: cqe.WCRDMAWrite, nicless.WriteImm: cqe.WCRDMAWrite, nicless.Send: cqe.WCSend, nicless.SendImm: cqe.WCSend,
	nicless.Read: cqe.WCRDMARead, nicless.FetchAdd: cqe.WCFetchAdd, nicless.CompareSwap: cqe.WCCompSwap,
}

// sent checks an operation of mine that has succeeded. c is nil for one that
// completed silently.
func (l *lane) sent(p *posted, c *nicless.Completion) error {
	if p.kind != isData {
		return nil
	}
	o := &p.op
	if c != nil && (c.Opcode != sendOpcodes[o.Op] || c.HasByteLen() && int(c.ByteLen) != o.Len) {
		return corrupt("lane %d: %v %d of %d bytes completed as %v with %d bytes", l.i, o.Op, o.N, o.Len, c.Opcode, c.ByteLen)
	}
	l.c.done(o)
	if o.Pieces == nil {
		return nil
	}
	l.spans = localSpans(l.spans[:0], o)
	local := l.mem.local.Bytes()
	switch o.Op {
	case nicless.Read:
		// The pattern begins on a multiple of 8, the READ anywhere.
		from := o.At &^ 7
		b := l.scratch[:o.At-from+o.Len]
		pattern(b, l.farKey(), from)
		if err := compare(local, l.spans, b[o.At-from:]); err != nil {
			return corrupt("lane %d: READ %d of %d bytes: %v", l.i, o.N, o.Len, err)
		}
	case nicless.FetchAdd, nicless.CompareSwap:
		var want [8]byte
		binary.LittleEndian.PutUint64(want[:], p.old)
		if err := compare(local, l.spans, want[:]); err != nil {
			return corrupt("lane %d: %v %d of word %d: %v", l.i, o.Op, o.N, o.At, err)
		}
	default:
		if err := compare(local, l.spans, l.payload(l.mine, o)); err != nil {
			return corrupt("lane %d: what %v %d was gathered from: %v", l.i, o.Op, o.N, err)
		}
	}
	l.c.count.Checked += uint64(o.Len)
	for _, s := range l.spans {
		poisonAll(local[s.off : s.off+s.n])
	}
	return nil
}

func sourceKey(spec *Spec, end, lane int) uint64 { return derive(spec.Seed, spec.Pair, end, lane, -1) }

func (l *lane) farKey() uint64 { return sourceKey(&l.c.spec, 1-l.c.spec.End, l.i) }

// received checks a message of the peer, and every operation that the peer did
// before it.
func (l *lane) received(c *nicless.Completion) error {
	if c.Opcode == cqe.WCRecvRDMAImm && c.Imm&ackBit != 0 {
		n := uint64((c.Imm - uint32(l.acked)) & (ackBit - 1))
		if n == 0 || l.acked+n > l.next {
			return corrupt("lane %d: acknowledgement %#x after %d of %d operations", l.i, c.Imm, l.acked, l.next)
		}
		l.acked += n
		return l.buffer(c, nil)
	}
	for {
		o := l.peer.Next()
		l.checked++
		switch {
		case o.Message():
			return l.message(c, &o)
		case o.Op == nicless.Write:
			if err := l.written(&o); err != nil {
				return err
			}
		}
	}
}

// message checks a message of the peer.
func (l *lane) message(c *nicless.Completion, o *Operation) error {
	opcode, flags, imm := cqe.WCRecv, cqe.WCFlags(0), uint32(0)
	if o.Op == nicless.WriteImm {
		opcode = cqe.WCRecvRDMAImm
	}
	if o.Op != nicless.Send {
		flags, imm = cqe.WCWithImm, o.Immediate()
	}
	if c.Opcode != opcode || c.Flags != flags || c.Imm != imm || int(c.ByteLen) != o.Len {
		return corrupt("lane %d: receive %d is %v, flags %d, immediate %#x, %d bytes; operation %d of the peer is %v, %d, %#x, %d",
			l.i, c.ID, c.Opcode, c.Flags, c.Imm, c.ByteLen, o.N, opcode, flags, imm, o.Len)
	}
	if o.Op == nicless.WriteImm {
		if err := l.written(o); err != nil {
			return err
		}
		return l.buffer(c, nil)
	}
	return l.buffer(c, l.payload(l.peer, o))
}

// written checks what the peer has written, and takes it away.
func (l *lane) written(o *Operation) error {
	s := remoteSpan(o)
	target := l.mem.target.Bytes()
	if err := compare(target, []span{s}, l.payload(l.peer, o)); err != nil {
		return corrupt("lane %d: %v %d of %d bytes by the peer: %v", l.i, o.Op, o.N, o.Len, err)
	}
	poisonAll(target[s.off : s.off+s.n])
	l.c.count.Checked += uint64(s.n)
	return nil
}

// buffer checks the buffer of a receive, which holds want and nothing else, and
// empties it.
func (l *lane) buffer(c *nicless.Completion, want []byte) error {
	l.spans = recvSpans(l.spans[:0], c.ID, len(want))
	b := l.mem.recv.Bytes()
	if err := compare(b, l.spans, want); err != nil {
		return corrupt("lane %d: receive %d: %v", l.i, c.ID, err)
	}
	for _, s := range l.spans {
		poisonAll(b[s.off : s.off+s.n])
	}
	l.c.count.Checked += uint64(len(want))
	return nil
}

// quiet reports whether all that this end has begun is done and acknowledged.
func (l *lane) quiet() bool {
	return l.stopping && l.pending == nil && l.next == l.acked && l.sends.Outstanding() == 0 && l.checked == l.told
}
