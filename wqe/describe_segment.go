package wqe

import (
	"fmt"
	"strings"

	"github.com/nicless/nicless/field"
)

// describe returns the fields of one segment, as an element of "segments".
func describe(s Segment, a Address) field.Field {
	d := describer{at: s.Offset, b: s.Bytes, t: field.Tree{
		{Name: "offset", Value: s.Offset},
		{Name: "type", Value: s.Kind.String()},
	}}
	switch s.Kind {
	case KindRaddr:
		d.raddr()
	case KindData, KindEnd:
		d.data(s.Kind)
	case KindInline:
		d.inline(s.InlineData())
	case KindAtomic:
		d.hex64(0, "swap_add", "")
		d.hex64(8, "compare", "")
	case KindMaskedCS4, KindMaskedCS8, KindMaskedFA4, KindMaskedFA8:
		d.masked(s.Kind)
	case KindAV, KindCompactAV:
		d.av(s.Kind, a)
	case KindXRC:
		d.num32(0, "srqn", "")
		d.reserved(4, 12)
	case KindEth:
		d.eth()
	case KindWait:
		d.reserved(0, 8)
		d.num32(8, "max_index", "")
		d.num32(12, "qpn_cqn", "")
	case KindWaitData:
		d.num32(0, "operation", "")
		d.hex32(4, "lkey", "")
		d.hex64(8, "addr", "")
		d.hex64(16, "value", "")
		d.hex64(24, "mask", "")
	case KindUMRCtrl:
		d.umrCtrl()
	case KindMkeyContext:
		d.mkeyContext()
	case KindKLM:
		d.num32(0, "byte_count", "")
		d.hex32(4, "mkey", "")
		d.hex64(8, "address", "")
	case KindRepeatBlock:
		d.num32(0, "byte_count", "of one repetition")
		d.num32(4, "op", "")
		d.num32(8, "repeat_count", "")
		d.reserved(12, 2)
		d.num16(14, "num_ent", "")
	case KindRepeatEntry:
		d.num16(0, "stride", "")
		d.num16(2, "byte_count", "")
		d.hex32(4, "memkey", "")
		d.hex64(8, "va", "")
	case KindPad:
		d.add(field.Field{Name: "length", Value: len(s.Bytes), Len: len(s.Bytes), Text: "zeros"})
	case KindSetPSV:
		d.setPSV()
	case KindMMOMeta:
		d.num32(0, "control", "")
		d.hex32(4, "lkey", "")
		d.hex64(8, "addr", "")
	case KindTagMatching:
		d.tagMatching()
	case KindSRQNext:
		d.reserved(0, 2)
		d.num16(2, "next_wqe_index", "")
		d.add(field.Field{Offset: 4, Len: 1, Text: "signature"})
		d.reserved(5, 11)
	default:
		d.add(field.Field{Name: "bytes", Value: field.Bytes(s.Bytes), Len: len(s.Bytes)})
	}
	return field.Field{Offset: s.Offset, Len: len(s.Bytes), Name: s.Kind.String(), Sub: d.t}
}

// describer collects the fields of one segment. Its methods take offsets from the
// start of the segment.
type describer struct {
	at int
	b  []byte
	t  field.Tree
}

func (d *describer) add(f field.Field) {
	f.Offset += d.at
	d.t = append(d.t, f)
}

// num reads the big-endian integer of size bytes at off.
func (d *describer) num(off, size int) (v uint64) {
	for _, x := range d.b[off : off+size] {
		v = v<<8 | uint64(x)
	}
	return v
}

func (d *describer) num8(off int, name, text string) {
	d.add(field.Field{Offset: off, Len: 1, Name: name, Value: d.b[off], Text: text})
}

func (d *describer) num16(off int, name, text string) {
	d.add(field.Field{Offset: off, Len: 2, Name: name, Value: d.num(off, 2), Text: text})
}

func (d *describer) num32(off int, name, text string) {
	d.add(field.Field{Offset: off, Len: 4, Name: name, Value: d.num(off, 4), Text: text})
}

func (d *describer) hex32(off int, name, text string) {
	d.add(field.Field{Offset: off, Len: 4, Name: name, Value: field.Hex32(d.num(off, 4)), Text: text})
}

func (d *describer) hex64(off int, name, text string) {
	d.add(field.Field{Offset: off, Len: 8, Name: name, Value: field.Hex64(d.num(off, 8)), Text: text})
}

