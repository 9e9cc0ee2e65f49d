package paste

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/nicless/nicless/wqe"
)

// A Suspicion is a field that cannot be right, or hardly ever is.
type Suspicion struct {
	Code string // of docs/EXPLANATIONS.md, or "" if it has none
	Text string // names the value
	Sure bool   // hardware refuses this WQE; false: it may be meant so
}

// endOfList is the lkey that ends the list of a receive (MLX5_INVALID_LKEY).
const endOfList = 0x100

// Suspicions returns what is wrong with the bytes, as far as they show it.
func (it *Item) Suspicions(a wqe.Address) []Suspicion {
	switch it.Kind {
	case Send:
		if len(it.Bytes) >= wqe.CtrlSize {
			s := suspect{}
			s.send(it, a)
			return s.list
		}
	case Recv:
		s := suspect{}
		s.recv(it.Bytes)
		return s.list
	case QPRecord:
		s := suspect{}
		s.record(it.Bytes)
		return s.list
	case Packet:
		s := suspect{}
		s.packet(it)
		return s.list
	}
	return nil
}

type suspect struct{ list []Suspicion }

func (s *suspect) add(sure bool, code, format string, values ...any) {
	s.list = append(s.list, Suspicion{code, fmt.Sprintf(format, values...), sure})
}

func (s *suspect) send(it *Item, a wqe.Address) {
	c := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(it.Bytes))
	info := c.Opcode.Info()
	size := int(c.DS) * wqe.UnitSize
	mask := it.Queue - 1
	logged := it.Index >= 0 && it.Queue > 0 && it.Queue&mask == 0
	if logged && int(c.Index)&mask != it.Index&mask {
		s.add(true, "index-mismatch", "wqe_index is %d, which is slot %d of %d; the log has the WQE at slot %d",
			c.Index, int(c.Index)&mask, it.Queue, it.Index&mask)
	}
	if q := it.Facts.QPN; q != nil && c.QPN != *q {
		s.add(true, "qpn-mismatch", "qpn is 0x%06x, the log names queue 0x%06x", c.QPN, *q)
	}
	if !info.Known() {
		s.add(true, "opcode", "opcode 0x%02x is not defined", uint8(c.Opcode))
	}
	switch {
	case c.DS == 0:
		s.add(true, "ds-zero", "ds is 0; the control segment alone makes it 1")
		return
	case size > len(it.Bytes):
		s.add(false, "ds-large", "ds is %d, which is %d bytes; the dump has %d", c.DS, size, len(it.Bytes))
		return
	case !info.Known():
		return
	}
	v, err := wqe.Parse(it.Bytes[:size], a)
	var format *wqe.FormatError
	if errors.As(err, &format) {
		code := "ds-small" // no room for a segment
		switch format.Field {
		case "inline length", "inline_hdr_sz":
			code = "inline-range"
		case "opmod":
			code = "opcode"
		}
		s.add(true, code, "byte %d: %s is %d, allowed: %s", format.Offset, format.Field, format.Found, format.Allowed)
	}
	if err == nil {
		s.segments(&v, info)
	}
}

func (s *suspect) segments(v *wqe.View, info *wqe.Info) {
	total, operand := uint64(0), v.Ctrl.OperandSize()
	for it := v.Segments(); ; {
		seg, ok := it.Next()
		if !ok {
			break
		}
		switch seg.Kind {
		case wqe.KindRaddr:
			r := wqe.ParseRaddr((*[wqe.RaddrSize]byte)(seg.Bytes))
			s.key("rkey", r.RKey)
			if info.Atomic() && operand > 0 && r.Addr%uint64(operand) != 0 {
				s.add(true, "atomic-alignment", "raddr 0x%x is not a multiple of %d", r.Addr, operand)
			}
		case wqe.KindData:
			d := wqe.ParseData((*[wqe.DataSize]byte)(seg.Bytes))
			s.key("lkey", d.LKey)
			if d.ByteCount == 0 {
				s.add(false, "length-zero", "byte %d: byte_count is 0, which stands for 2^31 bytes", seg.Offset)
			}
			if info.Atomic() && operand > 0 && int(d.ByteCount) != operand {
				s.add(true, "atomic-result", "the result has %d bytes, the operand %d", d.ByteCount, operand)
			}
			total += uint64(d.ByteCount)
		case wqe.KindInline:
			if !info.Inline {
				s.add(true, "inline-read", "byte %d: inline data, which %v cannot have", seg.Offset, v.Ctrl.Opcode)
			}
		}
	}
	if total > 1<<31 {
		s.add(true, "message-size", "the message has %d bytes; the limit is 2^31", total)
	}
}

// key looks at a key alone. Numbers of keys begin low, so a key whose low byte is 0 and whose high
// byte is not may have its bytes reversed.
func (s *suspect) key(name string, key uint32) {
	switch {
	case key == 0:
		s.add(false, "key-unknown", "%s is 0, which hardly any device gives out", name)
	case key == endOfList && name == "lkey":
		s.add(true, "key-unknown", "%s is 0x100, which ends lists and names no memory", name)
	case key&0xff == 0 && key>>24 != 0:
		s.add(false, "key-byte-order", "%s is 0x%08x; with its bytes reversed 0x%08x, which looks more like a key", name, key, bits.ReverseBytes32(key))
	}
}

func (s *suspect) recv(b []byte) {
	if blank(b) {
		s.add(true, "receive-unwritten", "all %d bytes of the list are 0", len(b))
		return
	}
	for at := 0; at+wqe.DataSize <= len(b); at += wqe.DataSize {
		d := wqe.ParseData((*[wqe.DataSize]byte)(b[at:]))
		switch {
		case d.ByteCount == 0 && d.LKey == endOfList:
			return
		case d.ByteCount == 0:
			s.add(false, "receive-no-end", "byte %d: byte_count 0 without lkey 0x100 does not end the list", at)
			return
		}
		s.key("lkey", d.LKey)
	}
}

// record looks at the record of a queue pair: the count of receives, then that of send blocks.
func (s *suspect) record(b []byte) {
	for i, name := range [...]string{"receive", "send"} {
		word := binary.BigEndian.Uint32(b[4*i:])
		if word&0xffff == 0 && word != 0 {
			s.add(false, "record-byte-order", "the %s word is 0x%08x; with its bytes reversed it is %d", name, word, bits.ReverseBytes32(word))
		}
	}
	if binary.BigEndian.Uint32(b[4:]) == 0 && binary.BigEndian.Uint32(b) != 0 {
		s.add(false, "record-word", "only word 0, for receives, has a count; the send counter is word 1")
	}
}

// packet checks the ICRC, which only a packet with its IP header has.
func (s *suspect) packet(it *Item) {
	tree, _ := it.Describe(wqe.NoAddress)
	for _, f := range tree {
		if f.Name == "icrc_right" && f.Value == false {
			s.add(true, "", "the ICRC is wrong. Captures at the sender look so if the kernel has not cut the message yet: "+
				"ip link set dev DEV gso_max_segs 1")
		}
	}
}
