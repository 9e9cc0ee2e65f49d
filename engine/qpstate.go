//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"

	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
)

// An attribute is what a modify request can set besides the state.
type attribute struct {
	bit      uint32 // in the mask
	name     string
	value    func(*control.QPAttr) uint64
	min, max uint64
	set      func(dst, src *control.QPAttr)
}

var attributes = []attribute{
	{control.AttrAccess, "access", func(a *control.QPAttr) uint64 { return uint64(a.Access) },
		0, 0xffffffff, func(d, s *control.QPAttr) { d.Access = s.Access }},
	{control.AttrPKeyIndex, "pkey_index", func(a *control.QPAttr) uint64 { return uint64(a.PKeyIndex) },
		0, 0, func(d, s *control.QPAttr) { d.PKeyIndex = s.PKeyIndex }},
	{control.AttrPort, "port", func(a *control.QPAttr) uint64 { return uint64(a.Port) },
		1, 1, func(d, s *control.QPAttr) { d.Port = s.Port }},
	{control.AttrAV, "guid", func(a *control.QPAttr) uint64 { return a.GUID },
		0, ^uint64(0), func(d, s *control.QPAttr) { d.GUID = s.GUID }},
	{control.AttrPathMTU, "path_mtu", func(a *control.QPAttr) uint64 { return uint64(a.PathMTU) },
		1, 5, func(d, s *control.QPAttr) { d.PathMTU = s.PathMTU }},
	{control.AttrQKey, "qkey", func(a *control.QPAttr) uint64 { return uint64(a.QKey) },
		0, 0xffffffff, func(d, s *control.QPAttr) { d.QKey = s.QKey }},
	{control.AttrTimeout, "timeout", func(a *control.QPAttr) uint64 { return uint64(a.Timeout) },
		0, 31, func(d, s *control.QPAttr) { d.Timeout = s.Timeout }},
	{control.AttrRetryCount, "retry_count", func(a *control.QPAttr) uint64 { return uint64(a.RetryCount) },
		0, 7, func(d, s *control.QPAttr) { d.RetryCount = s.RetryCount }},
	{control.AttrRNRRetry, "rnr_retry", func(a *control.QPAttr) uint64 { return uint64(a.RNRRetry) },
		0, 7, func(d, s *control.QPAttr) { d.RNRRetry = s.RNRRetry }},
	{control.AttrRQPSN, "rq_psn", func(a *control.QPAttr) uint64 { return uint64(a.RQPSN) },
		0, 0xffffff, func(d, s *control.QPAttr) { d.RQPSN = s.RQPSN }},
	{control.AttrMaxRdAtomic, "max_rd_atomic", func(a *control.QPAttr) uint64 { return uint64(a.MaxRdAtomic) },
		0, maxRdAtomic, func(d, s *control.QPAttr) { d.MaxRdAtomic = s.MaxRdAtomic }},
	{control.AttrMinRNRTimer, "min_rnr_timer", func(a *control.QPAttr) uint64 { return uint64(a.MinRNRTimer) },
		0, 31, func(d, s *control.QPAttr) { d.MinRNRTimer = s.MinRNRTimer }},
	{control.AttrSQPSN, "sq_psn", func(a *control.QPAttr) uint64 { return uint64(a.SQPSN) },
		0, 0xffffff, func(d, s *control.QPAttr) { d.SQPSN = s.SQPSN }},
	{control.AttrMaxDestRdAtom, "max_dest_rd_atomic", func(a *control.QPAttr) uint64 { return uint64(a.MaxDestRdAtomic) },
		0, maxRdAtomic, func(d, s *control.QPAttr) { d.MaxDestRdAtomic = s.MaxDestRdAtomic }},
	{control.AttrDestQPN, "dest_qpn", func(a *control.QPAttr) uint64 { return uint64(a.DestQPN) },
		0, 0xffffff, func(d, s *control.QPAttr) { d.DestQPN = s.DestQPN }},
}

func attributeNames(mask uint32) (names []string) {
	for _, a := range attributes {
		if mask&a.bit != 0 {
			names = append(names, a.name)
			mask &^= a.bit
		}
	}
	if mask&control.AttrCurState != 0 {
		names = append(names, "cur_state")
	}
	return names
}

