//go:build linux && (amd64 || arm64)

package torture

import (
	"github.com/nicless/nicless"
)

// post posts as many operations as possible, and returns whether it posted any.
func (l *flow) post() (did bool, err error) {
	for ; l.unbound > 0 && l.sends.Room() > 0; l.unbound-- {
		if err := l.bind(); err != nil {
			return did, err
		}
	}
	// Acknowledge only when the window is bound again: after the acknowledgement the peer may
	// use the window.
	for l.ackSent+group <= l.checked && l.unbound == 0 && l.sends.Room() > 0 {
		if err := l.acknowledge(); err != nil {
			return did, err
		}
		did = true
	}
	// Leave room for acknowledgements, a bind and a probe.
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

// mayPost reports whether the slots of an operation are free, on both sides.
func (l *flow) mayPost(o *Operation) bool {
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

func (l *flow) acknowledge() error {
	l.ackSent += group
	wr := nicless.SendWR{
		Op: nicless.WriteImm, Flags: nicless.Signaled, Imm: ackBit | uint32(l.ackSent)&(ackBit-1),
		RemoteAddr: l.peerInfo.Target.Addr, RKey: l.peerInfo.Target.RKey,
	}
	if l.transport == nicless.UD {
		wr.Op = nicless.SendImm
	}
	return l.send(posted{kind: isAck}, &wr)
}

// probe posts work that fails if the peer is gone.
func (l *flow) probe() error {
	if l.sends.Room() == 0 {
		return nil
	}
	wr := nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, RemoteAddr: l.peerInfo.Target.Addr,
		RKey: l.peerInfo.Target.RKey}
	if l.transport == nicless.UD {
		wr.Op = nicless.Nop
	}
	return l.send(posted{kind: isOther}, &wr)
}

func (l *flow) send(p posted, wr *nicless.SendWR) error {
	wr.To = l.to
	wr.ID = l.sends.Post(wr.Flags&nicless.Signaled != 0)
	l.posts[wr.ID%sendDepth] = p
	return l.qp.PostSend(wr)
}

// postData posts an operation of the stream.
func (l *flow) postData(o *Operation) error {
	p := posted{op: *o}
	wr := nicless.SendWR{Op: o.Op, Flags: o.Flags, Imm: o.Immediate()}
	switch o.Op {
	case nicless.FetchAdd, nicless.CompareSwap, nicless.MaskedFetchAdd, nicless.MaskedCompareSwap:
		wr.RemoteAddr, wr.RKey = l.peerInfo.Words.Addr+uint64(o.At*guard), l.peerInfo.Words.RKey
		word := &l.model[o.At]
		wr.SwapAdd, wr.Mask, p.old = o.Add, &p.op.Mask, *word
		*word, wr.Compare = o.model(*word)
	case nicless.Read:
		wr.RemoteAddr, wr.RKey = l.peerInfo.Source.Addr+uint64(o.At), l.peerInfo.Source.RKey
	case nicless.Write, nicless.WriteImm:
		wr.RemoteAddr, wr.RKey = l.peerInfo.Target.Addr+uint64(remoteSpan(o).off), l.peerInfo.Target.RKey
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

// window returns the rkey that the peer's window has at the time of the operation. The window is
// invalidated once in largeEvery operations. After that its rkey has the next variant.
func (l *flow) window(o *Operation) uint32 {
	return l.peerInfo.Window&^0xff | (l.peerInfo.Window+uint32(o.N/largeEvery))&0xff
}

// payload returns the bytes that an operation carries.
func (l *flow) payload(s *Stream, o *Operation) []byte {
	b := l.scratch[:o.Len]
	pattern(b, s.Key(o.N), 0)
	return b
}
