package packet

import (
	"encoding/binary"
	"fmt"

	"github.com/nicless/nicless/field"
)

// Describe lists the fields of a packet from its BTH to its ICRC, which is what a UDP
// datagram of RoCEv2 holds. The ICRC is not checked, because it covers headers that are not
// there; see [DescribeIP].
//
// If the packet is shorter than a BTH and an ICRC, there is no tree. If it is shorter than the
// headers of its opcode, or its length is not a multiple of 4, Describe returns an error and
// a tree of the fields that could be read.
func Describe(b []byte) (field.Tree, error) {
	d := describer{b: b}
	err := d.packet("not checked: it covers IP addresses too")
	return d.tree, err
}

// describer collects fields of a packet that begins at base of the described bytes.
type describer struct {
	tree field.Tree
	b    []byte // the packet
	base int
}

// put adds the field of n bytes at offset off of the packet.
func (d *describer) put(off, n int, name string, v any, text string) {
	d.tree = append(d.tree, field.Field{Offset: d.base + off, Len: n, Name: name, Value: v, Text: text})
}

// part adds a field that is in the bytes of the field before it.
func (d *describer) part(name string, v any, text string) {
	d.tree = append(d.tree, field.Field{Name: name, Value: v, Text: text})
}

// reserved adds reserved bits, if some are set.
func (d *describer) reserved(name string, v uint8) {
	if v != 0 {
		d.part(name, v, "reserved bits that are set")
	}
}

// plain adds bytes that are printed but are not in JSON.
func (d *describer) plain(off, n int, text string) {
	if n > 0 {
		d.put(off, n, "", nil, text)
	}
}

// header adds a header whose fields are added by f to a describer of their own.
func (d *describer) header(off int, name, text string, f func(*describer)) {
	sub := describer{b: d.b, base: d.base}
	f(&sub)
	d.tree = append(d.tree, field.Field{Offset: d.base + off, Name: name, Text: text, Sub: sub.tree})
}

// packet adds everything. icrc says whether the ICRC is right.
func (d *describer) packet(icrc string) error {
	n := len(d.b)
	if n < minPacket {
		return fmt.Errorf("packet: %d bytes; the shortest packet has %d", n, minPacket)
	}
	h := ParseBTH((*[BTHSize]byte)(d.b))
	i := h.Opcode.Info()
	d.bth(&h)
	end := n - ICRCSize
	size := end - i.HeaderSize - int(h.Pad)
	if size < 0 {
		d.plain(BTHSize, n-BTHSize, "cut")
		return fmt.Errorf("packet: %d bytes; the headers of %s, %d pad bytes and the ICRC are %d",
			n, h.Opcode, h.Pad, i.HeaderSize+int(h.Pad)+ICRCSize)
	}
	d.extensions(i)
	text := "bytes"
	switch {
	case !i.Known:
		text = "bytes; the opcode is not known, so some may be headers"
	case !i.Payload && size > 0:
		text = "bytes, but this opcode has no payload"
	}
	d.part("payload_len", size, text)
	if i.DETH && h.DestQP == gsi && size >= madHeader {
		d.header(i.HeaderSize, "mad", "management datagram", func(d *describer) { d.mad(i.HeaderSize) })
		d.plain(i.HeaderSize+madHeader, size-madHeader, "message")
	} else if !i.Atomic || !d.operands(h.Opcode.Operation(), i, size) {
		d.plain(i.HeaderSize, size, "payload")
	}
	d.plain(end-int(h.Pad), int(h.Pad), "pad")
	d.put(end, ICRCSize, "icrc", field.Hex32(binary.LittleEndian.Uint32(d.b[end:])), icrc)
	if n%4 != 0 {
		return fmt.Errorf("packet: %d bytes; the length of a packet is a multiple of 4", n)
	}
	return nil
}

// bth adds the base transport header.
func (d *describer) bth(h *BTH) {
	d.put(0, 1, "opcode", fmt.Sprintf("0x%02x", uint8(h.Opcode)), h.Opcode.String())
	d.tree = append(d.tree, field.Field{Name: "opname", Value: h.Opcode.String()})
	d.put(1, 1, "se", h.Solicited, either(h.Solicited, "event wanted", "no event wanted"))
	d.part("m", h.Migrated, "MigReq")
	d.part("pad", h.Pad, "bytes after the payload")
	d.part("tver", h.Version, "version of the transport")
	d.put(2, 2, "pkey", fmt.Sprintf("0x%04x", h.PKey), "partition")
	d.put(4, 1, "fecn", h.FECN, either(h.FECN, "congestion on the way here", "no congestion seen on the way here"))
	d.part("becn", h.BECN, either(h.BECN, "congestion on the way back", "no congestion reported on the way back"))
	d.reserved("reserved6", h.Reserved6)
	d.put(5, 3, "destqp", fmt.Sprintf("0x%06x", h.DestQP), "")
	d.put(8, 1, "ackreq", h.AckReq, either(h.AckReq, "acknowledgement wanted", "no acknowledgement wanted"))
	d.reserved("reserved7", h.Reserved7)
	d.put(9, 3, "psn", h.PSN, fmt.Sprintf("0x%06x", h.PSN))
}

