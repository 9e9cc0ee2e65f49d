//go:build linux && (amd64 || arm64)

package verbs

import (
	"slices"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// Queue pairs of type XRC_RECV, which are called targets here. Every program that has opened the
// XRC domain can open a target (ibv_open_qp), also several times. Each time it gets a handle of
// its own. A target ends with its last handle.

// createTarget serves QP.CREATE for queue pairs of type XRC_RECV. libmlx5 sends the addresses
// of rings that are not used.
func (c *call) createTarget() error {
	x := c.x
	for _, id := range []uint16{abi.AttrCreateQPPDHandle, abi.AttrCreateQPSendCQHandle,
		abi.AttrCreateQPRecvCQHandle, abi.AttrCreateQPIndTableHandle} {
		if c.find(id) != nil {
			return refuse(eINVAL, "%s: a queue pair of type XRC_RECV has none", c.method.field(id).name)
		}
	}
	d := objectOf[*xrcd](c, abi.AttrCreateQPXRCDHandle)
	if d == nil {
		return refuse(eNOENT, "xrcd (attribute %#x): missing", abi.AttrCreateQPXRCDHandle)
	}
	if s := objectOf[*srq](c, abi.AttrCreateQPSRQHandle); s != nil && !s.xrc {
		return refuse(eINVAL, "SRQ %d is not of type XRC", s.handle)
	}
	async, err := c.async(abi.AttrCreateQPEventFD)
	if err != nil {
		return err
	}
	if err := x.chargeQueue(kindQP, x.limits.MaxQPs); err != nil {
		return err
	}
	m, _, err := x.request(control.OpCreateTarget, &control.XRCD{XRCDN: d.number})
	if err != nil {
		x.refundObject()
		return err
	}
	q := &qp{number: m.(*control.QPN).QPN, transport: control.QPTypeXRC,
		events: eventState{async: async, element: c.value(abi.AttrCreateQPUserHandle)}}
	x.addTarget(q, d)
	c.putHandle(abi.AttrCreateQPHandle, q.object)
	c.put32(abi.AttrCreateQPRespCap, q.caps[:]...)
	c.put32(abi.AttrCreateQPRespQPNum, q.number)
	c.put(abi.AttrUHWOut, nil)
	return nil
}

// openQP serves OPEN_QP. The request is struct ib_uverbs_open_qp, in which pd_handle names an
// XRC domain.
func openQP(c *call, req []byte) error {
	x := c.x
	d, err := lookup[*xrcd](c, "pd_handle", le.Uint32(req[abi.OpenQPPDHandle:]), kindXRCD)
	if err != nil {
		return err
	}
	if t := req[abi.OpenQPQPType]; t != abi.QPTXRCTgt {
		return refuse(eINVAL, "type %d; only queue pairs of type XRC_RECV (%d) can be opened", t, abi.QPTXRCTgt)
	}
	q := &qp{number: le.Uint32(req[abi.OpenQPQPN:]), transport: control.QPTypeXRC,
		events: eventState{element: le.Uint64(req[abi.OpenQPUserHandle:])}}
	if len(x.asyncs) > 0 {
		q.events.async = x.asyncs[0]
	}
	if err := x.chargeQueue(kindQP, x.limits.MaxQPs); err != nil {
		return err
	}
	if err := x.openTarget(q.number, d); err != nil {
		x.refundObject()
		return err
	}
	x.addTarget(q, d)
	b := make([]byte, abi.CreateQPRespSize)
	le.PutUint32(b[abi.CreateQPRespQPHandle:], q.handle)
	le.PutUint32(b[abi.CreateQPRespQPN:], q.number)
	c.put(abi.AttrCoreOut, b)
	return nil
}

// openTarget lets this context use a target. The engine counts the context once, however many
// handles of the target the context has.
func (x *uctx) openTarget(n uint32, d *xrcd) error {
	if mine := x.targets[n]; len(mine) > 0 {
		if mine[0].target.domain != d.number {
			return refuse(eINVAL, "QP %#06x is in another XRC domain", n)
		}
		return nil
	}
	if err := x.command(control.OpOpenTarget, &control.Target{XRCDN: d.number, QPN: n}); err != nil {
		return refuse(eINVAL, "%v", err)
	}
	return nil
}

// addTarget makes an object for a target, in this context.
func (x *uctx) addTarget(q *qp, d *xrcd) {
	q.target = x.s.domains.useTarget(q.number, d.number)
	q.dest = &q.target.dest
	q.object = x.add(kindQP, q, func() error {
		x.releasePath(q.object)
		mine := x.targets[q.number]
		if len(mine) == 1 {
			x.executeAnnounced()
			if err := x.command(control.OpDestroyQP, &control.QPN{QPN: q.number}); err != nil {
				return err
			}
			delete(x.targets, q.number)
		} else {
			x.targets[q.number] = slices.DeleteFunc(mine, func(o *qp) bool { return o == q })
		}
		x.s.domains.leaveTarget(q)
		return nil
	}, nil, d.object)
	x.targets[q.number] = append(x.targets[q.number], q)
}

// A target is the state that all handles of a queue pair of type XRC_RECV share.
type target struct {
	domain uint32 // the engine's number
	dest   qpDest
	users  int // handles
}

// useTarget returns the target with the number n, which has one more handle.
func (all *sharedDomains) useTarget(n, domain uint32) *target {
	all.mu.Lock()
	defer all.mu.Unlock()
	t := all.targets[n]
	if t == nil {
		t = &target{domain: domain}
		if all.targets == nil {
			all.targets = make(map[uint32]*target)
		}
		all.targets[n] = t
	}
	t.users++
	return t
}

// leaveTarget is called when q is destroyed.
func (all *sharedDomains) leaveTarget(q *qp) {
	if q.target == nil {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	q.target.users--
	if q.target.users == 0 {
		delete(all.targets, q.number)
	}
}