func (c *caller) modifyQP(m *control.QPAttr, _ requestMemory, _ *control.Reply) (control.Message, error) {
	q, ok := c.qps[m.QPN]
	if !ok {
		return nil, notFound("QP", m.QPN)
	}
	if err := c.change(q, m); err != nil {
		return nil, err
	}
	return &control.Empty{}, nil
}

// change changes the state and the attributes of a QP. If it returns an error, it has
// changed nothing.
func (c *caller) change(q *qp, m *control.QPAttr) error {
	sh := c.loop()
	from, to := q.attr.State, q.attr.State
	if m.Mask&control.AttrCurState != 0 && m.CurState != from {
		return control.Errorf(control.CodeState, "QP %#06x: cur_state says %s, but the state is %s", q.num, stateName(m.CurState), stateName(from))
	}
	if m.Mask&control.AttrState != 0 {
		to = m.State
	}
	required, optional, ok := q.transition(from, to)
	if !ok {
		return control.Errorf(control.CodeState, "QP %#06x: no transition from %s to %s", q.num, stateName(from), stateName(to))
	}
	given := m.Mask &^ control.AttrState
	if missing := required &^ given; missing != 0 {
		return control.Errorf(control.CodeInvalid, "QP %#06x: %s to %s needs %v", q.num, stateName(from), stateName(to), attributeNames(missing))
	}
	if extra := given &^ (required | optional | control.AttrCurState); extra != 0 {
		return control.Errorf(control.CodeInvalid, "QP %#06x: %s to %s does not take %v (mask %#x)", q.num, stateName(from), stateName(to), attributeNames(extra), extra)
	}
	for _, a := range attributes {
		if v := a.value(m); given&a.bit != 0 && (v < a.min || v > a.max) {
			return control.Errorf(control.CodeInvalid, "QP %#06x: %s %d; %d to %d are possible", q.num, a.name, v, a.min, a.max)
		}
	}
	if from == control.StateRST && to != control.StateRST && (q.sq.cq.dead || q.rq.cq.dead) {
		return control.Errorf(control.CodeState, "QP %#06x: its CQ has overrun and takes no more completions", q.num)
	}
	if given&control.AttrAccess != 0 && m.Access&^control.AccessAll != 0 {
		return unknownRights(fmt.Sprintf("QP %#06x", q.num), m.Access)
	}
	path := q.setPath()
	if given&control.AttrAV != 0 {
		var err error
		if path, err = c.route(q, m.GUID); err != nil {
			return err
		}
	}
	wired := to == control.StateRTR && from != to && q.hasPeer() && path.Port != nil
	if wired {
		if err := sh.ledger.Take(q.client.uid, quota.Charge{quota.Memory: wireCost}); err != nil {
			return err
		}
	}
	for _, a := range attributes {
		if given&a.bit != 0 {
			a.set(&q.attr, m)
		}
	}
	if to != from || to == control.StateRST {
		sh.setState(q, to)
	}
	if to == control.StateRST {
		q.client.forgetPeer(q)
	}
	if from == control.StateRTR && to == control.StateRTS && q.wire != nil {
		q.wire.beginSending()
	}
	sh.watchdog.owners.connect(uint64(q.num), q.attr.DestQPN)
	if wired {
		q.conn.path = &path
		c.r.follow(q.client, path.Port.(*portHandle).port.sh) // only that shard's thread may use the rings of the port
		sh.connectWire(q, path)
	} else if to == control.StateRTR && q.hasPeer() {
		c.bind(q)
	}
	return nil
}

// links is the transport over links, as the execution of work requests sees it.
type links interface {
	leaveWire(q *qp)
	stopWire(q *qp)
	rewindQueue(q *qp)
	doubted(q *qp) bool
	leaves(q *qp, av *wqe.AV) bool
	sendDatagram(q *qp, j *job, av *wqe.AV) verdict
}

// A queues keeps the states of queue pairs: transitions, stalls, flushes.
type queues struct {
	mover
	links links
}

