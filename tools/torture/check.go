//go:build linux && (amd64 || arm64)

package torture

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/verdict"
)

// wrong returns the fault of wrong bytes. An error of compare says what was expected.
func wrong(format string, args ...any) error {
	for _, a := range args {
		if m, ok := a.(*mismatch); ok {
			return verdict.New(verdict.WrongBytes, m.want, format, args...)
		}
	}
	return verdict.New(verdict.WrongBytes, "bytes as they were before, or as an operation has written them", format, args...)
}

// complete accounts for a completion and checks its operation.
func (l *flow) complete(c *nicless.Completion) error {
	l.c.count.Completions++
	outcome := Done
	if err := c.Err(); err != nil {
		outcome = Failed
		if errors.Is(err, cqe.Flush) {
			outcome = Flushed
		} else if !errors.Is(err, cqe.TransportRetry) || !c.Requester() {
			return verdict.New(verdict.Failed, "success, or an error that the end of the peer explains", "flow %d: completion %d: %v", l.i, c.ID, err)
		}
		if !l.failed {
			l.failed, l.failure = true, fmt.Sprintf("flow %d (%v): %v", l.i, l.transport, err)
		}
	}
	if !c.Requester() && l.recvs == nil {
		if !l.c.shared.complete(c.ID) {
			l.c.count.Duplicated++
			return verdict.New(verdict.Repeated, "completions of receives that are posted", "flow %d: a completion of shared receive %d, which is not posted", l.i, c.ID)
		}
		if outcome != Done {
			return nil
		}
		if err := l.received(c, l.c.shared.mr, c.ID); err != nil {
			return err
		}
		return l.c.shared.post(c.ID)
	}
	ledger, kind := l.recvs, "receive"
	if c.Requester() {
		ledger, kind = l.sends, "send"
	}
	before, oldest := ledger.Wrong, ledger.Oldest()
	first, ok := ledger.Complete(c.ID, outcome)
	if ledger.Wrong != before {
		k := verdict.Repeated
		if ledger.Lost > before.Lost {
			k = verdict.Lost
		}
		return verdict.New(k, fmt.Sprintf("one completion of each %s, in the order of posting; the oldest that was outstanding was %d", kind, oldest),
			"flow %d: a completion of %s %d (%v): %d lost, %d repeated, %d out of order", l.i, kind, c.ID, c.WC,
			ledger.Lost-before.Lost, ledger.Duplicated-before.Duplicated, ledger.Reordered-before.Reordered)
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
	nicless.Write: cqe.WCRDMAWrite, nicless.WriteImm: cqe.WCRDMAWrite, nicless.Send: cqe.WCSend,
	nicless.SendImm: cqe.WCSend,
	nicless.Read:    cqe.WCRDMARead, nicless.FetchAdd: cqe.WCFetchAdd, nicless.CompareSwap: cqe.WCCompSwap,
	nicless.SendInval:      cqe.WCSend,
	nicless.MaskedFetchAdd: cqe.WCFetchAdd, nicless.MaskedCompareSwap: cqe.WCCompSwap,
}

// sent checks an operation of this end that has succeeded. If the operation was unsignaled,
// the argument c is nil.
func (l *flow) sent(p *posted, c *nicless.Completion) error {
	if p.kind != isData {
		return nil
	}
	o := &p.op
	if c != nil && o.Op != nicless.Copy &&
		(c.Opcode != sendOpcodes[o.Op] || c.HasByteLen() && int(c.ByteLen) != o.Len) {
		return verdict.New(verdict.WrongBytes, fmt.Sprintf("opcode %v and %d bytes in the completion", sendOpcodes[o.Op], o.Len),
			"flow %d: %v %d has completed as %v with %d bytes", l.i, o.Op, o.N, c.Opcode, c.ByteLen)
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
			key = l.peerKey()
		}
		// The pattern begins on a multiple of 8, but the READ may begin anywhere.
		from := o.At &^ 7
		b := l.scratch[:o.At-from+o.Len]
		pattern(b, key, from)
		if err := compare(local, l.spans, b[o.At-from:]); err != nil {
			return wrong("flow %d: %v %d of %d bytes: %v", l.i, o.Op, o.N, o.Len, err)
		}
	case nicless.FetchAdd, nicless.CompareSwap, nicless.MaskedFetchAdd, nicless.MaskedCompareSwap:
		want := binary.LittleEndian.AppendUint64(nil, p.old)
		if o.Len == 4 { // old values of 4 bytes are delivered big-endian
			want = binary.BigEndian.AppendUint32(nil, uint32(p.old))
		}
		if err := compare(local, l.spans, want); err != nil {
			return wrong("flow %d: %v %d of word %d, %d bytes: %v", l.i, o.Op, o.N, o.At, o.Len, err)
		}
	default:
		if err := compare(local, l.spans, l.payload(l.mine, o)); err != nil {
			return wrong("flow %d: local memory after %v %d: %v", l.i, o.Op, o.N, err)
		}
	}
	l.c.count.Checked += uint64(o.Len)
	for _, s := range l.spans {
		poisonAll(local[s.off : s.off+s.n])
	}
	return nil
}

