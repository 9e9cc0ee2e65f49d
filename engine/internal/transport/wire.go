//go:build linux && (amd64 || arm64)

package transport

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
)

// ConnectWire is called when q goes to RTR and its peer is on another device. Its client has paid
// WireCost.
func (sh *wires) ConnectWire(q *object.QP, to nic.Path) {
	p := to.Port.(*PortHandle).Port
	w := &object.Wire{Q: q, Port: p, Path: to.Number, From: to.Source, MTU: p.MTUOf(q.Attr.PathMTU, to.MTU)}
	w.Timer.Of = w
	w.In.PSN, w.In.Data = q.Attr.RQPSN, packet.AddPSN(q.Attr.RQPSN, 1<<24-1)
	w.In.Reads = make([]object.AnswerDue, object.MostAnswers)
	w.In.Results = make([]object.Result, MostResults)
	if q.HasReceives() {
		w.In.Entry = make([]byte, 1<<object.MaxLogRQStride)
	}
	w.Out.Messages = make([]object.Message, min(q.SQ.Mask+1, mostMessages))
	w.Out.Full = p.Window(w.MTU)
	q.Wire = w
	q.SetAside()
	q.Client.Linked++
	p.Users++
	w.Losses = p.Paths.Join(w.From)
	w.Losses.To = w.Path
	if p.Settings.Loses && q.Reliable() {
		w.Out.Full = min(w.Out.Full, recovery.Reach)
		w.Recovery = recovery.NewState(w.Losses, w.Out.Full)
		w.Recovery.Stretches(&p.Paths.Store, w.MTU)
		sh.ChargeEarly(q, w)
		p.Resumed = slices.Grow(p.Resumed, p.Users)
		sh.queryPeer(p, w.Losses)
	}
	p.Guard(w)
	p.ACKs = slices.Grow(p.ACKs, p.Users)
}

const (
	mostMessages = 128 // the most messages of one queue pair on the way
	MostResults  = 32  // the most results of atomics that are kept, in case their requests come again
)

// LeaveWire ends q's use of its wire.
func (sh *wires) LeaveWire(q *object.QP) {
	sh.DropHeld(q)
	w := q.Wire
	if w == nil {
		return
	}
	sh.dropEarly(w)
	sh.RefundEarly(w.Recovery.Leave())
	sh.RewindQueue(q)
	w.Port.Shard.Timers.Disarm(&w.Timer)
	sh.DropInboundJobs(&w.In)
	if w.Watched {
		w.Port.Watched--
	}
	q.Wire = nil
	q.SetAside()
	q.Client.Refund(object.WireCost)
	q.Client.Linked--
	w.Port.Users--
	w.Port.Unguard(w)
	w.Losses.Leave()
}

// RewindQueue drops all messages of q that are on the way, and sets SQ.Done to the count of blocks of WQEs
// that have completed.
func (sh *wires) RewindQueue(q *object.QP) {
	out := &q.Wire.Out
	sh.DropRequestJob(out)
	sh.DropAnswerJob(out)
	sh.dropAnswers(q.Wire)
	if out.First != out.Last {
		q.SQ.Done = out.Oldest().Index
		out.First = out.Last
	}
	out.Sending, out.Sent = out.Last, 0
	if !q.Reliable() {
		out.PSN = out.UNA // the rest of a message that was being sent is not sent any more
	}
	out.Reading = 0
	out.Paused = false
}

// StopWire is called when q stops sending, because it goes to ERR or SQE.
func (sh *wires) StopWire(q *object.QP) {
	if q.Wire == nil {
		return
	}
	sh.RewindQueue(q)
	q.Wire.Port.Shard.Timers.Disarm(&q.Wire.Timer)
	if q.Attr.State == control.StateERR {
		sh.DropInboundJobs(&q.Wire.In)
		sh.dropEarly(q.Wire)
		if !q.Wire.In.Refusing {
			q.Wire.In.DropAnswers()
			q.Wire.In.ACKDue = false
		}
	}
}

// VisitWire is Visit for a queue pair on a wire: it sends answers that are due, and then requests.
func (sh *sender) VisitWire(q *object.QP) (done int) {
	w := q.Wire
	if q.Attr.State == control.StateRTS && !w.In.HasDue() && w.Out.Sending == w.Out.Last && q.Job == nil {
		if uint16(q.SQ.Record.Observe()) == uint16(q.SQ.Done) {
			return 0 // nothing to send
		}
		if sh.sendLone(q) {
			return 1
		}
	}
	bytes := sh.Settings.Slice
	if w.In.HasDue() {
		done += sh.sendAnswers(q, &bytes)
		sh.Sched.Spent = sh.Settings.Slice - bytes
	}
	switch q.Attr.State {
	case control.StateERR, control.StateSQE:
		done += sh.Flush(q, sh.Pending(q))
	case control.StateRTS, control.StateSQD:
		if q.Wire != nil {
			done += sh.sendRequests(q, max(bytes, 1))
		}
	}
	return done
}

// WireHasWork is HasWork for a queue pair on a wire.
func (sh *wires) WireHasWork(q *object.QP) bool {
	w := q.Wire
	if w.In.HasDue() {
		return true
	}
	switch q.Attr.State {
	case control.StateRTS:
		return q.Stall.Kind == object.NoStall &&
			(w.CanSend() || q.Job != nil || (sh.Pending(q) > 0 && w.CanFetch()))
	case control.StateSQD:
		return w.CanSend() || q.Job != nil
	}
	return false
}

// goBack makes q send again from the oldest packet that is not acknowledged. It does not move the deadline of
// a timer that runs, because then a peer that answers only with NAKs could keep the timer from running out.
func (sh *wires) goBack(q *object.QP) {
	r := &q.Wire.Out
	sh.DropRequestJob(r)
	sh.DropAnswerJob(r)
	r.Sending = r.First
	if r.First != r.Last {
		m := r.Oldest()
		r.Sent = uint32(max(packet.DiffPSN(r.UNA, m.PSN), 0))
	}
	r.Paused = false
	if s := q.Wire.Recovery; s != nil {
		s.All(&r.Limit)
	}
	if !q.Wire.Timer.Running() {
		sh.startTimer(q.Wire)
	}
	sh.MarkWarm(q)
}

// CutWire takes the wire of q away from its port, as if the link were down: packets from q and for q are
// lost. The queue pair keeps all that it knows of its messages. q is on a wire.
func (sh *wires) CutWire(q *object.QP) {
	p := q.Wire.Port
	if p.Away == nil {
		p.Away = &object.Port{Settings: p.Settings, Shard: p.Shard, Number: p.Number, Home: p}
	}
	sh.moveWire(q, p.Away)
}

// MendWire undoes CutWire. Its messages are sent again when their timer runs out.
func (sh *wires) MendWire(q *object.QP) {
	sh.moveWire(q, q.Wire.Port.Home)
	sh.MarkWarm(q)
}

func (sh *wires) moveWire(q *object.QP, to *object.Port) {
	w, from := q.Wire, q.Wire.Port
	if w.In.ACKDue { // the peer asks again
		w.In.ACKDue = false
		from.ACKs = slices.DeleteFunc(from.ACKs, func(o *object.Wire) bool { return o == w })
	}
	sh.dropEarly(w)
	from.Users--
	from.Unguard(w)
	w.Port = to
	to.Users++
	to.Guard(w)
	if w.Watched {
		from.Watched--
		to.Watched++
	}
}
