//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"errors"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// remember keeps the fields of a transition for QUERY_QP.
func (q *qp) remember(cmd []byte, state uint8) {
	if q.context == nil {
		return
	}
	switch state {
	case control.StateRST, control.StateERR, control.StateSQD:
		return // 2RST_QP and 2ERR_QP have no context
	case control.StateRTR:
		copy(q.context[devx.QPGRH.At:devx.QPPort.At], cmd[devx.QPGRH.At:])
		for _, f := range []*devx.Field{devx.QPLogMessage, devx.QPMACHigh, devx.QPMACLow, devx.QPPriority,
			devx.QPSL} {
			f.Put(q.context, f.Get(cmd))
		}
	case control.StateRTS:
		if binary.BigEndian.Uint16(cmd) != devx.OpRTR2RTS {
			return // RTS2RTS_QP changes only what its mask names
		}
		devx.QPLogAckReq.Put(q.context, devx.QPLogAckReq.Get(cmd))
	}
}

// queryFirmwareObject serves MLX5_DEVX_OBJ.QUERY.
func queryFirmwareObject(c *call) error {
	answer, err := c.queryByCommand(objectOf[*qp](c, abi.MLX5AttrDEVXObjQueryHandle),
		c.bytes(abi.MLX5AttrDEVXObjQueryCmdIn), c.room(abi.MLX5AttrDEVXObjQueryCmdOut))
	if err != nil {
		return err
	}
	c.put(abi.MLX5AttrDEVXObjQueryCmdOut, answer)
	return nil
}

// queryLater serves MLX5_DEVX_OBJ.ASYNC_QUERY: the answer comes by a descriptor, behind a number of the
// program's. It is sent at once. As in the kernel, there is no more room when too many answers have not
// been read.
func queryLater(c *call) error {
	f, err := c.file(abi.MLX5AttrDEVXObjQueryAsyncFD)
	if err != nil {
		return err
	}
	cookie, err := cookieOf(f)
	to := c.x.channelOf(c.x.subs.commands, cookie)
	if err != nil || to == nil {
		return refuse(eBADF, "async query: the descriptor is not of this context's answers")
	}
	room := c.value(abi.MLX5AttrDEVXObjQueryAsyncOutLen)
	if room < devx.HeadSize || room > maxAnswer {
		return refuse(eINVAL, "async query with %d bytes of answer; %d to %d are possible", room, devx.HeadSize, maxAnswer)
	}
	answer, err := c.queryByCommand(objectOf[*qp](c, abi.MLX5AttrDEVXObjQueryAsyncHandle),
		c.bytes(abi.MLX5AttrDEVXObjQueryAsyncCmdIn), int(room))
	var failed *refusal
	if errors.As(err, &failed) && failed.out != nil {
		answer = failed.out
	} else if err != nil {
		return err
	}
	b := make([]byte, 8+room)
	le.PutUint64(b, c.value(abi.MLX5AttrDEVXObjQueryAsyncWRID))
	copy(b[8:], answer)
	if !to.send(b, nil) {
		return refuse(eAGAIN, "async query: the program has not read the answers before")
	}
	return nil
}

// maxAnswer is the longest answer: that of QUERY_HCA_CAP.
const maxAnswer = devx.HeadSize + devx.CapsSize

// queryByCommand runs a command that asks for the context of an object. q is nil if the object is no queue
// pair.
func (c *call) queryByCommand(q *qp, cmd []byte, room int) ([]byte, error) {
	if op := binary.BigEndian.Uint16(cmd); op != devx.OpQueryQP {
		return nil, refuse(eINVAL, "%s: of objects only queue pairs can be asked (%s)", devx.Name(op), devx.Name(devx.OpQueryQP))
	}
	if q == nil || uint32(devx.QPN.Get(cmd)) != q.number {
		return nil, refuse(eINVAL, "QUERY_QP of queue pair %#x: the handle is not that of this queue pair", devx.QPN.Get(cmd))
	}
	if err := c.checkLengths(cmd, room); err != nil {
		return nil, err
	}
	a, err := c.attributes(q, cmd)
	if err != nil {
		return nil, err
	}
	return q.answer(a), nil
}

// answer returns the answer to QUERY_QP: what the program has set, and what the engine says about it now.
// The engine's attributes of a queue pair in RST are 0, but a program takes an MTU of 0 for an error. So
// the MTU is then that of the port.
func (q *qp) answer(a *control.QPAttr) []byte {
	b := make([]byte, devx.Find(devx.OpQueryQP).OutSize)
	copy(b[qpContextAt:], q.context[min(qpContextAt, len(q.context)):])
	mtu := a.PathMTU
	if mtu == 0 {
		mtu = activeMTU
	}
	if q.context == nil { // made by the verbs
		devx.QPType.Put(b, uint64(q.transport))
		devx.QPPathState.Put(b, 3)
	}
	for _, v := range []struct {
		field *devx.Field
		value uint64
	}{
		{devx.QPState, uint64(a.State)}, {devx.QPMTU, uint64(mtu)}, {devx.QPRemote, uint64(a.DestQPN)},
		{devx.QPReceivePSN, uint64(a.RQPSN)}, {devx.QPSendPSN, uint64(a.SQPSN)},
		{devx.QPPort, uint64(a.Port)}, {devx.QPPKeyIndex, uint64(a.PKeyIndex)},
		{devx.QPTimeout, uint64(a.Timeout)}, {devx.QPRetryCount, uint64(a.RetryCount)},
		{devx.QPRNRRetry, uint64(a.RNRRetry)}, {devx.QPMinRNR, uint64(a.MinRNRTimer)},
		{devx.QPLogSRA, uint64(log2(uint32(a.MaxRdAtomic)))}, {devx.QPLogRRA, uint64(log2(uint32(a.MaxDestRdAtomic)))},
		{devx.QPReads, right(a, control.AccessRemoteRead)}, {devx.QPWrites, right(a, control.AccessRemoteWrite)},
		{devx.QPAtomics, right(a, control.AccessRemoteAtomic)}, {devx.QPKey, uint64(a.QKey)},
		{devx.QPDoneBlocks, uint64(a.Executed)}, {devx.QPPostedBlocks, uint64(a.Announced)},
	} {
		v.field.Put(b, v.value)
	}
	return b
}

// right returns 1 if the peer has a right, otherwise 0.
func right(a *control.QPAttr, bit uint32) uint64 {
	if a.Access&bit != 0 {
		return 1
	}
	return 0
}
