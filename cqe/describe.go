package cqe

import (
	"fmt"

	"github.com/nicless/nicless/field"
)

// Describe lists the fields of an entry of 64 or 128 bytes, and under "wc" what a
// verbs poller reports for the entry. Fields that inline data overwrites are not shown
// and count as 0. For any other length Describe returns an error and no tree.
func Describe(b []byte) (field.Tree, error) {
	switch len(b) {
	case Size:
		entry := (*[Size]byte)(b)
		data, ok := Inline(entry)
		d := describer{inline: len(data)}
		d.number("cqe_size", Size)
		d.message(0, data, ok)
		return d.entry(entry), nil
	case Size128:
		slot := (*[Size128]byte)(b)
		first, entry := Halves(slot)
		data, ok := Inline128(slot)
		d := describer{base: Size}
		d.number("cqe_size", Size128)
		switch {
		case OpOwn(entry[OffOpOwn]).Format() == FormatInline64:
			d.message(0, data, ok)
			d.spare(len(data), Size-len(data), "after the data")
		case *first == [Size]byte{}:
			d.spare(0, Size, "first half, unused")
			d.message(Size, data, ok)
			d.inline = len(data)
		default:
			d.spare(0, Size, "first half: a GRH, or stale")
			d.message(Size, data, ok)
			d.inline = len(data)
		}
		return d.entry(entry), nil
	}
	return nil, fmt.Errorf("cqe: %d bytes; an entry is %d or %d", len(b), Size, Size128)
}

// describer collects fields of an entry that begins at base.
type describer struct {
	tree   field.Tree
	base   int
	inline int // how many bytes at the entry's start are data, not fields
}

// number adds a value that appears in JSON only.
func (d *describer) number(name string, v any) {
	d.tree = append(d.tree, field.Field{Name: name, Value: v})
}

// spare adds bytes that are printed but are not in JSON. off is from the slot's start.
func (d *describer) spare(off, n int, text string) {
	if n > 0 {
		d.tree = append(d.tree, field.Field{Offset: off, Len: n, Text: text})
	}
}

// message adds the inline data. off is from the slot's start.
func (d *describer) message(off int, data []byte, ok bool) {
	f := field.Field{Name: "inline", Value: field.Bytes(data)}
	if len(data) > 0 {
		f.Offset, f.Len, f.Text = off, len(data), fmt.Sprintf("%d bytes of message", len(data))
	}
	if !ok {
		f.Text += "; byte_cnt is more than the format holds"
	}
	d.tree = append(d.tree, f)
}

// put adds the field of n bytes at offset off of the entry. Bytes of the field that inline
// data overwrites are not shown.
func (d *describer) put(off, n int, name string, v any, text string) {
	f := field.Field{Offset: d.base + off, Len: n, Name: name, Value: v, Text: text}
	if hidden := min(d.inline-off, n); hidden > 0 {
		f.Offset, f.Len = f.Offset+hidden, n-hidden
	}
	if f.Len == 0 {
		f.Text = "" // data overwrites all of the field: in JSON only
	}
	d.tree = append(d.tree, f)
}

// rare adds a field that is 0 in most entries. JSON leaves the field out if it is 0.
func (d *describer) rare(off, n int, name string, v any, zero bool, text string) {
	if zero {
		name, v = "", nil
	}
	if zero && d.inline >= off+n {
		return
	}
	d.put(off, n, name, v, text)
}

// entry adds the fields of the 64-byte entry.
func (d *describer) entry(b *[Size]byte) field.Tree {
	e := *b
	clear(e[:d.inline]) // data is not a field
	c := ParseCQE(&e)
	op := c.OpOwn.Opcode()
	if op.IsError() {
		d.failure(&e)
	} else {
		d.success(&e, &c)
	}
	opText, counterText := "", ""
	switch op {
	case Req, ReqErr:
		opText, counterText = wqeOpcodeName(c.WQEOpcode), "first block of the WQE"
	case RespSend, RespWriteImm, RespSendImm, RespSendInv, RespErr:
		counterText = "receive"
	}
	d.put(56, 1, "wqe_opcode", c.WQEOpcode, opText)
	d.put(57, 3, "qpn", c.QPN, fmt.Sprintf("0x%06x", c.QPN))
	d.put(60, 2, "wqe_counter", c.Counter, counterText)
	d.put(62, 1, "signature", c.Signature, "")
	d.opOwn(c.OpOwn)
	d.wc(ParseWC(&e), *b == [Size]byte{})
	return d.tree
}

