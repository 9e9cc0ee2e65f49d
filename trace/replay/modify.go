//go:build linux && (amd64 || arm64)

package replay

import (
	"encoding/binary"
	"math/bits"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/trace"
)

// states are the states of requests.
var states = map[trace.State]uint8{
	trace.RST: control.StateRST, trace.INIT: control.StateINIT, trace.RTR: control.StateRTR,
	trace.RTS: control.StateRTS, trace.SQD: control.StateSQD, trace.SQE: control.StateSQE,
	trace.ERR: control.StateERR,
}

const (
	initial   = control.AttrPKeyIndex | control.AttrPort
	peer      = control.AttrAV | control.AttrPathMTU | control.AttrDestQPN | control.AttrRQPSN
	responder = control.AttrMaxDestRdAtom | control.AttrMinRNRTimer
	requester = control.AttrTimeout | control.AttrRetryCount | control.AttrRNRRetry | control.AttrSQPSN |
		control.AttrMaxRdAtomic
)

// attributes returns which attributes a queue pair gets on its way to a state.
func attributes(t trace.Transport, from, to trace.State) uint32 {
	later := control.AttrAccess
	if t == trace.UD {
		later = control.AttrQKey
	}
	switch {
	case to == trace.INIT:
		return initial | later
	case to == trace.RTR && t == trace.RC:
		return peer | responder | later
	case to == trace.RTR && t == trace.UC:
		return peer | later
	case to == trace.RTR:
		return later
	case to == trace.RTS && from == trace.RTR && t == trace.RC:
		return requester | later
	case to == trace.RTS && from == trace.RTR:
		return control.AttrSQPSN | later
	case to == trace.RTS && t == trace.RC:
		return later | control.AttrMinRNRTimer
	case to == trace.RTS:
		return later
	}
	return 0
}

// modify brings a queue pair to a state.
func (r *replayer) modify(q *queue, to trace.State, info *trace.QueueInfo, s *trace.QueueSetup) error {
	from := q.was
	q.info, q.setup, q.state, q.was = *info, *s, to, to
	if from == to && to != trace.INIT && to != trace.RTS {
		return nil
	}
	if to == trace.RST {
		clear(q.record)
		q.sent, q.fetched, q.received, q.chunks, q.taken = 0, 0, 0, nil, nil
	}
	a := &control.QPAttr{QPN: q.number, State: states[to], Port: 1, Timeout: s.Timeout,
		RetryCount: s.RetryCount, RNRRetry: s.RNRRetry, MinRNRTimer: s.MinRNRTimer,
		MaxRdAtomic: s.MaxRdAtomic, MaxDestRdAtomic: s.MaxDestRdAtomic, Access: s.Access,
		RQPSN: info.RecvPSN, SQPSN: info.SendPSN, DestQPN: info.Peer, GUID: r.d.GUID(), QKey: s.QKey}
	if info.MTU >= 256 {
		a.PathMTU = uint8(min(bits.Len32(info.MTU)-8, 5))
	}
	a.Mask = control.AttrState | attributes(q.transport, from, to)
	return q.client.call(control.OpModifyQP, a, &control.Empty{})
}

// announce writes one of the two counts of a doorbell record: 0 the receives, 4 the blocks.
func (q *queue) announce(at int, n uint16) { putRecord(q.record[at:], n) }

func putRecord(b []byte, n uint16) { binary.BigEndian.PutUint32(b, uint32(n)) }
