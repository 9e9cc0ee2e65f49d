//go:build linux && (amd64 || arm64)

package torture

import (
	"time"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"golang.org/x/sys/unix"
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
	c, err := dialRaw(v.spec.Socket)
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
		if w.mem, _, err = w.region(objectsSize, true); err != nil {
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
			LogSize: queueLog, LogCQE: uint8(6 + i), Handle: uint64(i), Flags: uint32(v.r.IntN(8)) & ^control.CQCollapsed,
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
	if err := w.call(control.OpCreateSRQ, &control.SRQ{PDN: w.pd, Ring: base + atSRQ, DBRec: base + atRecords + 15*64, LogSize: queueLog, LogStride: 6}, &srq); err != nil && !refused(err) {
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
	req := control.XSRQ{SRQ: control.SRQ{PDN: w.pd, Ring: base + atXSRQ, DBRec: base + atRecords + 14*64, LogSize: queueLog, LogStride: 6},
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
	req := control.MR{PDN: w.pd, Access: access, Addr: w.mem.Addr() + atPayload, Length: payloadSize, IOVA: w.mem.Addr() + atPayload}
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
		PDN: w.pd, SendCQN: w.cqs[0], RecvCQN: w.cqs[1], UserIndex: uint32(i), SQ: w.mem.Addr() + at + queueSize/2, RQ: w.mem.Addr() + at,
		DBRec: w.mem.Addr() + atRecords + 256 + uint64(i)*64, Type: [...]uint8{0, 0, 1, 1, 2, control.QPTypeXRC}[i],
		LogSQ: queueLog, LogRQ: queueLog, LogRQStride: 6, UAR: uint16(i % 2),
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
		req.SRQN, req.SignatureOn, req.Managed = 0, 0, 0
		if !xrc {
			req.RQ, req.LogRQ, req.LogRQStride = w.mem.Addr()+at, queueLog, 6
		}
		err = w.call(control.OpCreateQP, &req, &qpn)
	}
	if err != nil {
		return err
	}
	w.qps = append(w.qps, &hostileQP{
		qpn: qpn.QPN, kind: req.Type, sq: w.mem.Bytes()[at+queueSize/2:][:64<<queueLog], rec: w.mem.Bytes()[atRecords+256+i*64:][:8],
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
	toInit := control.QPAttr{State: control.StateINIT, Port: 1, Access: access, Mask: control.AttrPort | control.AttrPKeyIndex | control.AttrAccess}
	toRTR := control.QPAttr{
		State: control.StateRTR, PathMTU: 5, DestQPN: to, MaxDestRdAtomic: 4, MinRNRTimer: 1, GUID: w.guid,
		Mask: control.AttrAV | control.AttrPathMTU | control.AttrDestQPN | control.AttrRQPSN | control.AttrMaxDestRdAtom | control.AttrMinRNRTimer,
	}
	toRTS := control.QPAttr{
		State: control.StateRTS, Timeout: 1, RetryCount: 1, RNRRetry: uint8(v.r.IntN(8)), MaxRdAtomic: 4,
		Mask: control.AttrTimeout | control.AttrRetryCount | control.AttrRNRRetry | control.AttrSQPSN | control.AttrMaxRdAtomic,
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

// scribble creates objects and overwrites them.
func (v *hostile) scribble() error {
	w, err := v.create()
	if err != nil {
		return err
	}
	defer w.destroy()
	for range 100 + v.r.IntN(400) {
		for range 8 {
			if err := v.scribbleOnce(w); err != nil {
				return err
			}
		}
		v.did(8)
		v.pause(2 * time.Millisecond)
	}
	return nil
}

// scribbleOnce does one thing wrong.
func (v *hostile) scribbleOnce(w *objects) error {
	b, q := w.mem.Bytes(), w.qps[v.r.IntN(len(w.qps))]
	switch n := v.r.IntN(100); {
	case n < 15: // overwrite anything
		at := v.r.IntN(atPayload)
		v.fill(b[at : at+v.r.IntN(min(512, atPayload-at))+1])
	case n < 25: // overwrite records of QPs and CQs
		at := atRecords + v.r.IntN(16)*64
		v.fill(b[at : at+8])
	case n < 30: // overwrite completions
		at := atCQ + v.r.IntN(16<<10)
		v.fill(b[at : at+1+v.r.IntN(64)])
	case n < 40: // overwrite registers
		off := v.r.IntN(2*doorbell.UARPageSize) &^ 7
		shm.BE64At(w.uar.Bytes(), uint64(off)).Publish(v.r.Uint64() >> v.r.IntN(64))
	case n < 80:
		if q.sq == nil { // receives for the target
			v.fill(b[atXSRQ:][:4096])
			shm.BE32At(b, atRecords+14*64).Publish(v.r.Uint32() >> v.r.IntN(32))
			return nil
		}
		for range 1 + v.r.IntN(8) {
			v.postWrong(w, q)
		}
		v.ring(w, q)
	case n < 83: // try to remove pages: see punch
		at := v.r.IntN(objectsSize/4096) * 4096
		_ = unix.Fallocate(int(w.mem.File().Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(at), 4096*int64(1+v.r.IntN(8)))
	case n < 90:
		i := v.r.IntN(len(w.qps))
		to := w.qps[v.r.IntN(len(w.qps))].qpn
		if w.qps[i].kind == control.QPTypeXRC && v.r.IntN(4) > 0 { // no others reach each other
			if err := v.connect(w, atTarget-1, w.qps[atTarget].qpn); err != nil {
				return err
			}
			i, to = atTarget, w.qps[atTarget-1].qpn
		}
		if o, ok := v.other(); ok && (v.spec.Attack == Thief || v.r.IntN(8) == 0) {
			to = o.QP.QPN
		}
		return v.connect(w, i, to)
	default:
		return v.control(w, q)
	}
	return nil
}

// other returns a flow of a correct client.
func (v *hostile) other() (FlowInfo, bool) {
	if len(v.spec.Victims) == 0 {
		return FlowInfo{}, false
	}
	return v.spec.Victims[v.r.IntN(len(v.spec.Victims))], true
}

// postWrong writes a WQE that is nearly correct, or random bytes.
func (v *hostile) postWrong(w *objects, q *hostileQP) {
	if v.r.IntN(8) == 0 {
		at := int(q.next) % (1 << queueLog) * wqe.BlockSize
		v.fill(q.sq[at : at+wqe.BlockSize])
		q.next++
		return
	}
	key := func() uint32 {
		switch n := v.r.IntN(8); {
		case n == 0:
			return v.r.Uint32()
		case n == 1:
			return w.keys[v.r.IntN(len(w.keys))] ^ 1<<v.r.IntN(32)
		case n == 2 || v.spec.Attack == Thief && n < 6:
			if o, ok := v.other(); ok {
				return []uint32{o.Target.RKey, o.Source.RKey, o.Words.RKey}[v.r.IntN(3)]
			}
		}
		return w.keys[v.r.IntN(len(w.keys))]
	}
	addr := func() uint64 {
		switch n := v.r.IntN(8); {
		case n == 0:
			return v.r.Uint64()
		case n == 1:
			return w.mem.Addr() + objectsSize - uint64(v.r.IntN(64))
		case n == 2 || v.spec.Attack == Thief && n < 6:
			if o, ok := v.other(); ok {
				return o.Target.Addr + uint64(v.r.IntN(areaSize))
			}
		}
		return w.mem.Addr() + atPayload + uint64(v.r.IntN(payloadSize/2))&^7
	}
	length := uint32(v.r.IntN(4096))
	if v.r.IntN(16) == 0 {
		length = v.r.Uint32() &^ wqe.InlineFlag
	}
	data := func() wqe.Data { return wqe.Data{ByteCount: length, LKey: key(), Addr: addr()} }
	ops := [...]wqe.Opcode{
		wqe.OpNop, wqe.OpSendInval, wqe.OpRDMAWrite, wqe.OpRDMAWrite, wqe.OpRDMAWriteImm, wqe.OpSend, wqe.OpSendImm, wqe.OpRDMARead, wqe.OpAtomicCS,
		wqe.OpAtomicFA, wqe.OpAtomicMaskedCS, wqe.OpAtomicMaskedFA, wqe.OpUMR, wqe.OpDump, wqe.OpMMO, wqe.OpWait, wqe.OpSendEn, wqe.OpLocalInval,
	}
	op := ops[v.r.IntN(len(ops))]
	if v.r.IntN(32) == 0 {
		op = wqe.Opcode(v.r.IntN(64))
	}
	build := wqe.Start(q.sq, q.next)
	if q.kind == control.QPTypeUD {
		var av wqe.AV
		av.Ext, av.DQP, av.Key = true, w.qps[v.r.IntN(len(w.qps))].qpn, wqe.UDKey(v.r.Uint32())
		if o, ok := v.other(); ok && v.r.IntN(4) == 0 {
			av.DQP = o.QP.QPN
		}
		build.AV(av)
	}
	if q.kind == control.QPTypeXRC {
		build.XRC(wqe.XRC{SRQN: [...]uint32{w.xsrq, w.xsrq, w.xsrq, w.srq, v.r.Uint32() & 0xffffff}[v.r.IntN(5)]})
	}
	switch op {
	case wqe.OpRDMAWrite, wqe.OpRDMAWriteImm, wqe.OpRDMARead, wqe.OpAtomicCS, wqe.OpAtomicFA, wqe.OpAtomicMaskedCS, wqe.OpAtomicMaskedFA:
		build.Raddr(wqe.Raddr{Addr: addr(), RKey: key()})
	}
	switch op {
	case wqe.OpAtomicCS, wqe.OpAtomicFA, wqe.OpAtomicMaskedFA:
		build.Atomic(wqe.Atomic{SwapAdd: v.r.Uint64(), Compare: v.r.Uint64()})
		length = 8
	case wqe.OpAtomicMaskedCS:
		build.MaskedCS8(wqe.MaskedCS8{Swap: v.r.Uint64(), Compare: v.r.Uint64()})
		length = 8
	case wqe.OpUMR, wqe.OpWait, wqe.OpSendEn, wqe.OpMMO:
		var units [192]byte
		v.fill(units[:])
		if v.r.IntN(2) == 0 { // the number of a queue pair that exists
			copy(units[8:], []byte{0, byte(w.qps[0].qpn >> 16), byte(w.qps[0].qpn >> 8), byte(w.qps[0].qpn)})
		}
		build.Raw(units[:16*(1+v.r.IntN(12))])
	}
	if v.r.IntN(8) == 0 {
		var inline [300]byte
		build.Inline(inline[:v.r.IntN(len(inline))])
	}
	for range v.r.IntN(3) {
		build.Data(data())
	}
	ctrl := wqe.Ctrl{Opcode: op, QPN: q.qpn, Flags: uint8(v.r.Uint32()), Imm: key()}
	if v.r.IntN(2) == 0 {
		ctrl.Flags = wqe.CEAlways
	}
	if v.r.IntN(16) == 0 {
		ctrl.OpMod = uint8(v.r.Uint32())
	}
	blocks, err := build.Finish(ctrl)
	if err != nil {
		return
	}
	if v.r.IntN(8) == 0 { // flip one bit
		at := int(q.next) % (1 << queueLog) * wqe.BlockSize
		q.sq[at+v.r.IntN(wqe.BlockSize)] ^= 1 << v.r.IntN(8)
	}
	q.next += uint16(blocks)
}

// publish writes the doorbell record correctly.
func (q *hostileQP) publish() { shm.BE32At(q.rec, 4).Publish(uint32(q.next)) }

// ring announces the posted work to the engine, sometimes with a wrong count.
func (v *hostile) ring(w *objects, q *hostileQP) {
	word := uint32(q.next)
	if v.r.IntN(8) == 0 {
		word = v.r.Uint32() >> v.r.IntN(32)
	}
	shm.BE32At(q.rec, 4).Publish(word)
	if v.r.IntN(2) == 0 {
		shm.BE32At(q.rec, 0).Publish(v.r.Uint32() >> v.r.IntN(32))
	}
	at := uint64(v.r.IntN(2))*doorbell.UARPageSize + doorbell.BFOffset + uint64(v.r.IntN(8))*doorbell.BFHalf
	shm.BE64At(w.uar.Bytes(), at).Publish(uint64(doorbell.MakeRing(q.next, q.qpn)))
}

// control sends a control request between the other attacks.
func (v *hostile) control(w *objects, q *hostileQP) (err error) {
	base := w.mem.Addr()
	switch v.r.IntN(10) {
	case 0:
		if err = v.register(w); err == nil && len(w.keys) > 8 {
			i := v.r.IntN(len(w.keys))
			err = w.call(control.OpDeregMR, &control.Key{Key: w.keys[i]}, &control.Empty{})
			w.keys = append(w.keys[:i], w.keys[i+1:]...)
		}
	case 1:
		err = w.call(control.OpModifyQP, &control.QPAttr{QPN: q.qpn, Mask: control.AttrState, State: uint8(v.r.IntN(7))}, &control.Empty{})
	case 2:
		a := control.QPAttr{QPN: q.qpn, Mask: v.r.Uint32() & v.r.Uint32(), State: uint8(v.r.IntN(8)), Access: v.r.Uint32(), DestQPN: v.r.Uint32(), QKey: v.r.Uint32()}
		err = w.call(control.OpModifyQP, &a, &control.Empty{})
	case 3:
		var a control.QPAttr
		err = w.call(control.OpQueryQP, &control.QPN{QPN: q.qpn}, &a)
	case 4:
		var key control.Key
		i := v.r.IntN(len(w.keys))
		req := control.ReregMR{Key: w.keys[i], What: v.r.Uint32() & 7, PDN: w.pd, Access: v.r.Uint32() & control.AccessAll, Addr: base + atPayload, Length: 1 + uint64(v.r.IntN(payloadSize)), IOVA: base + atPayload}
		if err = w.call(control.OpReregMR, &req, &key); err == nil {
			w.keys[i] = key.Key
		}
	case 5:
		var key control.Key
		if v.r.IntN(2) == 0 {
			err = w.call(control.OpAllocMW, &control.MW{PDN: w.pd, Kind: uint8(v.r.IntN(3))}, &key)
		} else {
			err = w.call(control.OpCreateMkey, &control.Mkey{PDN: w.pd, Entries: uint32(v.r.IntN(8))}, &key)
		}
		if err == nil && len(w.keys) < 64 {
			w.keys = append(w.keys, key.Key)
		}
	case 6:
		req := control.ResizeCQ{CQN: w.cqs[0], LogSize: uint8(v.r.IntN(8)), LogCQE: 6, Buf: base + atCQ + uint64(v.r.IntN(2))*4096}
		err = w.call(control.OpResizeCQ, &req, &control.Empty{})
	case 7:
		err = w.call(control.OpModifySRQ, &control.SRQLimit{SRQN: w.srq, Limit: uint32(v.r.IntN(80))}, &control.Empty{})
	case 9: // an SRQ that messages may be waiting for goes, or a domain that is in use, or a target of others is opened
		switch v.r.IntN(3) {
		case 0:
			if err = w.call(control.OpDestroySRQ, &control.SRQN{SRQN: w.xsrq}, &control.Empty{}); err == nil || refused(err) {
				err = v.createXSRQ(w)
			}
		case 1:
			err = w.call(control.OpCloseXRCD, &control.XRCD{XRCDN: w.xrcd + uint32(v.r.IntN(3)) - 1}, &control.Empty{})
		case 2:
			if o, ok := v.other(); ok {
				err = w.call(control.OpOpenTarget, &control.Target{XRCDN: w.xrcd, QPN: o.QP.QPN}, &control.Empty{})
				if err == nil {
					return corrupt("the engine opened QP %#x of another client", o.QP.QPN)
				}
			}
		}
	case 8: // with the number of another client's QP
		if o, ok := v.other(); ok {
			err = w.call(control.OpDestroyQP, &control.QPN{QPN: o.QP.QPN}, &control.Empty{})
			if err == nil {
				return corrupt("the engine destroyed QP %#x of another client", o.QP.QPN)
			}
		}
	}
	for _, f := range w.files {
		_ = f.Close()
	}
	w.files = nil
	if refused(err) {
		return nil
	}
	return err
}
