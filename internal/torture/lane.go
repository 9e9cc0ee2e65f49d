package torture

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

const (
	sendDepth = 64
	// fullDepth is as many receives as a peer can have use for at once:
	// messages of a window and acknowledgements of another.
	fullDepth = window + window/group + 12
	// scarceDepth makes it wait for receives now and then.
	scarceDepth = 12
)

// A course is what a lane is like.
type course struct {
	Menu
	transport nicless.Transport
	receives  int  // 0: from the shared queue
	list      bool // the source is read through a list key
}

// courses are the lanes of a connection.
var courses = []course{
	{receives: scarceDepth, list: true, Menu: Menu{Largest: smallPayload, Large: true, Ops: []nicless.Op{
		nicless.Write, nicless.WriteImm, nicless.Read, nicless.Send, nicless.SendImm, nicless.FetchAdd, nicless.CompareSwap,
		nicless.MaskedFetchAdd, nicless.MaskedCompareSwap, nicless.Copy,
	}}},
	{Menu: Menu{Largest: 256, Window: true, Ops: []nicless.Op{nicless.Write, nicless.Write, nicless.Write, nicless.SendImm, nicless.WriteImm}}},
	{transport: nicless.UC, Menu: Menu{Largest: smallPayload, Large: true, Ops: []nicless.Op{nicless.Write, nicless.WriteImm, nicless.Send, nicless.SendImm}}},
	{transport: nicless.UD, receives: fullDepth, Menu: Menu{Largest: 4096, Ops: []nicless.Op{nicless.Send, nicless.SendImm}}},
}

// A corruption is data or a completion that is not what it must be.
type corruption struct{ text string }

func (c *corruption) Error() string { return c.text }

func corrupt(format string, args ...any) error {
	return &corruption{fmt.Sprintf(format, args...)}
}

// A lane is one end of a connection: it carries out its stream of operations
// and checks that of its peer.
type lane struct {
	c *client
	i int
	course
	mem *memory
	qp  *nicless.QP
	win *nicless.Window
	key *nicless.ListKey
	to  *nicless.Address // UD

	far   Lane    // the peer's
	mine  *Stream // what this end does
	peer  *Stream // what the peer does
	sends *Ledger
	recvs *Ledger           // nil: shared
	posts [sendDepth]posted // by number of the send

	pending  *Operation // generated, not posted yet
	next     uint64     // operations of mine posted
	acked    uint64     // those that the peer has checked
	checked  uint64     // operations of the peer that this end has checked
	told     uint64     // those that it has acknowledged
	stopping bool
	unbound  int  // times that the window has to be opened again
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
	isOther
)

// open makes the queue pair for a new connection and posts its receives.
func (l *lane) open() (err error) {
	l.mem.renew()
	*l = lane{c: l.c, i: l.i, course: l.course, mem: l.mem, scratch: l.scratch, spans: l.spans, sges: l.sges}
	cfg := nicless.QPConfig{
		Type: l.transport, SendCQ: l.c.cq, MaxSendWR: sendDepth, MaxSendSGE: maxPieces, MaxRecvSGE: 2, MaxInline: maxInline,
	}
	if l.transport == nicless.UD {
		cfg.QKey = uint32(mix(l.mem.key)) >> 1 // the top bit would mean the sender's own
	}
	l.sends = NewLedger(sendDepth)
	if l.receives == 0 {
		cfg.SRQ = l.c.shared.srq
	} else {
		cfg.MaxRecvWR, l.recvs = l.receives, NewLedger(l.receives)
	}
	if l.qp, err = l.c.pd.CreateQP(cfg); err != nil {
		return err
	}
	for range l.receives {
		if err := l.postRecv(); err != nil {
			return err
		}
	}
	if l.Window {
		if l.win, err = l.c.pd.AllocWindow(2); err != nil {
			return err
		}
	}
	if l.list {
		l.key, err = l.c.pd.CreateListKey(3)
	}
	return err
}

// close gives back what open has made.
func (l *lane) close() error {
	if err := l.qp.Close(); err != nil {
		return err
	}
	l.qp = nil
	if l.win != nil {
		if err := l.win.Close(); err != nil {
			return err
		}
	}
	if l.key != nil {
		return l.key.Close()
	}
	return nil
}

