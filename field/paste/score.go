package paste

import (
	"bytes"
	"encoding/binary"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// Scores say how much bytes look like an object: 0 not at all, 100 in every field. Bytes of
// which nothing else is known are taken for an object from score enough on. The points are
// chosen so that an error CQE with a documented syndrome, and a WQE that can be laid out, get
// more than enough, and so that random bytes practically never do.
const enough = 55

// scoreCQE rates 64 bytes as a CQE.
func scoreCQE(b []byte) int {
	if len(b) != cqe.Size || blank(b) {
		return 0
	}
	o := cqe.OpOwn(b[cqe.OffOpOwn])
	n := 0
	if b[cqe.OffUIdx] != 0 {
		n -= 10 // numbers of SRQs and user indices have 24 bits
	}
	qpn := binary.BigEndian.Uint32(b[56:]) & cqe.Mask24
	if qpn != 0 {
		n += 10
	}
	switch op := o.Opcode(); op {
	case cqe.ReqErr, cqe.RespErr:
		return n + scoreError(b, o)
	case cqe.Req:
		info := wqe.Opcode(b[56]).Info()
		if !info.Known() || o.Format() > cqe.FormatInline32 {
			return 0
		}
		n += 15
		if b[56] != 0 {
			n += 15
		}
		if blank(b[0:17]) && blank(b[18:20]) {
			n += 15
		}
	case cqe.RespSend, cqe.RespWriteImm, cqe.RespSendImm, cqe.RespSendInv:
		n += 15
		if count := binary.BigEndian.Uint32(b[44:]); count > 0 && count < 1<<31 {
			n += 10
		}
		if b[56] == 0 {
			n += 10
		}
		if blank(b[18:20]) {
			n += 5
		}
	default:
		return 0
	}
	if !blank(b[48:56]) && blank(b[48:50]) { // a device clock takes decades to fill 48 bits
		n += 10
	}
	return n
}

// scoreError rates bytes that have the opcode of an error.
func scoreError(b []byte, o cqe.OpOwn) (n int) {
	if o.Format() != cqe.FormatPlain {
		return 0
	}
	n = 10
	if cqe.Syndrome(b[cqe.OffSyndrome]).Status() != cqe.StatusGeneral {
		n += 40
	}
	if blank(b[36:52]) {
		n += 20
	}
	// DPDK marks a CQE that it has reported, at its start. Receives may have stale bytes there.
	if blank(b[:32]) || bytes.HasPrefix(b, []byte("\x00seen")) {
		n += 20
	}
	return n
}

// scoreSend rates bytes as a send WQE, from its control segment on.
func scoreSend(b []byte) int {
	if len(b) < wqe.CtrlSize || blank(b[:wqe.CtrlSize]) {
		return 0
	}
	c := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(b))
	if !c.Opcode.Info().Known() || c.QPN == 0 {
		return 0
	}
	n := 10
	if c.Opcode != wqe.OpNop {
		n += 10
	}
	if b[7]&0xc0 == 0 {
		n += 5
	}
	if b[11]&0x11 == 0 {
		n += 10
	}
	if b[8] == 0 && b[9] == 0 && b[10] == 0 { // clients that use none of these leave them 0
		n += 10
	}
	size := int(c.DS) * wqe.UnitSize
	if size == 0 || size > len(b) {
		return n // 45 at most: not enough alone
	}
	n += 15
	if v, err := wqe.Parse(b[:size], wqe.AddressGuess); err == nil {
		n += 20 - doubts(&v)
	}
	if blank(b[size:]) {
		n += 5
	}
	return n
}

// doubts counts points against the segments of a WQE: lengths that no message has, and addresses that
// no program has.
func doubts(v *wqe.View) (n int) {
	for it := v.Segments(); ; {
		s, ok := it.Next()
		if !ok || n >= 20 {
			return min(n, 20)
		}
		addr := uint64(0)
		switch s.Kind {
		case wqe.KindRaddr:
			addr = wqe.ParseRaddr((*[wqe.RaddrSize]byte)(s.Bytes)).Addr
		case wqe.KindData:
			d := wqe.ParseData((*[wqe.DataSize]byte)(s.Bytes))
			addr = d.Addr
			if d.ByteCount >= 1<<28 {
				n += 5
			}
		}
		if high := addr >> 48; high != 0 && high != 0xffff { // few processors have more bits
			n += 5
		}
	}
}

// scoreRecv rates bytes as the list of a receive: pieces with keys, then its end.
func scoreRecv(b []byte) int {
	if len(b) == 0 || len(b)%wqe.DataSize != 0 || blank(b) {
		return 0
	}
	n := 0
	for at := 0; at < len(b); at += wqe.DataSize {
		d := wqe.ParseData((*[wqe.DataSize]byte)(b[at:]))
		switch {
		case at > 0 && d.ByteCount == 0 && d.LKey == 0x100 && d.Addr == 0: // MLX5_INVALID_LKEY
			return 70
		case d == wqe.Data{}:
		case d.ByteCount == 0 || d.ByteCount > 1<<30 || d.LKey == 0 || d.Addr>>48 != 0 || d.Addr == 0:
			return 0
		default:
			n = 40
		}
	}
	return n
}

// cutPacket returns where a packet of RoCEv2 is in bytes that may begin with an Ethernet header and
// end with padding.
func cutPacket(b []byte) (from, to int, ok bool) {
	const header = 14
	for _, from := range [...]int{0, header} {
		if len(b) <= from+28 {
			continue
		}
		if from == header {
			kind := binary.BigEndian.Uint16(b[12:])
			if kind != 0x0800 && kind != 0x86dd {
				continue
			}
		}
		if p := b[from:]; isRoCE(p) {
			n := 40 + int(binary.BigEndian.Uint16(p[4:]))
			if p[0]>>4 == 4 {
				n = int(binary.BigEndian.Uint16(p[2:]))
			}
			return from, from + min(n, len(p)), true
		}
	}
	return 0, 0, false
}

// isRoCE reports whether the bytes are an IP packet with a UDP datagram to RoCE's port.
func isRoCE(p []byte) bool {
	if !packet.IsIP(p) {
		return false
	}
	udp, proto := 40, p[6]
	if p[0]>>4 == 4 {
		udp, proto = int(p[0]&0xf)*4, p[9]
	}
	return proto == 17 && udp+4 <= len(p) && binary.BigEndian.Uint16(p[udp+2:]) == 4791
}

func blank(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
