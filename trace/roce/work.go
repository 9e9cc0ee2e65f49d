package roce

import (
	"fmt"

	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/trace/text"
	"github.com/nicless/nicless/wqe"
)

// A form says which packets a WQE of an opcode becomes. The operations of one packet and of the last packet
// of several are listed; those of the first and of the middle follow from them.
type form struct {
	first, middle, last, only packet.Operation
}

var forms = map[wqe.Opcode]form{
	wqe.OpSend:         {packet.SendFirst, packet.SendMiddle, packet.SendLast, packet.SendOnly},
	wqe.OpSendImm:      {packet.SendFirst, packet.SendMiddle, packet.SendLastImm, packet.SendOnlyImm},
	wqe.OpSendInval:    {packet.SendFirst, packet.SendMiddle, packet.SendLastInv, packet.SendOnlyInv},
	wqe.OpRDMAWrite:    {packet.WriteFirst, packet.WriteMiddle, packet.WriteLast, packet.WriteOnly},
	wqe.OpRDMAWriteImm: {packet.WriteFirst, packet.WriteMiddle, packet.WriteLastImm, packet.WriteOnlyImm},
	wqe.OpRDMARead:     {only: packet.ReadRequest},
	wqe.OpAtomicCS:     {only: packet.CompareSwap},
	wqe.OpAtomicFA:     {only: packet.FetchAdd},

	wqe.OpAtomicMaskedCS: {only: packet.MaskedCompareSwap},
	wqe.OpAtomicMaskedFA: {only: packet.MaskedFetchAdd},
}

var readResponse = form{packet.ReadResponseFirst, packet.ReadResponseMiddle, packet.ReadResponseLast,
	packet.ReadResponseOnly}

var services = map[trace.Transport]packet.Service{trace.RC: packet.RC, trace.UC: packet.UC,
	trace.UD: packet.UD, trace.XRCIni: packet.XRC}

// A message is a WQE as packets have it.
type message struct {
	time    uint64
	route   route
	service packet.Service
	form    form
	op      wqe.Opcode
	qp      uint32 // of the requester
	peer    uint32
	srq     uint32 // XRC
	qkey    uint32 // UD
	imm     uint32
	se      bool
	remote  wqe.Raddr
	operand []byte // of an atomic, as the WQE has it
	length  uint64
	mtu     int
	payload []byte // all bytes, or none if the trace does not have them
	about   string // the queue pair and the WQE, for comments
	what    string // the WQE in one line
}

// work emits the packets of a WQE of a queue pair whose peer is on the same device. answer is the syndrome of
// the answer.
func (m *Maker) work(e *trace.Event, c trace.Clock, w *objects.WQE, answer uint8) error {
	q := m.table.Queue(e.Queue)
	if q == nil || q.Info.Port != 0 {
		return nil // what goes over links has packets of its own
	}
	x, ok := m.message(q, w, c)
	if !ok {
		return nil
	}
	x.time = e.Time
	return m.emit(x, m.numbersOf(e.Queue), answer)
}

// message returns a WQE as a message. ok is false if it has no packets.
func (m *Maker) message(q *objects.Queue, w *objects.WQE, c trace.Clock) (x message, ok bool) {
	x.form, ok = forms[w.Ctrl.Opcode]
	if !ok || !w.Whole() {
		return x, false
	}
	x.service, ok = services[q.Transport]
	if !ok {
		return x, false
	}
	v, err := wqe.Parse(w.Bytes, q.Address())
	if err != nil {
		return x, false
	}
	x.op, x.qp, x.peer, x.imm = w.Ctrl.Opcode, q.Number, q.Info.Peer, w.Ctrl.Imm
	x.se = w.Ctrl.Solicited() != 0
	x.mtu = int(q.Info.MTU)
	if x.mtu < 256 || x.mtu > packet.MaxMTU || x.mtu%4 != 0 {
		x.mtu = packet.MaxMTU // not known
	}
	to := q.Info.PeerGID
	if s, has := v.Find(wqe.KindAV); has {
		a := wqe.ParseAV((*[wqe.AVSize]byte)(s.Bytes))
		x.peer, x.qkey, to = a.DQP, a.QKey(), a.RGID
	} else if s, has := v.Find(wqe.KindCompactAV); has {
		a := wqe.ParseCompactAV((*[wqe.CompactAVSize]byte)(s.Bytes))
		x.peer, x.qkey = a.DQP, a.QKey()
	}
	if s, has := v.Find(wqe.KindXRC); has {
		x.srq = wqe.ParseXRC((*[wqe.XRCSize]byte)(s.Bytes)).SRQN
	}
	if s, has := v.Find(wqe.KindRaddr); has {
		x.remote = wqe.ParseRaddr((*[wqe.RaddrSize]byte)(s.Bytes))
	}
	for _, k := range []wqe.Kind{wqe.KindAtomic, wqe.KindMaskedCS8, wqe.KindMaskedCS4, wqe.KindMaskedFA8,
		wqe.KindMaskedFA4} {
		if s, has := v.Find(k); has {
			x.operand = s.Bytes
		}
	}
	x.addData(&v)
	if x.length > wqe.MaxMessage || x.service == packet.UD && x.length > packet.MaxMTU {
		return x, false // the device refuses such WQEs
	}
	x.route = makeRoute(q.Info.GID, to, c.GUID, x.qp, x.peer)
	x.about = fmt.Sprintf("qp 0x%x wqe %d", x.qp, w.Index)
	x.what = text.WQE(w, q.Address())
	return x, true
}

// addData sets the length of the message, and its bytes if all of them are in the WQE.
func (x *message) addData(v *wqe.View) {
	all := true
	list := v.Data()
	for {
		d, inline, more := list.Next()
		switch {
		case !more && !all:
			x.payload = nil
			return
		case !more:
			return
		case d.Inline():
			x.length += uint64(len(inline))
			x.payload = append(x.payload, inline...)
		default:
			x.length += d.Length()
			all = false
		}
	}
}