// extensions adds the headers after the BTH, in their order. The packet holds all of them.
func (d *describer) extensions(i *Info) {
	if i.XRCETH {
		at := int(i.OffXRCETH)
		h := ParseXRCETH((*[XRCETHSize]byte)(d.b[at:]))
		d.header(at, "xrceth", "XRC extended header", func(d *describer) {
			d.plain(at, 1, "reserved")
			d.reserved("reserved", h.Reserved)
			d.put(at+1, 3, "srqn", fmt.Sprintf("0x%06x", h.SRQN), "shared receive queue")
		})
	}
	if i.DETH {
		at := int(i.OffDETH)
		h := ParseDETH((*[DETHSize]byte)(d.b[at:]))
		d.header(at, "deth", "datagram extended header", func(d *describer) {
			d.put(at, 4, "qkey", field.Hex32(h.QKey), "")
			d.plain(at+4, 1, "reserved")
			d.reserved("reserved", h.Reserved)
			d.put(at+5, 3, "srcqp", fmt.Sprintf("0x%06x", h.SrcQP), "")
		})
	}
	if i.RETH {
		at := int(i.OffRETH)
		h := ParseRETH((*[RETHSize]byte)(d.b[at:]))
		d.header(at, "reth", "RDMA extended header", func(d *describer) {
			d.put(at, 8, "va", address(h.Addr), "remote address")
			d.put(at+8, 4, "rkey", field.Hex32(h.RKey), "")
			d.put(at+12, 4, "dmalen", h.Length, "bytes of the message")
		})
	}
	if i.AtomicETH {
		at := int(i.OffAtomicETH)
		h := ParseAtomicETH((*[AtomicETHSize]byte)(d.b[at:]))
		d.header(at, "atomiceth", "atomic extended header", func(d *describer) {
			d.put(at, 8, "va", address(h.Addr), "remote address")
			d.put(at+8, 4, "rkey", field.Hex32(h.RKey), "")
			d.put(at+12, 8, "swap_or_add", field.Hex64(h.SwapAdd), "new value, or number to add")
			d.put(at+20, 8, "compare", field.Hex64(h.Compare), "expected value, if it is a compare and swap")
		})
	}
	if i.AETH {
		at := int(i.OffAETH)
		h := ParseAETH((*[AETHSize]byte)(d.b[at:]))
		d.header(at, "aeth", "ACK extended header", func(d *describer) {
			d.put(at, 1, "syndrome", fmt.Sprintf("0x%02x", h.Syndrome), h.String())
			d.tree = append(d.tree, field.Field{Name: "kind", Value: h.kind()})
			d.put(at+1, 3, "msn", h.MSN, "messages completed")
		})
	}
	if i.AtomicAck {
		at := int(i.OffAtomicAck)
		h := ParseAtomicAckETH((*[AtomicAckETHSize]byte)(d.b[at:]))
		d.put(at, AtomicAckETHSize, "atomicacketh", field.Hex64(h.Original), "value before")
	}
	if i.Imm {
		at := int(i.OffImm)
		h := ParseImmDt((*[ImmDtSize]byte)(d.b[at:]))
		d.put(at, ImmDtSize, "immdt", field.Hex32(h), "immediate")
	}
	if i.IETH {
		at := int(i.OffIETH)
		h := ParseIETH((*[IETHSize]byte)(d.b[at:]))
		d.put(at, IETHSize, "ieth", field.Hex32(h.RKey), "invalidated rkey")
	}
}

func either(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

func address(a uint64) string { return fmt.Sprintf("0x%x", a) }

// kind returns the answer in the words of the recorded packets.
func (h AETH) kind() string {
	names := [...]string{
		"PSN_SEQUENCE", "INVALID_REQUEST", "REMOTE_ACCESS", "REMOTE_OPERATION", "INVALID_RD_REQUEST",
	}
	c := h.Code()
	switch {
	case h.ACK():
		return fmt.Sprintf("ACK credits %d", c)
	case h.RNR():
		return fmt.Sprintf("RNR_NAK timer %d", c)
	case h.NAK() && int(c) < len(names):
		return "NAK " + names[c]
	case h.NAK():
		return fmt.Sprintf("NAK code %d", c)
	}
	return "reserved"
}
