//go:build linux && (amd64 || arm64)

package execution

import (
	"fmt"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Rules that harm the peer of a queue pair: they move it to error, or fill its completion queue. They do so
// only if who has set them may fault the peer's client, too.

// injectedPeer returns the peer of the next WQE of q, which is in the snapshot, or nil if it has none on this
// device that takes the message. v is Waiting if the lock of the peer's shard is needed first.
func (sh *injector) injectedPeer(q *object.QP) (p *object.QP, v object.Verdict) {
	info := object.ParseHead((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:])).Opcode().Info()
	if info.Remote == 0 && !info.Receive() || q.Wire != nil {
		return nil, object.Accepted
	}
	p, datagram := q.Conn.Peer, q.Transport == control.QPTypeUD
	av := sh.addressVector()
	switch {
	case datagram:
		if sh.Router != nil && sh.Links.RouteAway(q, &av) {
			return nil, object.Accepted
		}
		p = sh.QPs[av.DQP]
	case q.Transport == control.QPTypeDCI:
		q.DC.To = av
		p = sh.TargetOf(q)
	case p == nil || p.Dead:
		p = sh.BoundPeer(q)
	}
	switch {
	case p == nil:
		return nil, object.Accepted
	case !sh.Holds(p.Client.Shard):
		sh.Postpone(q, p.Client.Shard)
		return nil, object.Waiting
	case datagram:
		sh.PutHeader(&av, q.Client, p.Client, 0)
		key := av.QKey()
		if key>>31 != 0 {
			key = q.Attr.QKey
		}
		if p.Transport != q.Transport || !p.Listens() || !sh.Scratch.Reaches || p.Attr.QKey != key {
			return nil, object.Accepted
		}
	case q.Transport == control.QPTypeDCI && !q.ReachesTarget(p), !p.Listens():
		return nil, object.Accepted
	}
	return p, object.Accepted
}

// spares reports, and explains, that a rule does nothing to clients, because one is of a user whom it must
// not harm.
func (sh *injector) spares(q *object.QP, clients ...*object.Client) bool {
	for _, c := range clients {
		if c != q.Client && !q.Faults.From.MayFault(c.UID) {
			sh.Explain(q, codes.FaultInjected, "rule %v does nothing here: it must not harm programs of another user", q.Faults.Rule)
			sh.NewFault() // no error completion is because of that
			return true
		}
	}
	return false
}

// disconnect moves the peer of the next WQE to error, as if its owner had done so. A DCT stays.
func (sh *injector) disconnect(q *object.QP) object.Verdict {
	f := q.Faults
	if f.Over || q.Wire != nil { // on a link: see InjectRequest
		return object.Accepted
	}
	p, v := sh.injectedPeer(q)
	if p == nil {
		return v
	}
	f.Over = true
	if p.Transport == control.QPTypeDCT {
		sh.Explain(q, codes.FaultInjected, "rule %v does nothing here: a DCT serves many, and stays", f.Rule)
		sh.NewFault()
		return object.Accepted
	}
	if sh.spares(q, p.Client) || p.XRC != nil && sh.spares(q, p.XRC.Others...) {
		return object.Accepted
	}
	sh.explainInjected(q)
	sh.NewFault()
	sh.StopsBecause(p, codes.FaultInjected, "injected by rule %v, which acts on WQE %#04x of peer QP %#06x",
		f.Rule, uint16(q.SQ.Done), q.Num)
	sh.SetError(p)
	if q.Attr.State != control.StateRTS {
		return object.Failed // p is q
	}
	return object.Accepted
}

// overrun takes all room away in a completion queue: the next completion overruns it.
func (sh *injector) overrun(q *object.QP, receive bool) object.Verdict {
	f := q.Faults
	if f.Over {
		return object.Accepted
	}
	c := q.SQ.CQ
	if receive && q.Wire != nil {
		c = q.RQ.CQ
	} else if receive {
		p, v := sh.injectedPeer(q)
		if p == nil {
			return v
		}
		c = sh.receiveCQ(p)
		f.Over = sh.spares(q, p.Client) || c != nil && sh.spares(q, c.Client)
	}
	idle := f.Over || c == nil || c.Ignore || c.Dead // the device too cannot let it overrun, or has
	f.Over = true
	if idle {
		return object.Accepted
	}
	sh.explainInjected(q)
	c.Fill(fmt.Sprintf("rule %v", f.Rule))
	return object.Accepted
}

// receiveCQ returns the completion queue for the message of the next WQE, which is for p.
func (sh *injector) receiveCQ(p *object.QP) *object.CQ {
	if p.Transport != control.QPTypeXRC {
		return p.RQ.CQ
	}
	n := wqe.ParseXRC((*[wqe.XRCSize]byte)(sh.Scratch.WQE[wqe.CtrlSize:])).SRQN & 0xffffff
	if s := sh.SRQs[n]; s != nil && s.XRCD == p.Target() {
		return s.CQ
	}
	return nil
}
