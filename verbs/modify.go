//go:build linux && (amd64 || arm64)

package verbs

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// verbsStates has, for each state of the device, the number of enum ibv_qp_state.
var verbsStates = [...]uint8{
	control.StateRST: abi.QPSReset, control.StateINIT: abi.QPSInit, control.StateRTR: abi.QPSRTR,
	control.StateRTS: abi.QPSRTS, control.StateSQD: abi.QPSSQD, control.StateSQE: abi.QPSSQE,
	control.StateERR: abi.QPSErr,
}

func deviceState(verbs uint8) (uint8, error) {
	for s, v := range verbsStates {
		if v == verbs {
			return uint8(s), nil
		}
	}
	return 0, refuse(eINVAL, "state %d; 0 to 6 are known", verbs)
}

// Bits of enum ibv_qp_attr_mask. attrDevice has the bits that the device knows; they have the
// same numbers there. attrAccepted has the bits that the device does not get: this package
// keeps IBV_QP_EN_SQD_ASYNC_NOTIFY (qp.reportsDrained), and IBV_QP_PATH_MIG_STATE has no
// effect, because a queue pair has only one path.
const (
	attrDevice = control.AttrState | control.AttrCurState | control.AttrAccess | control.AttrPKeyIndex |
		control.AttrPort | control.AttrQKey | control.AttrAV | control.AttrPathMTU | control.AttrTimeout |
		control.AttrRetryCount | control.AttrRNRRetry | control.AttrRQPSN | control.AttrMaxRdAtomic |
		control.AttrMinRNRTimer | control.AttrSQPSN | control.AttrMaxDestRdAtom | control.AttrDestQPN
	attrAccepted = abi.QPEnSQDAsyncNotify | abi.QPPathMigState
)

// bits24 cuts packet sequence numbers and queue pair numbers to 24 bits, as hardware does.
const bits24 = 0xffffff

// exModifyQP serves EX_MODIFY_QP. The request is struct ib_uverbs_ex_modify_qp.
func exModifyQP(c *call, req []byte) error {
	if rate := le.Uint32(req[abi.ExModifyQPRateLimit:]); rate != 0 {
		return refuse(eOPNOTSUPP, "rate limit %d: this device has none", rate)
	}
	if err := modifyQP(c, req); err != nil {
		return err
	}
	c.put32(abi.AttrCoreOut, 0, abi.ExModifyQPRespSize) // comp_mask, response_length
	c.putModified(req)
	return nil
}

// modifyQP serves MODIFY_QP. The request is struct ib_uverbs_modify_qp, and there is no
// response.
func modifyQP(c *call, b []byte) error {
	q, err := lookup[*qp](c, "qp", le.Uint32(b[abi.ModifyQPQPHandle:]), kindQP)
	if err != nil {
		return err
	}
	mask := le.Uint32(b[abi.ModifyQPAttrMask:])
	if mask&^(attrDevice|attrAccepted) != 0 {
		return refuse(eOPNOTSUPP, "mask %#x: alternate paths (%#x), capabilities (%#x), rates (%#x) and unknown attributes cannot be set",
			mask, abi.QPAltPath, abi.QPCap, abi.QPRateLimit)
	}
	if q.dynamic() {
		if err := c.checkDynamic(q, b, mask); err != nil {
			return err
		}
	}
	a := &control.QPAttr{
		QPN: q.number, Mask: mask & attrDevice &^ q.ignores(), QKey: le.Uint32(b[abi.ModifyQPQKey:]),
		RQPSN: le.Uint32(b[abi.ModifyQPRQPSN:]) & bits24, SQPSN: le.Uint32(b[abi.ModifyQPSQPSN:]) & bits24,
		DestQPN:   le.Uint32(b[abi.ModifyQPDestQPNum:]) & bits24,
		PKeyIndex: le.Uint16(b[abi.ModifyQPPKeyIndex:]), PathMTU: b[abi.ModifyQPPathMTU],
		MaxRdAtomic: b[abi.ModifyQPMaxRdAtomic], MaxDestRdAtomic: b[abi.ModifyQPMaxDestRdAtomic],
		MinRNRTimer: b[abi.ModifyQPMinRNRTimer], Port: b[abi.ModifyQPPortNum],
		Timeout: b[abi.ModifyQPTimeout], RetryCount: b[abi.ModifyQPRetryCnt],
		RNRRetry: b[abi.ModifyQPRNRRetry],
	}
	if mask&control.AttrState != 0 {
		a.State, err = deviceState(b[abi.ModifyQPQPState])
		if err != nil {
			return err
		}
	}
	if mask&control.AttrCurState != 0 {
		a.CurState, err = deviceState(b[abi.ModifyQPCurQPState])
		if err != nil {
			return err
		}
	}
	if mask&control.AttrAccess != 0 {
		a.Access = grantedAccess(le.Uint32(b[abi.ModifyQPQPAccessFlags:]))
	}
	dest := b[abi.ModifyQPDest:][:abi.QPDestSize] // struct ib_uverbs_qp_dest
	if mask&control.AttrAV != 0 {
		to := peerAddress{
			global: dest[abi.QPDestIsGlobal], port: dest[abi.QPDestPortNum],
			sourceGID: dest[abi.QPDestSGIDIndex], class: dest[abi.QPDestTrafficClass],
			hops: dest[abi.QPDestHopLimit], gid: [gidSize]byte(dest[abi.QPDestDGID:]),
			lid: le.Uint16(dest[abi.QPDestDLID:]),
		}
		if err := c.x.checkAddress(to); err != nil {
			return err
		}
		// A dynamic queue pair has no single peer: the address has the way for answers. A queue
		// pair that is connected keeps its path.
		if !q.dynamic() && mask&control.AttrState != 0 && a.State == control.StateRTR {
			if err := c.x.connectElsewhere(q, to); err != nil {
				return err
			}
		}
		a.GUID = c.x.s.engine.GUID()
	}
	if mask&control.AttrState != 0 && stopsWork(a.State) {
		c.x.executeAnnounced()
	}
	if err := c.x.command(control.OpModifyQP, a); err != nil {
		return err
	}
	if mask&control.AttrAV != 0 {
		q.dest.set(dest)
	}
	if mask&control.AttrState != 0 {
		q.stage = a.State
		c.p.past.ready = c.p.past.ready || a.State == control.StateRTS
	}
	if a.Mask&control.AttrState != 0 && a.State == control.StateRST {
		q.dest.set(nil)
		c.x.releasePath(q.object)
	}
	if mask&abi.QPEnSQDAsyncNotify != 0 {
		q.reportsDrained = b[abi.ModifyQPEnSQDAsyncNotify] != 0
	}
	return nil
}

