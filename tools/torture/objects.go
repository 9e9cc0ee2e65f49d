//go:build linux && (amd64 || arm64)

package torture

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// objects are the objects that a scribbler has created. Their queues are in one region, which
// the scribbler then overwrites.
type objects struct {
	*raw
	mem  *shm.Region
	pd   uint32
	keys []uint32
	cqs  [2]uint32
	srq  uint32
	xrcd uint32
	xsrq uint32
	qps  []*hostileQP
}

type hostileQP struct {
	qpn  uint32
	kind uint8
	sq   []byte // nil: the queue pair is a target (XRC), which posts nothing
	rec  []byte
	next uint16 // number of blocks posted
}

// Offsets in the region.
const (
	objectsSize = 1 << 20
	atCQ        = 0        // two CQs of 64 entries
	atRecords   = 24 << 10 // doorbell records, one in each cache line
	atSRQ       = 28 << 10 // 64 entries of 64 bytes
	atXSRQ      = 32 << 10 // 64 entries of 64 bytes
	atQueues    = 64 << 10 // for each QP a send queue of 64 blocks and a receive queue of 64 entries
	queueSize   = 16 << 10
	atPayload   = 256 << 10
	objectsQPs  = 7
	atTarget    = objectsQPs - 1 // the QP that receives by XRC; the one before it sends to it
	queueLog    = 6
	payloadSize = objectsSize - atPayload
)

// create connects and creates the objects, all of it correctly.
func (v *hostile) create() (*objects, error) {
	c, err := v.dial()
	if err != nil {
		return nil, err
	}
	w := &objects{raw: c}
	if err := v.createObjects(w); err != nil {
		w.destroy()
		return nil, err
	}
	return w, nil
}

func (w *objects) destroy() {
	w.raw.close()
	if w.mem != nil {
		_ = w.mem.Close()
	}
}

// createObjects creates all objects that are missing.
func (v *hostile) createObjects(w *objects) error {
	if w.mem == nil {
		if err := w.hello(); err != nil {
			return err
		}
		var err error
		w.mem, _, err = w.region(objectsSize, true)
		if err != nil {
			return err
		}
	}
	// The client never reads these events.
	if err := w.call(control.OpOpenEvents, &control.Empty{}, &control.Empty{}); err != nil && !refused(err) {
		return err
	}
	var pd control.PD
	if err := w.call(control.OpAllocPD, &control.Empty{}, &pd); err != nil {
		return err
	}
	w.pd = pd.PDN
	for range 3 {
		if err := v.register(w); err != nil {
			return err
		}
	}
	if len(w.keys) == 0 {
		w.keys = []uint32{wqe.KeyEnd}
	}
	var channel control.Channel
	if err := w.call(control.OpCreateChannel, &control.Empty{}, &channel); err != nil {
		return err
	}
	base := w.mem.Addr()
	for i := range w.cqs {
		buf := w.mem.Bytes()[atCQ+i*8192:][:8192]
		for j := 63; j < len(buf); j += 64 {
			buf[j] = 0xf0
		}
		req := control.CQ{
			Buf: base + atCQ + uint64(i)*8192, DBRec: base + atRecords + uint64(i)*64, Channel: channel.ID,
			LogSize: queueLog, LogCQE: uint8(6 + i), Handle: uint64(i),
			Flags: uint32(v.r.IntN(8)) & ^control.CQCollapsed,
		}
		if req.LogCQE == 7 {
			req.Flags &^= control.CQCompressed // only entries of 64 bytes are compressed
		}
		var cqn control.CQN
		if err := w.call(control.OpCreateCQ, &req, &cqn); err != nil {
			return err
		}
		w.cqs[i] = cqn.CQN
	}
	var srq control.SRQN
	shared := control.SRQ{PDN: w.pd, Ring: base + atSRQ, DBRec: base + atRecords + 15*64,
		LogSize: queueLog, LogStride: 6, Cyclic: uint8(v.r.IntN(2))}
	if err := w.call(control.OpCreateSRQ, &shared, &srq); err != nil && !refused(err) {
		return err
	}
	w.srq = srq.SRQN
	for i := range objectsQPs - 1 {
		if err := v.queue(w, i); err != nil {
			return err
		}
	}
	if err := v.target(w); err != nil {
		return err
	}
	for i, peer := range [objectsQPs]int{1, 0, 3, 2, 0, 6, 5} {
		if err := v.connect(w, i, w.qps[peer].qpn); err != nil {
			return err
		}
	}
	return nil
}

// target creates an XRC domain, its SRQ, and a QP that receives in it, the last one.
func (v *hostile) target(w *objects) error {
	var d control.XRCD
	if err := w.call(control.OpOpenXRCD, &control.Empty{}, &d); err != nil {
		return err
	}
	w.xrcd = d.XRCDN
	var qpn control.QPN
	if err := w.call(control.OpCreateTarget, &d, &qpn); err != nil {
		return err
	}
	w.qps = append(w.qps, &hostileQP{qpn: qpn.QPN, kind: control.QPTypeXRC})
	return v.createXSRQ(w)
}

func (v *hostile) createXSRQ(w *objects) error {
	base := w.mem.Addr()
	req := control.XSRQ{SRQ: control.SRQ{PDN: w.pd, Ring: base + atXSRQ, DBRec: base + atRecords + 14*64,
		LogSize: queueLog, LogStride: 6},
		XRCDN: w.xrcd, CQN: w.cqs[v.r.IntN(2)], UserIndex: v.r.Uint32() & 0xffffff}
	var n control.SRQN
	if err := w.call(control.OpCreateXSRQ, &req, &n); err != nil && !refused(err) {
		return err
	}
	w.xsrq = n.SRQN
	return nil
}