// setState moves a QP to a state, and does to its queues what follows from the new state.
func (sh *queues) setState(q *qp, to uint8) {
	from := q.attr.State
	q.attr.State, q.attr.CurState = to, to
	q.conn.peer = nil
	switch {
	case to == control.StateRST:
		// Everything is forgotten, without completions. The client sets its records to 0
		// itself.
		sh.links.leaveWire(q)
		sh.removeRunning(q)
		sh.drop(q)
		q.sq.cq.forget(q.num)
		q.rq.cq.forget(q.num)
		q.sq.done, q.sq.ahead, q.sq.enabled, q.rq.done, q.failed, q.faulted, q.conn.bound, q.rnrIndex = 0, 0, 0, 0, false, 0, 0, 0
		if q.datagrams != nil {
			q.datagrams.cast = castPoint{}
		}
		if q.dc != nil {
			q.dc.errored = nil
		}
		q.conn.path = nil
		q.suspicion = suspicion{reborn: q.suspicion.reborn || from != control.StateRST}
		q.attr = control.QPAttr{QPN: q.num}
	case to == control.StateERR:
		sh.links.stopWire(q)
		sh.drop(q)
		if q.rq.srq != nil {
			q.event(control.EventLastWQE)
		}
	case to == control.StateSQE:
		sh.links.stopWire(q)
		sh.unstall(q)
		sh.parkJob(q)
	case to == control.StateSQD:
		sh.unstall(q) // the WQE that waits counts as not started
		draining := false
		if w := q.wire; w != nil {
			draining = w.out.first != w.out.last
			w.out.draining = draining
		}
		if !draining && q.job == nil {
			sh.drained(q)
		}
	case from == control.StateSQE:
		q.failed = false // the next failure counts as the first
		q.sq.enabled = max(q.sq.enabled, q.sq.done)
	}
	if from == control.StateRST && to != control.StateRST {
		// A QP in ERR is running too: it has work to flush.
		sh.addRunning(q)
	}
	if to == control.StateRTS && q.sq.blueFlame != nil {
		q.sq.blueFlame.observe()
	}
	switch to {
	case control.StateRTS, control.StateSQD, control.StateSQE, control.StateERR:
		sh.markWarm(q) // work may have been announced before
	}
}

// setPath returns the path that q.conn has, or the zero path.
func (q *qp) setPath() nic.Path {
	if q.conn.path == nil {
		return nic.Path{}
	}
	return *q.conn.path
}

// route returns the path to the device guid for the next transition of q to RTR: the path that the client
// has set before, or one that a link knows. The zero path leads to this device.
func (c *caller) route(q *qp, guid uint64) (nic.Path, error) {
	switch {
	case q.conn.set != nil && guid != q.conn.set.guid:
		return nic.Path{}, control.Errorf(control.CodeInvalid, "QP %#06x: the peer's device is %016x, but set_peer has named %016x", q.num, guid, q.conn.set.guid)
	case q.conn.set != nil:
		return q.conn.set.path, nil
	case guid == c.e.guid, q.transport == control.QPTypeUD:
		return q.setPath(), nil // as SetPath has said
	}
	why := noLinks
	if c.e.router != nil {
		path, err := c.e.router.Route(nic.Address{GUID: guid})
		if err == nil && path.Port != nil {
			return path, nil
		}
		if err != nil {
			why = err.Error()
		}
	}
	return nic.Path{}, c.r.noPath(q.num, guid, why)
}

// drained raises the event which says that a send queue in SQD has stopped.
func (sh *mover) drained(q *qp) { q.event(control.EventDrained) }

// drop ends the work that q is in the middle of. Jobs of other queue pairs that have q as
// their peer see that q.life has changed. They are judged again, according to q's new state.
func (sh *queues) drop(q *qp) {
	sh.unstall(q)
	sh.parkJob(q)
	sh.recallTasks(nil, nil, q)
	q.life++
}

// setError moves a QP to ERR. From the next step on its queues are flushed, in order.
func (sh *queues) setError(q *qp) {
	if q.attr.State != control.StateERR && q.attr.State != control.StateRST {
		sh.setState(q, control.StateERR)
	}
}

func (c *caller) queryQP(m *control.QPN, _ requestMemory, _ *control.Reply) (control.Message, error) {
	q, ok := c.qps[m.QPN]
	if !ok {
		return nil, notFound("QP", m.QPN)
	}
	attr := q.attr
	return &attr, nil
}