func (d *describer) bytes(off, n int, name, text string) {
	d.add(field.Field{Offset: off, Len: n, Name: name, Value: field.Bytes(d.b[off : off+n]), Text: text})
}

func (d *describer) reserved(off, n int) {
	d.add(field.Field{Offset: off, Len: n, Text: "reserved"})
}

func (d *describer) raddr() {
	d.hex64(0, "raddr", "")
	d.hex32(8, "rkey", "")
	d.reserved(12, 4)
}

func (d *describer) data(k Kind) {
	s := ParseData((*[DataSize]byte)(d.b))
	length, text := s.Length(), ""
	switch {
	case k == KindEnd:
		length, text = 0, "the list ends here"
	case s.Inline():
		text = "bit 31 has no meaning here"
	case s.ByteCount == 0:
		text = "0 stands for 2^31"
	}
	d.num32(0, "byte_count", text)
	d.add(field.Field{Name: "length", Value: length, Text: "bytes"})
	d.hex32(4, "lkey", "")
	d.hex64(8, "addr", "")
}

func (d *describer) inline(data []byte) {
	d.num32(0, "byte_count", "inline")
	d.add(field.Field{Name: "length", Value: len(data), Text: "bytes"})
	d.bytes(InlineHead, len(data), "data", "")
	if end := InlineHead + len(data); end < len(d.b) {
		d.add(field.Field{Offset: end, Len: len(d.b) - end, Text: "padding"})
	}
}

func (d *describer) masked(k Kind) {
	put, size := d.hex64, 8
	if k == KindMaskedCS4 || k == KindMaskedFA4 {
		put, size = d.hex32, 4
	}
	d.add(field.Field{Name: "size", Value: size, Text: "bytes"})
	if k == KindMaskedFA4 || k == KindMaskedFA8 {
		put(0, "add", "")
		put(size, "field_boundary", "")
	} else {
		put(0, "swap", "")
		put(size, "compare", "")
		put(2*size, "swap_mask", "")
		put(3*size, "compare_mask", "")
	}
	if k == KindMaskedFA4 {
		d.reserved(8, 8)
	}
}

func (d *describer) av(k Kind, a Address) {
	s := ParseCompactAV((*[CompactAVSize]byte)(d.b))
	if a == AddressDC {
		d.hex64(0, "dc_key", "")
	} else {
		d.hex32(0, "qkey", "")
		d.reserved(4, 4)
	}
	ext := 0
	if s.Ext {
		ext = 1
	}
	d.add(field.Field{Offset: 8, Len: 4, Name: "dqp_dct", Value: s.DQP, Text: fmt.Sprintf("0x%06x", s.DQP)})
	d.add(field.Field{Name: "ext", Value: ext, Text: [2]string{"compact, 16 bytes", "full, 48 bytes"}[ext]})
	d.num8(12, "stat_rate_sl", "")
	d.num8(13, "fl_mlid", "")
	d.num16(14, "rlid", "on RoCE the UDP source port")
	if k == KindCompactAV {
		return
	}
	d.reserved(16, 4)
	d.bytes(20, 6, "rmac", "")
	d.num8(26, "tclass", "")
	d.num8(27, "hop_limit", "")
	d.hex32(28, "grh_gid_fl", "")
	d.bytes(32, 16, "rgid", "")
}

func (d *describer) eth() {
	s := ParseEth((*[EthSize]byte)(d.b))
	n := s.HeaderLen()
	text := ""
	if s.HdrSize&EthInsertVLAN != 0 {
		text = fmt.Sprintf("insert VLAN tag 0x%x", s.Hdr)
	}
	d.add(field.Field{Offset: 0, Len: 4, Text: "software parser offsets"})
	d.num8(4, "cs_flags", setBits(uint64(s.CSFlags), csFlags))
	d.add(field.Field{Offset: 5, Len: 1, Text: "swp_flags"})
	d.num16(6, "mss", "")
	d.add(field.Field{Offset: 8, Len: 4, Text: "flow metadata"})
	d.num16(12, "inline_hdr_sz", text)
	d.bytes(14, n, "inline_hdr", "")
	if end := 14 + n; end < len(d.b) {
		d.add(field.Field{Offset: end, Len: len(d.b) - end, Text: "padding"})
	}
}

