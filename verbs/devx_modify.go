//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// Transitions of queue pairs by firmware commands. The firmware does not take a mask with all attributes, as
// the verbs do: each command has fields that always count, and fields that count only if a bit of
// opt_param_mask says so. The rights of the peer count without a bit only in RST2INIT_QP.

// A move is one command that changes a queue pair.
type move struct {
	from, to uint8
	// Attributes that the command sets, for each transport. Other transports do not have the transition.
	sets map[uint8]uint32
	// Bits of opt_param_mask that count. Other bits are of things that this device does not have, and
	// that change nothing here: counters, alternate paths, congestion control.
	optional uint32
}

const (
	setsInitial = control.AttrPKeyIndex | control.AttrPort
	setsPeer    = control.AttrAV | control.AttrPathMTU | control.AttrDestQPN | control.AttrRQPSN
	setsRetries = control.AttrTimeout | control.AttrRetryCount | control.AttrRNRRetry | control.AttrSQPSN |
		control.AttrMaxRdAtomic
	optRights = devx.OptRRE | devx.OptRWE | devx.OptRAE
)

var moves = map[uint16]*move{
	devx.OpRST2INIT: {control.StateRST, control.StateINIT, map[uint8]uint32{
		control.QPTypeRC: setsInitial | control.AttrAccess,
		control.QPTypeUC: setsInitial | control.AttrAccess,
		control.QPTypeUD: setsInitial | control.AttrQKey, control.QPTypeDCI: setsInitial}, 0},
	devx.OpINIT2INIT: {control.StateINIT, control.StateINIT, map[uint8]uint32{
		control.QPTypeRC: 0, control.QPTypeUC: 0, control.QPTypeUD: 0, control.QPTypeDCI: 0},
		optRights | devx.OptPKeyIndex | devx.OptPriPort | devx.OptQKey},
	devx.OpINIT2RTR: {control.StateINIT, control.StateRTR, map[uint8]uint32{
		control.QPTypeRC: setsPeer | control.AttrMaxDestRdAtom | control.AttrMinRNRTimer,
		control.QPTypeUC: setsPeer, control.QPTypeUD: 0, control.QPTypeDCI: control.AttrPathMTU},
		optRights | devx.OptPKeyIndex | devx.OptQKey},
	devx.OpRTR2RTS: {control.StateRTR, control.StateRTS, map[uint8]uint32{
		control.QPTypeRC: setsRetries, control.QPTypeUC: control.AttrSQPSN,
		control.QPTypeUD: control.AttrSQPSN, control.QPTypeDCI: setsRetries},
		optRights | devx.OptRNRTimeout | devx.OptQKey},
	devx.OpRTS2RTS: {control.StateRTS, control.StateRTS, map[uint8]uint32{
		control.QPTypeRC: 0, control.QPTypeUC: 0, control.QPTypeUD: 0, control.QPTypeDCI: 0},
		optRights | devx.OptRNRTimeout | devx.OptQKey},
	devx.OpSQERR2RTS: {control.StateSQE, control.StateRTS, map[uint8]uint32{
		control.QPTypeUC: 0, control.QPTypeUD: 0}, optRights | devx.OptQKey},
}

// optionalOf has the attribute that each bit of opt_param_mask sets, and the transports that have it.
var optionalOf = []struct {
	bit, attribute uint32
	transports     uint8 // bit n: transport n
}{
	{devx.OptPKeyIndex, control.AttrPKeyIndex, 1<<control.QPTypeRC | 1<<control.QPTypeUC | 1<<control.QPTypeUD | 1<<control.QPTypeDCI},
	{devx.OptPriPort, control.AttrPort, 1<<control.QPTypeRC | 1<<control.QPTypeUC | 1<<control.QPTypeUD | 1<<control.QPTypeDCI},
	{devx.OptQKey, control.AttrQKey, 1 << control.QPTypeUD},
	{devx.OptRNRTimeout, control.AttrMinRNRTimer, 1<<control.QPTypeRC | 1<<control.QPTypeDCI},
}

