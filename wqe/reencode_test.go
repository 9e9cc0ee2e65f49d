package wqe_test

import "github.com/nicless/nicless/wqe"

// reencode parses every segment of the view and encodes it into a buffer that first has the wrong
// value in every byte. Only bytes that belong to no field (padding, units without a layout,
// bytes after the WQE) are copied from the parameter in. So the result equals the bytes of in
// only if parsing and encoding lose nothing.
func reencode(v *wqe.View, in []byte) []byte {
	out := make([]byte, len(in))
	for i := range in {
		out[i] = ^in[i]
	}
	wqe.ParseCtrl((*[wqe.CtrlSize]byte)(in)).Put((*[wqe.CtrlSize]byte)(out))
	end := wqe.CtrlSize
	for it := v.Segments(); ; {
		s, ok := it.Next()
		if !ok {
			break
		}
		if s.Offset != end {
			return nil // a gap
		}
		end += len(s.Bytes)
		putSegment(out[s.Offset:end], s)
	}
	if end != int(v.Ctrl.DS)*wqe.UnitSize {
		return nil // the segments do not cover the WQE
	}
	copy(out[end:], in[end:])
	return out
}

func putSegment(dst []byte, s wqe.Segment) {
	type (
		b16 = *[16]byte
		b32 = *[32]byte
		b48 = *[48]byte
		b64 = *[64]byte
	)
	src := s.Bytes
	switch s.Kind {
	case wqe.KindRaddr:
		wqe.ParseRaddr(b16(src)).Put(b16(dst))
	case wqe.KindData, wqe.KindEnd:
		wqe.ParseData(b16(src)).Put(b16(dst))
	case wqe.KindInline:
		wqe.ParseData(b16(src)).Put(b16(dst)) // the header, and the data in the same unit
		n := wqe.InlineHead + copy(dst[wqe.InlineHead:], s.InlineData())
		copy(dst[n:], src[n:])
	case wqe.KindAtomic:
		wqe.ParseAtomic(b16(src)).Put(b16(dst))
	case wqe.KindMaskedCS4:
		wqe.ParseMaskedCS4(b16(src)).Put(b16(dst))
	case wqe.KindMaskedCS8:
		wqe.ParseMaskedCS8(b32(src)).Put(b32(dst))
	case wqe.KindMaskedFA4:
		wqe.ParseMaskedFA4(b16(src)).Put(b16(dst))
	case wqe.KindMaskedFA8:
		wqe.ParseMaskedFA8(b16(src)).Put(b16(dst))
	case wqe.KindAV:
		wqe.ParseAV(b48(src)).Put(b48(dst))
	case wqe.KindCompactAV:
		wqe.ParseCompactAV(b16(src)).Put(b16(dst))
	case wqe.KindXRC:
		wqe.ParseXRC(b16(src)).Put(b16(dst))
	case wqe.KindEth:
		wqe.ParseEth(b16(src)).Put(b16(dst))
		copy(dst[wqe.EthSize:], src[wqe.EthSize:])
	case wqe.KindWait:
		wqe.ParseWait(b16(src)).Put(b16(dst))
	case wqe.KindWaitData:
		wqe.ParseWaitData(b32(src)).Put(b32(dst))
	case wqe.KindUMRCtrl:
		wqe.ParseUMRCtrl(b48(src)).Put(b48(dst))
	case wqe.KindMkeyContext:
		wqe.ParseMkeyContext(b64(src)).Put(b64(dst))
	case wqe.KindKLM:
		wqe.ParseKLM(b16(src)).Put(b16(dst))
	case wqe.KindRepeatBlock:
		wqe.ParseRepeatBlock(b16(src)).Put(b16(dst))
	case wqe.KindRepeatEntry:
		wqe.ParseRepeatEntry(b16(src)).Put(b16(dst))
	case wqe.KindSetPSV:
		wqe.ParseSetPSV(b16(src)).Put(b16(dst))
	case wqe.KindMMOMeta:
		wqe.ParseMMOMeta(b16(src)).Put(b16(dst))
	case wqe.KindTagMatching:
		wqe.ParseTagMatching(b32(src)).Put(b32(dst))
	case wqe.KindSRQNext:
		wqe.ParseSRQNext(b16(src)).Put(b16(dst))
	case wqe.KindPad, wqe.KindRaw, wqe.KindUnused:
		copy(dst, src)
	default:
		panic("a kind without a layout: " + s.Kind.String())
	}
}