func (d *describer) umrCtrl() {
	s := ParseUMRCtrl((*[UMRCtrlSize]byte)(d.b))
	d.num8(0, "flags", setBits(uint64(s.Flags), umrFlags))
	d.reserved(1, 3)
	d.num16(4, "klm_octowords", "")
	d.num16(6, "translation_offset", "")
	d.hex64(8, "mkey_mask", setBits(s.MkeyMask, mkeyMasks))
	d.reserved(16, 32)
}

func (d *describer) mkeyContext() {
	s := ParseMkeyContext((*[MkeyContextSize]byte)(d.b))
	d.num8(0, "free", setBits(uint64(s.Free), freeFlags))
	d.reserved(1, 1)
	d.num8(2, "access_flags", setBits(uint64(s.Access), accessFlags))
	d.reserved(3, 1)
	d.hex32(4, "qpn_mkey", fmt.Sprintf("qpn 0x%06x, variant 0x%02x", s.QPNMkey>>8, uint8(s.QPNMkey)))
	d.reserved(8, 4)
	d.hex32(12, "flags_pd", fmt.Sprintf("pd 0x%06x", s.FlagsPD&0xffffff))
	d.hex64(16, "start_addr", "")
	d.add(field.Field{Offset: 24, Len: 8, Name: "len", Value: s.Len, Text: "bytes"})
	d.add(field.Field{Offset: 32, Len: 4, Text: "bsf_octowords"})
	d.reserved(36, 16)
	d.add(field.Field{Offset: 52, Len: 4, Text: "translation_octowords"})
	d.reserved(56, 3)
	d.add(field.Field{Offset: 59, Len: 1, Text: "log_page_size"})
	d.reserved(60, 4)
}

func (d *describer) setPSV() {
	d.num32(0, "psv_index", "")
	d.add(field.Field{Offset: 4, Len: 2, Text: "syndrome"})
	d.reserved(6, 2)
	d.hex64(8, "transient_signature", "")
}

func (d *describer) tagMatching() {
	s := ParseTagMatching((*[TagMatchingSize]byte)(d.b))
	text := "unknown"
	if s.Op <= TagRemove {
		text = [...]string{"nop", "append", "remove"}[s.Op]
	}
	d.add(field.Field{Offset: 0, Len: 1, Name: "operation", Value: s.Op, Text: text})
	d.num8(1, "flags", "")
	d.num16(2, "index", "")
	d.reserved(4, 2)
	d.num16(6, "sw_count", "")
	d.reserved(8, 8)
	d.hex64(16, "tag", "")
	d.hex64(24, "mask", "")
}

// A bitName names one bit of a set of flags.
type bitName struct {
	bit  uint64
	name string
}

var (
	csFlags = []bitName{{EthL4Csum, "L4 checksum"}, {EthL3Csum, "L3 checksum"},
		{EthInnerL4Csum, "inner L4 checksum"}, {EthInnerL3Csum, "inner L3 checksum"}}
	umrFlags = []bitName{{UMRInline, "inline"}, {UMRCheckBit6, "check (bit 6)"}, {UMRCheckFree, "check free"},
		{UMRTranslationOffset, "translation offset"}, {UMRCheckQPN, "check qpn"}}
	freeFlags   = []bitName{{MkeyFree, "free"}}
	accessFlags = []bitName{{AccessLocalRead, "local read"}, {AccessLocalWrite, "local write"},
		{AccessRemoteRead, "remote read"}, {AccessRemoteWrite, "remote write"}, {AccessAtomic, "atomic"},
		{AccessUMR, "umr"}}
	mkeyMasks = []bitName{{MaskLen, "len"}, {MaskPageSize, "page size"}, {MaskStartAddr, "start_addr"},
		{MaskPD, "pd"}, {MaskRemoteInval, "remote invalidate"}, {MaskSigErrCount, "signature error count"},
		{MaskBSFEnable, "bsf enable"},
		{MaskMkey, "key"}, {MaskQPN, "qpn"}, {MaskLocalRead, "local read"}, {MaskLocalWrite, "local write"},
		{MaskRemoteRead, "remote read"}, {MaskRemoteWrite, "remote write"}, {MaskAtomic, "atomic"},
		{MaskSmallFence, "small fence"}, {MaskFree, "free"}}
)

// setBits lists the names of the bits set in v. Bits without a name follow as one number.
func setBits(v uint64, names []bitName) string {
	var set []string
	for _, n := range names {
		if v&n.bit != 0 {
			set = append(set, n.name)
			v &^= n.bit
		}
	}
	if v != 0 {
		set = append(set, fmt.Sprintf("0x%x", v))
	}
	return strings.Join(set, ", ")
}
