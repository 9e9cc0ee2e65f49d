//go:build linux && (amd64 || arm64)

package torture

import (
	"time"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/wqe"
	"golang.org/x/sys/unix"
)

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
	n := v.r.IntN(100)
	switch {
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
		_ = unix.Fallocate(int(w.mem.File().Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
			int64(at), 4096*int64(1+v.r.IntN(8)))
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
		n := v.r.IntN(8)
		switch {
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
		n := v.r.IntN(8)
		switch {
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
		wqe.OpNop, wqe.OpSendInval, wqe.OpRDMAWrite, wqe.OpRDMAWrite, wqe.OpRDMAWriteImm, wqe.OpSend,
		wqe.OpSendImm, wqe.OpRDMARead, wqe.OpAtomicCS,
		wqe.OpAtomicFA, wqe.OpAtomicMaskedCS, wqe.OpAtomicMaskedFA, wqe.OpUMR, wqe.OpDump, wqe.OpMMO,
		wqe.OpWait, wqe.OpSendEn, wqe.OpLocalInval,
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
		build.XRC(
			wqe.XRC{SRQN: [...]uint32{w.xsrq, w.xsrq, w.xsrq, w.srq, v.r.Uint32() & 0xffffff}[v.r.IntN(5)]})
	}
	switch op {
	case wqe.OpRDMAWrite, wqe.OpRDMAWriteImm, wqe.OpRDMARead, wqe.OpAtomicCS, wqe.OpAtomicFA,
		wqe.OpAtomicMaskedCS, wqe.OpAtomicMaskedFA:
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
		err = w.call(control.OpModifyQP,
			&control.QPAttr{QPN: q.qpn, Mask: control.AttrState, State: uint8(v.r.IntN(7))}, &control.Empty{})
	case 2:
		a := control.QPAttr{QPN: q.qpn, Mask: v.r.Uint32() & v.r.Uint32(), State: uint8(v.r.IntN(8)),
			Access: v.r.Uint32(), DestQPN: v.r.Uint32(), QKey: v.r.Uint32()}
		err = w.call(control.OpModifyQP, &a, &control.Empty{})
	case 3:
		var a control.QPAttr
		err = w.call(control.OpQueryQP, &control.QPN{QPN: q.qpn}, &a)
	case 4:
		var key control.Key
		i := v.r.IntN(len(w.keys))
		req := control.ReregMR{Key: w.keys[i], What: v.r.Uint32() & 7, PDN: w.pd,
			Access: v.r.Uint32() & control.AccessAll, Addr: base + atPayload,
			Length: 1 + uint64(v.r.IntN(payloadSize)), IOVA: base + atPayload}
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
		req := control.ResizeCQ{CQN: w.cqs[0], LogSize: uint8(v.r.IntN(8)), LogCQE: 6,
			Buf: base + atCQ + uint64(v.r.IntN(2))*4096}
		err = w.call(control.OpResizeCQ, &req, &control.Empty{})
	case 7:
		err = w.call(control.OpModifySRQ, &control.SRQLimit{SRQN: w.srq, Limit: uint32(v.r.IntN(80))},
			&control.Empty{})
	case 9:
		// An SRQ that messages may be waiting for goes, or a domain that is in use, or a target of others is
		// opened.
		switch v.r.IntN(3) {
		case 0:
			if err = w.call(control.OpDestroySRQ, &control.SRQN{SRQN: w.xsrq},
				&control.Empty{}); err == nil || refused(err) {
				err = v.createXSRQ(w)
			}
		case 1:
			err = w.call(control.OpCloseXRCD, &control.XRCD{XRCDN: w.xrcd + uint32(v.r.IntN(3)) - 1},
				&control.Empty{})
		case 2:
			if o, ok := v.other(); ok {
				err = w.call(control.OpOpenTarget, &control.Target{XRCDN: w.xrcd, QPN: o.QP.QPN},
					&control.Empty{})
				if err == nil {
					return verdict.New(verdict.Failed, "a refusal", "the engine opened QP %#x of another client", o.QP.QPN)
				}
			}
		}
	case 8: // with the number of another client's QP
		if o, ok := v.other(); ok {
			err = w.call(control.OpDestroyQP, &control.QPN{QPN: o.QP.QPN}, &control.Empty{})
			if err == nil {
				return verdict.New(verdict.Failed, "a refusal", "the engine destroyed QP %#x of another client", o.QP.QPN)
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