func (l *lane) describe() Lane {
	d := Lane{QP: l.qp.Descriptor(), Target: l.mem.target.Remote("target"), Source: l.mem.source.Remote("source"), Words: l.mem.words.Remote("words")}
	if l.win != nil {
		d.Window = nicless.IncRKey(l.win.RKey())
	}
	if l.key != nil {
		d.Source.Addr, d.Source.RKey = 0, l.key.RKey()
	}
	return d
}

func (l *lane) connect(peer Lane, epoch int) (err error) {
	l.far = peer
	l.mine = NewStream(derive(l.c.spec.Seed, l.c.spec.Pair, epoch, l.c.spec.End, l.i), l.Menu)
	l.peer = NewStream(derive(l.c.spec.Seed, l.c.spec.Pair, epoch, 1-l.c.spec.End, l.i), l.Menu)
	if l.transport == nicless.UD {
		if l.to, err = l.qp.AddressOf(peer.QP); err != nil {
			return err
		}
		return l.qp.Activate()
	}
	if err := l.qp.Connect(peer.QP, nicless.Connection{Retry: 2, Timeout: 8, MinRNRTimer: 1}); err != nil {
		return err
	}
	if l.win != nil {
		if err := l.bind(); err != nil {
			return err
		}
	}
	if l.key == nil {
		return nil
	}
	// Pieces that lie one behind the other, so that the source is as it was.
	const first, second = sourceSize/3 + 5, sourceSize/2 + 1
	m := l.mem.source
	return l.send(posted{kind: isOther}, &nicless.SendWR{Op: nicless.BindList, Flags: nicless.Signaled, List: l.key.List(nicless.RemoteRead,
		m.SGE(0, first), m.SGE(first, second-first), m.SGE(second, sourceSize-second))})
}

// bind opens the window.
func (l *lane) bind() error {
	return l.send(posted{kind: isOther}, &nicless.SendWR{
		Op: nicless.BindMW, Flags: nicless.Signaled, Bind: l.win.Bind(l.mem.target, 0, areaSize, nicless.RemoteWrite),
	})
}

func (l *lane) postRecv() error {
	n := l.recvs.Post(true)
	return l.qp.PostRecv(&nicless.RecvWR{ID: n, SGE: recvList(l.mem.recv, n%uint64(l.receives))})
}

// receive posts a receive to wherever this lane has them.
func (l *lane) receive(wr *nicless.RecvWR) error {
	if l.recvs == nil {
		return l.c.shared.srq.PostRecv(wr)
	}
	return l.qp.PostRecv(wr)
}

// post posts what may be posted, and returns whether something was.
func (l *lane) post() (did bool, err error) {
	for ; l.unbound > 0 && l.sends.Room() > 0; l.unbound-- {
		if err := l.bind(); err != nil {
			return did, err
		}
	}
	// Told behind the bind: the peer may use the window when it hears of it.
	for l.told+group <= l.checked && l.unbound == 0 && l.sends.Room() > 0 {
		if err := l.acknowledge(); err != nil {
			return did, err
		}
		did = true
	}
	// Some are left for acknowledgements, a bind and a probe.
	for l.sends.Room() > 8 {
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
	wr := nicless.SendWR{
		Op: nicless.WriteImm, Flags: nicless.Signaled, Imm: ackBit | uint32(l.told)&(ackBit-1),
		RemoteAddr: l.far.Target.Addr, RKey: l.far.Target.RKey,
	}
	if l.transport == nicless.UD {
		wr.Op = nicless.SendImm
	}
	return l.send(posted{kind: isAck}, &wr)
}

// probe posts something that fails if the peer is gone.
func (l *lane) probe() error {
	if l.sends.Room() == 0 {
		return nil
	}
	wr := nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, RemoteAddr: l.far.Target.Addr, RKey: l.far.Target.RKey}
	if l.transport == nicless.UD {
		wr.Op = nicless.Nop
	}
	return l.send(posted{kind: isOther}, &wr)
}

func (l *lane) send(p posted, wr *nicless.SendWR) error {
	wr.To = l.to
	wr.ID = l.sends.Post(wr.Flags&nicless.Signaled != 0)
	l.posts[wr.ID%sendDepth] = p
	return l.qp.PostSend(wr)
}

