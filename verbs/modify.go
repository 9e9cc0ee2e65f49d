package verbs

import (
	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

// States of verbs, by those of the device, which differ in two.
var verbsStates = [...]uint8{
	control.StateRST: 0, control.StateINIT: 1, control.StateRTR: 2, control.StateRTS: 3,
	control.StateSQD: 4, control.StateSQE: 5, control.StateERR: 6,
}

func deviceState(verbs uint8) (uint8, error) {
	for s, v := range verbsStates {
		if v == verbs {
			return uint8(s), nil
		}
	}
	return 0, refuse(eINVAL, "state %d; 0 to 6 are known", verbs)
}

// Bits of a mask that the device does not have.
const (
	attrDrainedNotify = 1 << 2
	attrAltPath       = 1 << 14
	attrMigration     = 1 << 18
	attrCap           = 1 << 19
	attrRateLimit     = 1 << 25

	attrDevice = control.AttrState | control.AttrCurState | control.AttrAccess | control.AttrPKeyIndex | control.AttrPort |
		control.AttrQKey | control.AttrAV | control.AttrPathMTU | control.AttrTimeout | control.AttrRetryCount |
		control.AttrRNRRetry | control.AttrRQPSN | control.AttrMaxRdAtomic | control.AttrMinRNRTimer | control.AttrSQPSN |
		control.AttrMaxDestRdAtom | control.AttrDestQPN
	attrIgnored = attrDrainedNotify | attrMigration // there is one path, and it is migrated to
)

// psn and queue numbers are cut to 24 bits, as hardware does.
const bits24 = 0xffffff

func exModifyQP(c *call, req []byte) error {
	if le.Uint32(req[112:]) != 0 {
		return refuse(eOPNOTSUPP, "rate limit %d: this device has none", le.Uint32(req[112:]))
	}
	if err := modifyQP(c, req); err != nil {
		return err
	}
	c.put32(1, 0, 8)
	c.put32(uhwOut, 16)
	return nil
}

// modifyQP: struct ib_uverbs_modify_qp, without a response.
func modifyQP(c *call, b []byte) error {
	q, err := lookup[*qp](c, "qp", le.Uint32(b[64:]), kindQP)
	if err != nil {
		return err
	}
	mask := le.Uint32(b[68:])
	if mask&^(attrDevice|attrIgnored) != 0 {
		return refuse(eOPNOTSUPP, "mask %#x: of alternate paths (%#x), capabilities (%#x), rates (%#x) and what is not known nothing can be set",
			mask, attrAltPath, attrCap, attrRateLimit)
	}
	a := &control.QPAttr{
		QPN: q.number, Mask: mask & attrDevice, QKey: le.Uint32(b[72:]), RQPSN: le.Uint32(b[76:]) & bits24, SQPSN: le.Uint32(b[80:]) & bits24,
		DestQPN: le.Uint32(b[84:]) & bits24, PKeyIndex: le.Uint16(b[92:]), PathMTU: b[98],
		MaxRdAtomic: b[101], MaxDestRdAtomic: b[102], MinRNRTimer: b[103], Port: b[104],
		Timeout: b[105], RetryCount: b[106], RNRRetry: b[107],
	}
	if mask&control.AttrState != 0 {
		if a.State, err = deviceState(b[96]); err != nil {
			return err
		}
	}
	if mask&control.AttrCurState != 0 {
		if a.CurState, err = deviceState(b[97]); err != nil {
			return err
		}
	}
	if mask&control.AttrAccess != 0 {
		if a.Access, err = rights(le.Uint32(b[88:])); err != nil {
			return err
		}
	}
	if mask&control.AttrAV != 0 {
		to := b[:32]
		if err := address(to[30], to[31], to[24]); err != nil {
			return err
		}
		if c.x.s.reach(to[:16]) == nil {
			return refuse(unix.EHOSTUNREACH, "peer %x: no device of this engine has that GID; both programs must be clients of one engine", to[:16])
		}
		a.GUID = c.x.s.engine.GUID()
	}
	if mask&control.AttrState != 0 && endsWork(a.State) {
		c.x.settle()
	}
	if err := c.x.tell(control.OpModifyQP, a); err != nil {
		return err
	}
	if mask&control.AttrAV != 0 {
		copy(q.path[:], b[:32])
	}
	if a.Mask&control.AttrState != 0 && a.State == control.StateRST {
		q.path = [32]byte{}
	}
	if mask&attrDrainedNotify != 0 {
		q.tellsDrained = b[100] != 0
	}
	return nil
}

// endsWork reports whether what was announced is not executed in a state.
func endsWork(state uint8) bool {
	return state == control.StateRST || state == control.StateSQD || state == control.StateERR
}

// rights are what a queue pair grants: as for memory, without the rule that binds
// them to local ones.
func rights(flags uint32) (uint32, error) {
	flags &^= accessOptional | accessHugeTLB
	if flags&^control.AccessAll != 0 {
		return 0, refuse(eINVAL, "access %#x; %#x are known", flags, control.AccessAll)
	}
	return flags, nil
}

// queryQP: response u64, handle u32, mask u32. The answer is struct
// ib_uverbs_query_qp_resp.
func queryQP(c *call, req []byte) error {
	q, err := lookup[*qp](c, "qp", le.Uint32(req[8:]), kindQP)
	if err != nil {
		return err
	}
	m, _, err := c.x.ask(control.OpQueryQP, &control.QPN{QPN: q.number})
	if err != nil {
		return err
	}
	a := m.(*control.QPAttr)
	b := make([]byte, 128)
	copy(b, q.path[:])
	for i, v := range q.caps {
		le.PutUint32(b[64+4*i:], v)
	}
	le.PutUint32(b[84:], a.QKey)
	le.PutUint32(b[88:], a.RQPSN)
	le.PutUint32(b[92:], a.SQPSN)
	le.PutUint32(b[96:], a.DestQPN)
	le.PutUint32(b[100:], a.Access)
	le.PutUint16(b[104:], a.PKeyIndex)
	b[108], b[109] = verbsStates[a.State], verbsStates[a.CurState]
	b[110], b[113], b[114], b[115] = a.PathMTU, a.MaxRdAtomic, a.MaxDestRdAtomic, a.MinRNRTimer
	b[116], b[117], b[118], b[119] = a.Port, a.Timeout, a.RetryCount, a.RNRRetry
	if q.signalAll {
		b[122] = 1
	}
	c.put(1, b)
	return nil
}
