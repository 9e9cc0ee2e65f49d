//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// End returns the PSN after those of m.
func (m *Message) End() uint32 { return packet.AddPSN(m.PSN, m.PSNs) }

// Message returns the message with a number.
func (r *Outbound) Message(n uint32) *Message { return &r.Messages[n&uint32(len(r.Messages)-1)] }

func (r *Outbound) Oldest() *Message { return r.Message(r.First) }

// Next returns the PSN of the packet that is sent next.
func (r *Outbound) Next() uint32 {
	if r.Sending == r.Last {
		return r.PSN
	}
	return packet.AddPSN(r.Message(r.Sending).PSN, r.Sent)
}

// CanSend reports whether there are packets that may be sent.
func (w *Wire) CanSend() bool {
	return w.Out.Sending != w.Out.Last && !w.Out.Paused && !w.Out.Closed()
}

// CanFetch reports whether another WQE may become a message.
func (w *Wire) CanFetch() bool {
	r := &w.Out
	return !r.Paused && r.Last-r.First < uint32(len(r.Messages)) && !r.Closed()
}

// Closed reports whether the window is closed.
func (r *Outbound) Closed() bool {
	if r.Selective {
		return r.Shut(r.UNA, r.Next(), r.Most)
	}
	return packet.DiffPSN(r.Next(), r.UNA) >= int32(r.Window)
}

// Push makes a message of q's next WQE. It stores field by field, for the reason given at Head.
func (r *Outbound) Push(q *QP, h Head, total uint64, psns uint32, answers bool) *Message {
	m := r.Message(r.Last)
	m.Head, m.Index, m.Total, m.PSN, m.PSNs, m.Blocks = h, q.SQ.Done, total, r.PSN, psns, uint8(h.Blocks())
	m.Answers, m.Answered, m.Part = answers, 0, r.Part(q.Attr.MaxRdAtomic)
	r.PSN = m.End()
	r.Last++
	if answers {
		r.Reading++
	}
	return m
}

// Requests returns how many requests of READs and atomics have been sent to which the peer may not have sent
// all answers. answered is the highest PSN before which it has sent everything once.
func (r *Outbound) Requests(answered uint32) (n uint32) {
	for i := r.First; i != r.Last; i++ {
		m := r.Message(i)
		sent := m.PSNs
		if i == r.Sending {
			sent = r.Sent
		}
		done := uint32(max(packet.DiffPSN(answered, m.PSN), int32(m.Answered)))
		if m.Answers && sent > done {
			n += (sent-1)/m.Part - done/m.Part + 1
		}
		if i == r.Sending {
			break
		}
	}
	return n
}

// MayFollow reports whether a WQE may become a message while earlier ones are on the way.
func (r *Outbound) MayFollow(h Head, info *wqe.Info, most uint8) bool {
	if (info.Reads || info.Atomic()) && r.Reading >= uint32(max(most, 1)) {
		return false
	}
	switch h.fence() {
	case wqe.FenceReads, wqe.FenceVerbs:
		return r.Reading == 0
	case wqe.FenceStrong:
		return false
	}
	return true
}

// fence returns the fence mode of a WQE.
func (h Head) fence() uint8 { return h.Second.Flags() & wqe.FenceMask }

// Skip advances the source of j by n bytes.
func (j *Job) Skip(n uint64) {
	if n > 0 {
		j.Src.Skip(n)
		j.Moved += n
	}
}

// PutExtensions writes the extension headers of a request.
func (w *Wire) PutExtensions(h []byte, info *packet.Info, m *Message, j *Job, off uint64) {
	r := &j.Request
	if info.XRCETH {
		packet.XRCETH{SRQN: r.SRQN}.Put((*[packet.XRCETHSize]byte)(h[info.OffXRCETH:]))
	}
	if info.RETH {
		packet.RETH{Addr: r.Addr + off, RKey: r.RKey,
			Length: uint32(m.Total - off)}.Put((*[packet.RETHSize]byte)(h[info.OffRETH:]))
	}
	if info.Imm {
		packet.ImmDt(m.Head.Imm()).Put((*[packet.ImmDtSize]byte)(h[info.OffImm:]))
	}
	if info.IETH {
		packet.IETH{RKey: m.Head.Imm()}.Put((*[packet.IETHSize]byte)(h[info.OffIETH:]))
	}
}