// ignores returns the attributes of the other side of an XRC connection. Programs may set them
// as if both sides were one queue pair (modify_qp_mask in the kernel's uverbs_cmd.c). The device
// needs no address for DC.
func (q *qp) ignores() uint32 {
	switch {
	case q.dynamic():
		return control.AttrAV
	case q.transport != control.QPTypeXRC:
		return 0
	case q.target != nil:
		return control.AttrMaxRdAtomic | control.AttrRetryCount | control.AttrRNRRetry
	}
	return control.AttrMaxDestRdAtom | control.AttrMinRNRTimer
}

// stopsWork reports whether a queue pair in this state does not execute work requests.
func stopsWork(state uint8) bool {
	return state == control.StateRST || state == control.StateSQD || state == control.StateERR
}

// grantedAccess returns the device's access rights for the verbs flags for what a queue pair grants its peer.
// Here, unlike for memory, remote rights do not need local ones, and flags that the device does not know have
// no effect, as with the kernel's mlx5: librdmacm and programs grant FLUSH to every device.
func grantedAccess(flags uint32) uint32 { return flags & control.AccessAll }

// queryQP serves QUERY_QP. The request is struct ib_uverbs_query_qp, and the response is
// struct ib_uverbs_query_qp_resp.
func queryQP(c *call, req []byte) error {
	q, err := lookup[*qp](c, "qp", le.Uint32(req[abi.QueryQPQPHandle:]), kindQP)
	if err != nil {
		return err
	}
	if err := q.checkDCTQuery(le.Uint32(req[abi.QueryQPAttrMask:])); err != nil {
		return err
	}
	m, _, err := c.x.request(control.OpQueryQP, &control.QPN{QPN: q.number})
	if err != nil {
		return err
	}
	a := m.(*control.QPAttr)
	b := make([]byte, abi.QueryQPRespSize)
	dest := q.dest.get()
	copy(b[abi.QueryQPRespDest:], dest[:])
	for i, v := range q.caps {
		le.PutUint32(b[abi.QueryQPRespMaxSendWR+4*i:], v)
	}
	le.PutUint32(b[abi.QueryQPRespQKey:], a.QKey)
	le.PutUint32(b[abi.QueryQPRespRQPSN:], a.RQPSN)
	le.PutUint32(b[abi.QueryQPRespSQPSN:], a.SQPSN)
	le.PutUint32(b[abi.QueryQPRespDestQPNum:], a.DestQPN)
	le.PutUint32(b[abi.QueryQPRespQPAccessFlags:], a.Access)
	le.PutUint16(b[abi.QueryQPRespPKeyIndex:], a.PKeyIndex)
	b[abi.QueryQPRespQPState], b[abi.QueryQPRespCurQPState] = verbsStates[a.State], verbsStates[a.CurState]
	b[abi.QueryQPRespPathMTU], b[abi.QueryQPRespPortNum] = a.PathMTU, a.Port
	b[abi.QueryQPRespMaxRdAtomic], b[abi.QueryQPRespMaxDestRdAtomic] = a.MaxRdAtomic, a.MaxDestRdAtomic
	b[abi.QueryQPRespMinRNRTimer], b[abi.QueryQPRespTimeout] = a.MinRNRTimer, a.Timeout
	b[abi.QueryQPRespRetryCnt], b[abi.QueryQPRespRNRRetry] = a.RetryCount, a.RNRRetry
	if q.signalAll {
		b[abi.QueryQPRespSQSigAll] = 1
	}
	c.put(abi.AttrCoreOut, b)
	return nil
}