// postData posts an operation of the stream.
func (l *lane) postData(o *Operation) error {
	p := posted{op: *o}
	wr := nicless.SendWR{Op: o.Op, Flags: o.Flags, Imm: o.Immediate()}
	switch o.Op {
	case nicless.FetchAdd, nicless.CompareSwap, nicless.MaskedFetchAdd, nicless.MaskedCompareSwap:
		wr.RemoteAddr, wr.RKey = l.far.Words.Addr+uint64(o.At*guard), l.far.Words.RKey
		word := &l.model[o.At]
		wr.SwapAdd, wr.Mask, p.old = o.Add, &p.op.Mask, *word
		*word, wr.Compare = o.model(*word)
	case nicless.Read:
		wr.RemoteAddr, wr.RKey = l.far.Source.Addr+uint64(o.At), l.far.Source.RKey
	case nicless.Write, nicless.WriteImm:
		wr.RemoteAddr, wr.RKey = l.far.Target.Addr+uint64(remoteSpan(o).off), l.far.Target.RKey
		if o.Window {
			wr.RKey = l.window(o)
		}
	case nicless.SendInval:
		wr.RKey = l.window(o)
	}
	gathers := o.Gathers()
	var data []byte
	if gathers {
		data = l.payload(l.mine, o)
	}
	if o.Pieces == nil {
		wr.Data = data
	} else {
		l.spans, l.sges = localSpans(l.spans[:0], o), l.sges[:0]
		if o.Op == nicless.Copy {
			l.sges = append(l.sges, l.mem.source.SGE(o.At, o.Len))
		}
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

// window returns the rkey of the peer's window as it is when the operation
// comes: closed once in largeEvery operations, each time with the next variant.
func (l *lane) window(o *Operation) uint32 {
	return l.far.Window&^0xff | (l.far.Window+uint32(o.N/largeEvery))&0xff
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
	if !c.Requester() && l.recvs == nil {
		if !l.c.shared.complete(c.ID) {
			l.c.count.Duplicated++
			return corrupt("lane %d: completion of shared receive %d, which was not posted", l.i, c.ID)
		}
		if outcome != Done {
			return nil
		}
		if err := l.received(c, l.c.shared.mr, c.ID); err != nil {
			return err
		}
		return l.c.shared.post(c.ID)
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
	if err := l.received(c, l.mem.recv, c.ID%uint64(l.receives)); err != nil {
		return err
	}
	return l.postRecv()
}

var sendOpcodes = map[nicless.Op]cqe.WCOpcode{
	nicless.Write: cqe.WCRDMAWrite, nicless.WriteImm: cqe.WCRDMAWrite, nicless.Send: cqe.WCSend, nicless.SendImm: cqe.WCSend,
	nicless.Read: cqe.WCRDMARead, nicless.FetchAdd: cqe.WCFetchAdd, nicless.CompareSwap: cqe.WCCompSwap, nicless.SendInval: cqe.WCSend,
	nicless.MaskedFetchAdd: cqe.WCFetchAdd, nicless.MaskedCompareSwap: cqe.WCCompSwap,
}

// sent checks an operation of mine that has succeeded. c is nil for one that
// completed silently.
func (l *lane) sent(p *posted, c *nicless.Completion) error {
	if p.kind != isData {
		return nil
	}
	o := &p.op
	if c != nil && o.Op != nicless.Copy && (c.Opcode != sendOpcodes[o.Op] || c.HasByteLen() && int(c.ByteLen) != o.Len) {
		return corrupt("lane %d: %v %d of %d bytes completed as %v with %d bytes", l.i, o.Op, o.N, o.Len, c.Opcode, c.ByteLen)
	}
	l.c.done(o)
	if o.Pieces == nil {
		return nil
	}
	l.spans = localSpans(l.spans[:0], o)
	local := l.mem.local.Bytes()
	switch o.Op {
	case nicless.Read, nicless.Copy:
		key := l.mem.key
		if o.Op == nicless.Read {
			key = l.farKey()
		}
		// The pattern begins on a multiple of 8, the READ anywhere.
		from := o.At &^ 7
		b := l.scratch[:o.At-from+o.Len]
		pattern(b, key, from)
		if err := compare(local, l.spans, b[o.At-from:]); err != nil {
			return corrupt("lane %d: %v %d of %d bytes: %v", l.i, o.Op, o.N, o.Len, err)
		}
	case nicless.FetchAdd, nicless.CompareSwap, nicless.MaskedFetchAdd, nicless.MaskedCompareSwap:
		want := binary.LittleEndian.AppendUint64(nil, p.old)
		if o.Len == 4 { // old values of 4 bytes are delivered big-endian
			want = binary.BigEndian.AppendUint32(nil, uint32(p.old))
		}
		if err := compare(local, l.spans, want); err != nil {
			return corrupt("lane %d: %v %d of word %d, %d bytes: %v", l.i, o.Op, o.N, o.At, o.Len, err)
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
func (l *lane) received(c *nicless.Completion, mr *nicless.MR, buffer uint64) error {
	if c.Flags == cqe.WCWithImm|l.grh() && c.Imm&ackBit != 0 {
		n := uint64((c.Imm - uint32(l.acked)) & (ackBit - 1))
		if n == 0 || l.acked+n > l.next {
			return corrupt("lane %d: acknowledgement %#x after %d of %d operations", l.i, c.Imm, l.acked, l.next)
		}
		l.acked += n
		return l.empty(c, mr, buffer, nil)
	}
	for {
		o := l.peer.Next()
		l.checked++
		switch {
		case o.Message():
			return l.message(c, &o, mr, buffer)
		case o.Op == nicless.Write:
			if err := l.written(&o); err != nil {
				return err
			}
		}
	}
}

// grh is the flag of messages that begin with a header of the network.
func (l *lane) grh() cqe.WCFlags {
	if l.transport == nicless.UD {
		return cqe.WCGRH
	}
	return 0
}

// message checks a message of the peer.
func (l *lane) message(c *nicless.Completion, o *Operation, mr *nicless.MR, buffer uint64) error {
	opcode, flags, imm, size := cqe.WCRecv, l.grh(), uint32(0), o.Len
	switch o.Op {
	case nicless.WriteImm, nicless.SendImm:
		flags |= cqe.WCWithImm
		imm = o.Immediate()
	case nicless.SendInval:
		flags, imm = cqe.WCWithInv, l.win.RKey()
		l.unbound++
	}
	if o.Op == nicless.WriteImm {
		opcode = cqe.WCRecvRDMAImm
	}
	if l.transport == nicless.UD {
		size += nicless.GRHSize
		if c.SrcQP != l.far.QP.QPN {
			return corrupt("lane %d: datagram of QP %#x, not of the peer %#x", l.i, c.SrcQP, l.far.QP.QPN)
		}
	}
	if c.Opcode != opcode || c.Flags != flags || c.Imm != imm || int(c.ByteLen) != size {
		return corrupt("lane %d: receive %d is %v, flags %d, immediate %#x, %d bytes; operation %d of the peer is %v, %d, %#x, %d",
			l.i, c.ID, c.Opcode, c.Flags, c.Imm, c.ByteLen, o.N, opcode, flags, imm, size)
	}
	if o.Op == nicless.WriteImm {
		if err := l.written(o); err != nil {
			return err
		}
		return l.empty(c, mr, buffer, nil)
	}
	return l.empty(c, mr, buffer, l.payload(l.peer, o))
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

// empty checks a receive buffer, which holds want and nothing else, and empties
// it. The header of a datagram is not looked at.
func (l *lane) empty(c *nicless.Completion, mr *nicless.MR, buffer uint64, want []byte) error {
	b, size := mr.Bytes(), len(want)
	if l.transport == nicless.UD {
		size += nicless.GRHSize
	}
	l.spans = recvSpans(l.spans[:0], buffer, size)
	if l.transport == nicless.UD {
		first := &l.spans[0]
		poisonAll(b[first.off : first.off+nicless.GRHSize])
		first.off += nicless.GRHSize
		first.n -= nicless.GRHSize
	}
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
	return l.stopping && l.pending == nil && l.next == l.acked && l.unbound == 0 && l.sends.Outstanding() == 0 && l.checked == l.told
}