// accessIn returns the rights of a peer that three fields give.
func accessIn(cmd []byte, reads, writes, atomics *devx.Field) (rights uint32) {
	if reads.On(cmd) {
		rights |= control.AccessRemoteRead
	}
	if writes.On(cmd) {
		rights |= control.AccessRemoteWrite
	}
	if atomics.On(cmd) {
		rights |= control.AccessRemoteAtomic
	}
	return rights
}

// someRights returns the rights old, of which those are replaced whose bits are in mask.
func someRights(cmd []byte, mask, old uint32) uint32 {
	given := accessIn(cmd, devx.QPReads, devx.QPWrites, devx.QPAtomics)
	for bit, right := range map[uint32]uint32{devx.OptRRE: control.AccessRemoteRead,
		devx.OptRWE: control.AccessRemoteWrite, devx.OptRAE: control.AccessRemoteAtomic} {
		if mask&bit != 0 {
			old = old&^right | given&right
		}
	}
	return old
}

// modifyByCommand serves MLX5_DEVX_OBJ.MODIFY in a context with firmware commands. q is nil if the handle is
// not that of a queue pair.
func (c *call) modifyByCommand(q *qp, cmd []byte) error {
	op := binary.BigEndian.Uint16(cmd)
	switch {
	case moves[op] == nil && op != devx.Op2ERR && op != devx.Op2RST:
		return refuse(eINVAL, "%s changes no object that this device has", devx.Name(op))
	case q == nil || uint32(devx.QPN.Get(cmd)) != q.number: // the kernel refuses it too
		return refuse(eINVAL, "%s of queue pair %#x: the handle is not that of this queue pair", devx.Name(op), devx.QPN.Get(cmd))
	case q.transport == control.QPTypeDCT: // the kernel takes a DCT for another kind of object
		return refuse(eINVAL, "%s of a DCT, which firmware commands do not change", devx.Name(op))
	}
	if err := c.checkLengths(cmd, c.room(abi.MLX5AttrDEVXObjModifyCmdOut)); err != nil {
		return err
	}
	return c.moveQP(q, cmd)
}

// moveQP serves a command that changes a queue pair.
func (c *call) moveQP(q *qp, cmd []byte) error {
	op := binary.BigEndian.Uint16(cmd)
	var a *control.QPAttr
	var err error
	switch op {
	case devx.Op2ERR:
		a = &control.QPAttr{Mask: control.AttrState, State: control.StateERR}
	case devx.Op2RST:
		a = &control.QPAttr{Mask: control.AttrState, State: control.StateRST}
	default:
		a, err = c.attributesOfMove(q, cmd, moves[op])
		if err != nil {
			return err
		}
	}
	a.QPN = q.number
	if stopsWork(a.State) {
		c.x.executeAnnounced()
	}
	if a.State == control.StateRTR && a.Mask&control.AttrAV != 0 {
		if err := c.connectByCommand(q, cmd, a.Port); err != nil {
			return err
		}
	}
	if err := c.x.command(control.OpModifyQP, a); err != nil {
		return refusedByEngine(cmd, err)
	}
	q.stage = a.State
	c.p.past.ready = c.p.past.ready || a.State == control.StateRTS
	q.remember(cmd, a.State)
	if a.State == control.StateRST {
		q.dest.set(nil)
		c.x.releasePath(q.object)
	}
	c.put(abi.MLX5AttrDEVXObjModifyCmdOut, nil)
	return nil
}