// success adds bytes 0..55 of an entry that is not an error.
func (d *describer) success(e *[Size]byte, c *CQE) {
	ethernet := [17]byte(e[0:17])
	d.rare(0, 17, "ethernet", field.Bytes(ethernet[:]), ethernet == [17]byte{}, "Ethernet: tunnel flags, LRO, RSS hash")
	d.put(17, 1, "ml_path", c.MLPath, "destination path bits")
	d.rare(18, 2, "rsvd18", field.Bytes(c.Rsvd18[:]), c.Rsvd18 == [2]byte{}, "reserved")
	d.rare(20, 2, "checksum", c.Checksum, c.Checksum == 0, "checksum")
	d.put(22, 2, "slid", c.SLID, "source LID")
	d.put(24, 4, "flags_rqpn", field.Hex32(c.FlagsRQPN), grhText(c.FlagsRQPN))
	d.rare(28, 1, "hds_ip_ext", c.HDSIPExt, c.HDSIPExt == 0, "checksums that were right")
	d.rare(29, 1, "l4_hdr_type_etc", c.L4HdrType, c.L4HdrType == 0, "header types")
	d.rare(30, 2, "vlan_info", c.VLAN, c.VLAN == 0, "VLAN")
	d.put(32, 4, "srqn_uidx", c.SRQNUIdx, "user index, or SRQ number")
	d.put(36, 4, "imm_inval_pkey", field.Hex32(c.Imm), immText(c.OpOwn.Opcode()))
	d.rare(40, 1, "app", c.App, c.App == 0, "application")
	d.rare(41, 1, "app_op", c.AppOp, c.AppOp == 0, "its operation")
	d.rare(42, 2, "app_info", c.AppInfo, c.AppInfo == 0, "its index")
	d.put(44, 4, "byte_cnt", c.ByteCount, byteCountText(c))
	d.put(48, 8, "timestamp", field.Hex64(c.Timestamp), "device clock")
	d.number("syndrome", 0)
	d.number("vendor_err_synd", 0)
}

// failure adds bytes 0..55 of an error entry. Fields that only other entries have are
// added with the value 0.
func (d *describer) failure(b *[Size]byte) {
	e := ParseErrCQE(b)
	d.number("ml_path", 0)
	d.number("slid", 0)
	d.number("flags_rqpn", field.Hex32(0))
	d.number("imm_inval_pkey", field.Hex32(0))
	d.number("byte_cnt", 0)
	d.number("timestamp", field.Hex64(0))
	d.rare(0, 32, "rsvd0", field.Bytes(e.Rsvd0[:]), e.Rsvd0 == [32]byte{}, "reserved")
	d.put(32, 4, "srqn_uidx", e.SRQNUIdx, "user index, or SRQ number")
	d.rare(36, 16, "rsvd36", field.Bytes(e.Rsvd36[:]), e.Rsvd36 == [16]byte{}, "reserved")
	d.rare(52, 1, "hw_err_synd", e.HWSyndrome, e.HWSyndrome == 0, "the vendor's")
	d.rare(53, 1, "hw_synd_type", e.HWType, e.HWType == 0, "the vendor's")
	d.put(54, 1, "vendor_err_synd", e.Vendor, fmt.Sprintf("0x%02x", e.Vendor))
	d.put(55, 1, "syndrome", uint8(e.Syndrome), e.Syndrome.Error())
}

// opOwn adds the four fields of the last byte.
func (d *describer) opOwn(o OpOwn) {
	d.put(63, 1, "opcode", uint8(o.Opcode()), o.Opcode().String())
	solicited, text := uint8(0), "no event wanted"
	if o.Solicited() {
		solicited, text = 1, "event wanted"
	}
	d.tree = append(d.tree,
		field.Field{Name: "format", Value: uint8(o.Format()), Text: o.Format().String()},
		field.Field{Name: "solicited", Value: solicited, Text: text},
		field.Field{Name: "owner", Value: o.Owner(), Text: "parity of the lap"})
}

// wc adds what a poller reports, in the terms of struct ibv_wc. The bytes of a blank
// entry would mean that a NOP of queue pair 0 succeeded; no device writes such an entry.
func (d *describer) wc(w WC, blank bool) {
	v := describer{}
	v.number("status", w.Status.String())
	text := "not a completion"
	if w.Status != StatusNone {
		v.number("status_value", uint8(w.Status))
		text = v.outcome(&w)
	}
	if blank {
		text = "all bytes are 0: probably never written; else " + text
	}
	d.tree = append(d.tree, field.Field{Offset: -1, Name: "wc", Text: text, Sub: v.tree})
}

// outcome adds the rest of a work completion and returns the whole completion in words.
func (d *describer) outcome(w *WC) string {
	if w.Status != StatusSuccess {
		d.number("vendor_err", w.VendorErr)
	} else {
		d.number("opcode", w.Opcode.String())
		if w.Opcode != WCFromPost {
			d.number("opcode_value", uint8(w.Opcode))
		}
		if w.HasByteLen() {
			d.number("byte_len", w.ByteLen)
		}
		d.number("wc_flags", uint8(w.Flags))
	}
	d.number("qp_num", w.QPN)
	what := "IBV_WC_" + w.Status.String()
	if w.Status == StatusSuccess {
		what += " " + w.Opcode.String()
	}
	if w.Opcode == WCFromPost {
		what += " (only the poster knows what it was)"
	}
	if w.Requester() {
		d.number("sq_slot_index", w.Counter)
		return fmt.Sprintf("%s, send block %d of qp 0x%06x", what, w.Counter, w.QPN)
	}
	d.number("rq_index", w.Counter)
	if w.Status == StatusSuccess {
		d.source(w)
	}
	return fmt.Sprintf("%s, receive %d of qp 0x%06x", what, w.Counter, w.QPN)
}

// source adds the fields of a receive that describe its sender.
func (d *describer) source(w *WC) {
	d.number("src_qp", w.SrcQP)
	d.number("slid", w.SLID)
	d.number("sl", w.SL)
	d.number("dlid_path_bits", w.PathBits)
	d.number("pkey_index", w.PKeyIndex)
	if w.Flags&WCWithImm != 0 {
		d.number("imm_be", field.Hex32(w.Imm))
	}
	if w.Flags&WCWithInv != 0 {
		d.number("invalidated_rkey", field.Hex32(w.Imm))
	}
}
