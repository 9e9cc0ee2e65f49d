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

// injectedPeer returns the peer of the next WQE of q, which is in the snapshot. ok is false if the WQE is to
// be executed as without the rule: it has no peer on this device that listens, or one whom the rule must not
// harm. v is Waiting if the lock of the peer's shard is needed first.
func (sh *injector) injectedPeer(q *object.QP) (p *object.QP, ok bool, v object.Verdict) {
	head := object.ParseHead((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:]))
	info := head.Opcode().Info()
	if info.Remote == 0 && !info.Receive() {
		return nil, false, object.Accepted
	}
	p = q.Conn.Peer
	switch {
	case q.Transport == control.QPTypeUD || q.Transport == control.QPTypeDCI:
		to := wqe.ParseCompactAV((*[wqe.CompactAVSize]byte)(sh.Scratch.WQE[wqe.CtrlSize:]))
		p = sh.QPs[to.DQP]
	case p == nil || p.Dead:
		p = sh.BoundPeer(q)
	}
	switch {
	case p == nil || q.Wire != nil:
		return nil, false, object.Accepted
	case !sh.Holds(p.Client.Shard):
		sh.Postpone(q, p.Client.Shard)
		return nil, false, object.Waiting
	case !p.Listens() || p.Client != q.Client && !q.Faults.From.MayFault(p.Client.UID):
		return nil, false, object.Accepted
	}
	return p, true, object.Accepted
}

// disconnect moves the peer of the next WQE to error, as if its owner had done so. A DCT serves many, and
// stays.
func (sh *injector) disconnect(q *object.QP) object.Verdict {
	f := q.Faults
	if f.Over || q.Wire != nil { // on a link: see InjectRequest
		return object.Accepted
	}
	p, ok, v := sh.injectedPeer(q)
	if v != object.Accepted || !ok || p.Transport == control.QPTypeDCT {
		return v
	}
	f.Over = true
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
	if receive {
		p, ok, v := sh.injectedPeer(q)
		switch {
		case v != object.Accepted:
			return v
		case q.Wire != nil:
			c = q.RQ.CQ
		case !ok:
			return object.Accepted
		default:
			c = sh.receiveCQ(p)
		}
	}
	f.Over = true
	if c == nil || c.Ignore || c.Dead {
		return object.Accepted // as on the device: it cannot overrun, or has
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
	if s := sh.SRQs[n]; s != nil && s.XRCD == p.XRCD {
		return s.CQ
	}
	return nil
}