// register registers memory with random rights.
func (v *hostile) register(w *objects) error {
	access := control.AccessLocalWrite | v.r.Uint32()&control.AccessAll
	var key control.Key
	req := control.MR{PDN: w.pd, Access: access, Addr: w.mem.Addr() + atPayload, Length: payloadSize,
		IOVA: w.mem.Addr() + atPayload}
	if v.r.IntN(4) == 0 { // memory that includes the client's own queues
		req.Addr, req.Length, req.IOVA = w.mem.Addr(), objectsSize, w.mem.Addr()
	}
	if err := w.call(control.OpRegMR, &req, &key); err != nil {
		if refused(err) {
			return nil
		}
		return err
	}
	w.keys = append(w.keys, key.Key)
	return nil
}

// queue creates QP i. QPs 0 and 1 are RC, QPs 2 and 3 are UC, QP 4 is UD, and QP 5 sends by XRC.
func (v *hostile) queue(w *objects, i int) error {
	at := uint64(atQueues + i*queueSize)
	req := control.QP{
		PDN: w.pd, SendCQN: w.cqs[0], RecvCQN: w.cqs[1], UserIndex: uint32(i),
		SQ: w.mem.Addr() + at + queueSize/2, RQ: w.mem.Addr() + at,
		DBRec: w.mem.Addr() + atRecords + 256 + uint64(i)*64,
		Type:  [...]uint8{0, 0, 1, 1, 2, control.QPTypeXRC}[i],
		LogSQ: queueLog, LogRQ: queueLog, LogRQStride: 6, UAR: uint16(i % 2),
		Doorbells: [...]uint8{control.DoorbellRecord, control.DoorbellRecord, control.DoorbellRegister,
			control.DoorbellGuarded}[v.r.IntN(4)],
	}
	xrc := req.Type == control.QPTypeXRC
	if xrc {
		req.NoReceive, req.RQ, req.LogRQ, req.LogRQStride = 1, 0, 0, 0
	}
	switch v.r.IntN(5) {
	case 0:
		if w.srq != 0 && !xrc {
			req.RQ, req.LogRQ, req.LogRQStride, req.SRQN = 0, 0, 0, w.srq
		}
	case 1:
		req.SignatureOn = 1
	case 2:
		if !xrc { // the only one that sends to the target
			req.Managed = 1
		}
	}
	var qpn control.QPN
	err := w.call(control.OpCreateQP, &req, &qpn)
	if refused(err) {
		req.SRQN, req.SignatureOn, req.Managed, req.Doorbells = 0, 0, 0, control.DoorbellRecord
		if !xrc {
			req.RQ, req.LogRQ, req.LogRQStride = w.mem.Addr()+at, queueLog, 6
		}
		err = w.call(control.OpCreateQP, &req, &qpn)
	}
	if err != nil {
		return err
	}
	w.qps = append(w.qps, &hostileQP{
		qpn: qpn.QPN, kind: req.Type, sq: w.mem.Bytes()[at+queueSize/2:][:64<<queueLog],
		rec: w.mem.Bytes()[atRecords+256+i*64:][:8],
	})
	return nil
}

// connect takes QP i through its states, with random rights. Its peer is the QP whose number is
// in the argument to.
func (v *hostile) connect(w *objects, i int, to uint32) error {
	return v.connectAs(w, i, to, v.r.Uint32()&0xe)
}

// connectAs is connect with these rights in place of random ones.
func (v *hostile) connectAs(w *objects, i int, to, access uint32) error {
	q := w.qps[i]
	clear(q.rec)
	q.next = 0
	step := func(a control.QPAttr) error {
		a.QPN = q.qpn
		a.Mask |= control.AttrState
		if err := w.call(control.OpModifyQP, &a, &control.Empty{}); err != nil && !refused(err) {
			return err
		}
		return nil
	}
	toInit := control.QPAttr{State: control.StateINIT, Port: 1, Access: access,
		Mask: control.AttrPort | control.AttrPKeyIndex | control.AttrAccess}
	toRTR := control.QPAttr{
		State: control.StateRTR, PathMTU: 5, DestQPN: to, MaxDestRdAtomic: 4, MinRNRTimer: 1, GUID: w.guid,
		Mask: control.AttrAV | control.AttrPathMTU | control.AttrDestQPN | control.AttrRQPSN |
			control.AttrMaxDestRdAtom | control.AttrMinRNRTimer,
	}
	toRTS := control.QPAttr{
		State: control.StateRTS, Timeout: 1, RetryCount: 1, RNRRetry: uint8(v.r.IntN(8)), MaxRdAtomic: 4,
		Mask: control.AttrTimeout | control.AttrRetryCount | control.AttrRNRRetry | control.AttrSQPSN |
			control.AttrMaxRdAtomic,
	}
	switch q.kind {
	case control.QPTypeUC:
		toRTR.Mask = control.AttrAV | control.AttrPathMTU | control.AttrDestQPN | control.AttrRQPSN
		toRTS.Mask = control.AttrSQPSN
	case control.QPTypeXRC: // each side has the attributes of one half of a reliable connection
		if q.sq == nil {
			toRTS.Mask = control.AttrTimeout | control.AttrSQPSN
		} else {
			toRTR.Mask &^= control.AttrMaxDestRdAtom | control.AttrMinRNRTimer
		}
	case control.QPTypeUD:
		toInit.Mask = control.AttrPort | control.AttrPKeyIndex | control.AttrQKey
		toRTR.Mask = 0
		toRTS.Mask = control.AttrSQPSN
	}
	for _, a := range []control.QPAttr{{State: control.StateRST}, toInit, toRTR, toRTS} {
		if err := step(a); err != nil {
			return err
		}
	}
	return nil
}