func sourceKey(spec *Spec, end, flow int) uint64 { return derive(spec.Seed, spec.Pair, end, flow, -1) }

func (l *flow) peerKey() uint64 { return sourceKey(&l.c.spec, 1-l.c.spec.End, l.i) }

// received checks a message of the peer, and every operation that the peer made before this
// message.
func (l *flow) received(c *nicless.Completion, mr *nicless.MR, buffer uint64) error {
	if c.Flags == cqe.WCWithImm|l.grh() && c.Imm&ackBit != 0 {
		n := uint64((c.Imm - uint32(l.acked)) & (ackBit - 1))
		if n == 0 || l.acked+n > l.next {
			return verdict.New(verdict.WrongBytes, fmt.Sprintf("an acknowledgement of more than %d and at most %d operations", l.acked, l.next),
				"flow %d: the immediate %#x", l.i, c.Imm)
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

// grh returns the flag of messages that begin with a global routing header.
func (l *flow) grh() cqe.WCFlags {
	if l.transport == nicless.UD {
		return cqe.WCGRH
	}
	return 0
}

// message checks a message of the peer.
func (l *flow) message(c *nicless.Completion, o *Operation, mr *nicless.MR, buffer uint64) error {
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
		if c.SrcQP != l.peerInfo.QP.QPN {
			return verdict.New(verdict.WrongBytes, fmt.Sprintf("datagrams of the peer, QP %#x",
				l.peerInfo.QP.QPN), "flow %d: a datagram of QP %#x", l.i, c.SrcQP)
		}
	}
	if c.Opcode != opcode || c.Flags != flags || c.Imm != imm || int(c.ByteLen) != size {
		k := verdict.WrongBytes
		if later := uint64(c.Imm) - o.N&(ackBit-1); c.Flags&cqe.WCWithImm != 0 && c.Imm != imm &&
			later < window {
			k = verdict.Lost // it is a later message of the peer
		}
		return verdict.New(k, fmt.Sprintf("operation %d of the peer: %v, flags %d, immediate %#x, %d bytes", o.N, opcode, flags, imm, size),
			"flow %d: receive %d is %v, flags %d, immediate %#x, %d bytes", l.i, c.ID, c.Opcode, c.Flags, c.Imm, c.ByteLen)
	}
	if o.Op == nicless.WriteImm {
		if err := l.written(o); err != nil {
			return err
		}
		return l.empty(c, mr, buffer, nil)
	}
	return l.empty(c, mr, buffer, l.payload(l.peer, o))
}

// written checks the bytes that the peer has written, then fills them with poison again.
func (l *flow) written(o *Operation) error {
	s := remoteSpan(o)
	target := l.mem.target.Bytes()
	if err := compare(target, []span{s}, l.payload(l.peer, o)); err != nil {
		return wrong("flow %d: %v %d of %d bytes by the peer: %v", l.i, o.Op, o.N, o.Len, err)
	}
	poisonAll(target[s.off : s.off+s.n])
	l.c.count.Checked += uint64(s.n)
	return nil
}

// empty checks that a receive buffer holds the bytes of want and no other data, then fills the
// buffer with poison again. It ignores the header of a datagram.
func (l *flow) empty(c *nicless.Completion, mr *nicless.MR, buffer uint64, want []byte) error {
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
		return wrong("flow %d: receive %d: %v", l.i, c.ID, err)
	}
	for _, s := range l.spans {
		poisonAll(b[s.off : s.off+s.n])
	}
	l.c.count.Checked += uint64(len(want))
	return nil
}