// attributesOfMove returns the attributes that a command sets.
func (c *call) attributesOfMove(q *qp, cmd []byte, m *move) (*control.QPAttr, error) {
	sets, ok := m.sets[q.transport]
	if !ok {
		return nil, firmwareError(devx.StatusBadQPState, uint32(binary.BigEndian.Uint16(cmd))<<16,
			"%s: queue pair %#x is of transport %d, which does not have this transition",
			devx.Name(binary.BigEndian.Uint16(cmd)), q.number, q.transport)
	}
	now, err := c.attributes(q, cmd)
	if err != nil {
		return nil, err
	}
	if now.State != m.from { // judged before anything is done
		op := binary.BigEndian.Uint16(cmd)
		return nil, firmwareError(devx.StatusBadQPState, uint32(op)<<16, "%s: queue pair %#x is in state %d, not %d",
			devx.Name(op), q.number, now.State, m.from)
	}
	optional := uint32(devx.OptParamMask.Get(cmd)) & m.optional
	a := &control.QPAttr{Mask: sets | control.AttrState | control.AttrCurState, State: m.to, CurState: m.from,
		GUID: c.x.s.engine.GUID(), Access: now.Access,
		PKeyIndex: uint16(devx.QPPKeyIndex.Get(cmd)), Port: now.Port,
		QKey: uint32(devx.QPKey.Get(cmd)), PathMTU: uint8(devx.QPMTU.Get(cmd)),
		DestQPN: uint32(devx.QPRemote.Get(cmd)), RQPSN: uint32(devx.QPReceivePSN.Get(cmd)),
		SQPSN: uint32(devx.QPSendPSN.Get(cmd)), MinRNRTimer: uint8(devx.QPMinRNR.Get(cmd)),
		Timeout: uint8(devx.QPTimeout.Get(cmd)), RetryCount: uint8(devx.QPRetryCount.Get(cmd)),
		RNRRetry:    uint8(devx.QPRNRRetry.Get(cmd)),
		MaxRdAtomic: 1 << devx.QPLogSRA.Get(cmd), MaxDestRdAtomic: 1 << devx.QPLogRRA.Get(cmd)}
	if sets&control.AttrAccess != 0 {
		a.Access = accessIn(cmd, devx.QPReads, devx.QPWrites, devx.QPAtomics)
	}
	if optional&optRights != 0 && (q.transport == control.QPTypeRC || q.transport == control.QPTypeUC) {
		a.Mask |= control.AttrAccess
		a.Access = someRights(cmd, optional, now.Access)
	}
	for _, o := range optionalOf {
		if optional&o.bit != 0 && o.transports>>q.transport&1 != 0 {
			a.Mask |= o.attribute
		}
	}
	if a.Mask&control.AttrPort != 0 {
		a.Port = uint8(devx.QPPort.Get(cmd))
	}
	if a.Mask&control.AttrPathMTU != 0 && (a.PathMTU < 1 || a.PathMTU > activeMTU) {
		return nil, wrong(cmd, devx.QPMTU, devx.StatusBadParameter, "1 (256 bytes) to %d (4096 bytes) are possible", activeMTU)
	}
	return a, nil
}

// attributes asks the engine for the attributes of a queue pair.
func (c *call) attributes(q *qp, cmd []byte) (*control.QPAttr, error) {
	m, _, err := c.x.request(control.OpQueryQP, &control.QPN{QPN: q.number})
	if err != nil {
		return nil, refusedByEngine(cmd, err)
	}
	return m.(*control.QPAttr), nil
}

// connectByCommand checks the address of the peer in INIT2RTR_QP, and gives the engine the path to a peer
// that is elsewhere. The port is that of RST2INIT_QP; DOCA and NVSHMEM leave the field 0 here.
func (c *call) connectByCommand(q *qp, cmd []byte, port uint8) error {
	to := peerAddress{port: port, sourceGID: uint8(devx.QPGIDIndex.Get(cmd)),
		class: uint8(devx.QPClass.Get(cmd)), hops: uint8(devx.QPHops.Get(cmd)),
		gid: [gidSize]byte(devx.QPGID.Raw(cmd)), lid: uint16(devx.QPLID.Get(cmd))}
	if c.x.device.lid == 0 || devx.QPGRH.On(cmd) { // RoCE always has the global header
		to.global = 1
	}
	err := c.x.checkAddress(to)
	if err == nil {
		err = c.x.connectElsewhere(q, to)
	}
	if err != nil {
		return wrongFor(cmd, devx.QPGID, devx.StatusBadParameter, err)
	}
	return nil
}
