//go:build linux && (amd64 || arm64)

package survey

import (
	"runtime/debug"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/pagefault"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/state"
	"github.com/nicless/nicless/trace"
)

// transports has the name of each type of queue pair.
var transports = map[uint8]trace.Transport{
	control.QPTypeRC: trace.RC, control.QPTypeUC: trace.UC, control.QPTypeUD: trace.UD,
	control.QPTypeXRC: trace.XRCIni, control.QPTypeDCI: trace.DCI, control.QPTypeDCT: trace.DCT,
}

// queue describes a queue pair, between two steps.
func (s *survey) queue(q *object.QP) *state.Line {
	if q.Dead {
		return nil
	}
	d := &state.Queue{
		Number: q.Num, Client: q.Client.Number, Time: now(),
		Transport: transports[q.Transport].String(), State: report.TraceState(q.Attr.State).String(),
		WQEs: q.SQ.WQEs, Bytes: q.SQ.Moved, Done: q.SQ.Done, Consumed: q.RQ.Done, Failed: q.Failed,
	}
	if q.Target() != nil {
		d.Transport = trace.XRCTgt.String()
	}
	if q.HasPeer() {
		d.Peer = q.Attr.DestQPN
	}
	if q.Wire != nil {
		d.Linked, d.Port = true, q.Wire.Port.Number
	}
	if q.SQ.CQ != nil {
		d.SendCQ = q.SQ.CQ.Num
	}
	if q.RQ.CQ != nil {
		d.RecvCQ = q.RQ.CQ.Num
	}
	if q.RQ.SRQ != nil {
		d.SRQ = q.RQ.SRQ.Num
	}
	if q.SQ.Record != nil && q.Target() == nil {
		d.SendSize = uint32(q.SQ.Mask + 1)
	}
	if q.RQ.Ring != nil {
		d.RecvSize = uint32(q.RQ.Mask + 1)
	}
	readable(func() {
		if q.SQ.Record != nil {
			d.Announced = announced(q)
		}
		if q.RQ.Ring != nil {
			d.Posted = uint32(q.Posted())
		}
	})
	if q.Stall.Kind != object.NoStall {
		d.Wait = s.why(q)
		d.WaitTime = nanoseconds(clock.Duration(clock.Now() - min(q.Stall.Since, clock.Now())))
	}
	return &state.Line{Queue: d}
}

// announced returns how many blocks of the send queue of q are announced and not executed. A record out of
// range announces nothing, as for the device.
//
// Observe: send record. Published by hostpath.SQ.Ring.
func announced(q *object.QP) uint32 {
	n := uint64(uint16(q.SQ.Record.Observe()) - uint16(q.SQ.Done))
	if n > q.SQ.Mask+1 {
		return 0
	}
	return uint32(n)
}

// why says in words why the next WQE of q has to wait.
func (s *survey) why(q *object.QP) string {
	switch q.Stall.Kind {
	case object.NoPeer:
		return s.r.Loops[q.Client.Shard.Number].WhyNoPeer(q).String()
	case object.NotReady:
		return "the peer has no receive posted"
	case object.BehindCQ:
		return "WAIT: a completion queue has not reached an index"
	case object.Held:
		return "a rule of faults holds it back"
	case object.Kept:
		return "the sanitizer holds it back for a moment"
	}
	return ""
}

// cq describes a completion queue, between two steps.
func (s *survey) cq(q *object.CQ) *state.Line {
	if q.Gone {
		return nil
	}
	d := &state.CQ{
		Number: q.Num, Client: q.Client.Number, Size: 1 << q.Log, EntrySize: 1 << q.LogCQE, Written: q.Next,
		Queues: q.Users, Overrun: q.Dead, Armed: q.Armed, Collapsed: q.Collapsed,
	}
	if !q.Collapsed {
		readable(func() { d.Unpolled = uint32(q.ObserveUnread()) })
	}
	return &state.Line{CQ: d}
}

// srq describes a shared receive queue, between two steps.
func (s *survey) srq(q *object.SRQ) *state.Line {
	if q.Gone {
		return nil
	}
	d := &state.SRQ{Number: q.Num, Client: q.Client.Number, Size: uint32(q.Mask) + 1, Consumed: q.Taken,
		Limit: q.Limit, Queues: q.Users}
	readable(func() { d.Posted = uint32(q.Ready()) })
	return &state.Line{SRQ: d}
}

// readable calls f, which reads memory of a client. If the memory has lost its pages, f ends early.
func readable(f func()) (ok bool) {
	panics := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(panics)
	defer func() {
		if r := recover(); r != nil {
			if _, fault := pagefault.Of(r); !fault {
				panic(r)
			}
		}
	}()
	f()
	return true
}
