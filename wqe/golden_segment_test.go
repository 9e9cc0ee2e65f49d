package wqe_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/wqe"
)

// head is the beginning of every segment of a vector.
type head struct {
	Offset int    `json:"offset"`
	Type   string `json:"type"`
}

// encodeSegment appends one segment of a vector. at must be the offset of the segment. It returns
// the offset of the next segment.
func encodeSegment(t *testing.T, b *wqe.Builder, raw json.RawMessage, at int) int {
	t.Helper()
	var h head
	require.NoError(t, json.Unmarshal(raw, &h))
	require.Equal(t, at, h.Offset, "offset in %s", raw)
	switch h.Type {
	case "raddr":
		var s struct {
			head
			Addr hex `json:"raddr"`
			RKey hex `json:"rkey"`
		}
		vectors.Decode(t, raw, &s)
		b.Raddr(wqe.Raddr{Addr: uint64(s.Addr), RKey: uint32(s.RKey)})
		return at + wqe.RaddrSize
	case "data":
		d, _ := decodeData(t, raw, at)
		b.Data(d)
		return at + wqe.DataSize
	case "inline":
		var s struct {
			head
			ByteCount uint32      `json:"byte_count"`
			Length    int         `json:"length"`
			Data      vectors.Hex `json:"data"`
		}
		vectors.Decode(t, raw, &s)
		require.Len(t, s.Data, s.Length)
		require.EqualValues(t, wqe.InlineFlag|s.Length, s.ByteCount)
		// The data is given in three parts, one of which may be empty. They form one segment.
		b.Inline(s.Data[:s.Length/3], s.Data[s.Length/3:s.Length/2], s.Data[s.Length/2:])
		return at + wqe.InlineUnits(s.Length)*wqe.UnitSize
	case "atomic":
		var s struct {
			head
			SwapAdd hex `json:"swap_add"`
			Compare hex `json:"compare"`
		}
		vectors.Decode(t, raw, &s)
		b.Atomic(wqe.Atomic{SwapAdd: uint64(s.SwapAdd), Compare: uint64(s.Compare)})
		return at + wqe.AtomicSize
	case "masked_cs":
		return at + encodeMaskedCS(t, b, raw)
	case "masked_fa":
		return at + encodeMaskedFA(t, b, raw)
	case "av":
		return at + encodeAV(t, b, raw)
	case "xrc":
		var s struct {
			head
			SRQN uint32 `json:"srqn"`
		}
		vectors.Decode(t, raw, &s)
		b.XRC(wqe.XRC{SRQN: s.SRQN})
		return at + wqe.XRCSize
	case "eth":
		var s struct {
			head
			CSFlags uint8       `json:"cs_flags"`
			MSS     uint16      `json:"mss"`
			HdrSize uint16      `json:"inline_hdr_sz"`
			Header  vectors.Hex `json:"inline_hdr"`
		}
		vectors.Decode(t, raw, &s)
		e := wqe.Eth{CSFlags: s.CSFlags, MSS: s.MSS, HdrSize: s.HdrSize}
		require.Len(t, s.Header, e.HeaderLen())
		b.Eth(e, s.Header)
		return at + wqe.EthUnits(len(s.Header))*wqe.UnitSize
	case "wait":
		var s struct {
			head
			Index  uint32 `json:"max_index"`
			Number uint32 `json:"qpn_cqn"`
		}
		vectors.Decode(t, raw, &s)
		b.Wait(wqe.Wait{Index: s.Index, Number: s.Number})
		return at + wqe.WaitSize
	case "wait_data":
		var s struct {
			head
			Op    uint32 `json:"operation"`
			LKey  hex    `json:"lkey"`
			Addr  hex    `json:"addr"`
			Value hex    `json:"value"`
			Mask  hex    `json:"mask"`
		}
		vectors.Decode(t, raw, &s)
		b.WaitData(wqe.WaitData{Op: s.Op, LKey: uint32(s.LKey), Addr: uint64(s.Addr), Value: uint64(s.Value), Mask: uint64(s.Mask)})
		return at + wqe.WaitDataSize
	case "set_psv":
		var s struct {
			head
			Index     uint32 `json:"psv_index"`
			Signature hex    `json:"transient_signature"`
		}
		vectors.Decode(t, raw, &s)
		b.SetPSV(wqe.SetPSV{Index: s.Index, Signature: uint64(s.Signature)})
		return at + wqe.SetPSVSize
	case "mmo_meta":
		var s struct {
			head
			Control uint32 `json:"control"`
			LKey    hex    `json:"lkey"`
			Addr    hex    `json:"addr"`
		}
		vectors.Decode(t, raw, &s)
		b.MMOMeta(wqe.MMOMeta{Control: s.Control, LKey: uint32(s.LKey), Addr: uint64(s.Addr)})
		return at + wqe.MMOMetaSize
	case "tag_matching":
		var s struct {
			head
			Op      uint8  `json:"operation"`
			Flags   uint8  `json:"flags"`
			Index   uint16 `json:"index"`
			SWCount uint16 `json:"sw_count"`
			Tag     hex    `json:"tag"`
			Mask    hex    `json:"mask"`
		}
		vectors.Decode(t, raw, &s)
		b.TagMatching(wqe.TagMatching{Op: s.Op, Flags: s.Flags, Index: s.Index, SWCount: s.SWCount, Tag: uint64(s.Tag), Mask: uint64(s.Mask)})
		return at + wqe.TagMatchingSize
	}
	return at + encodeUMR(t, b, h.Type, raw)
}

// encodeUMR appends a segment of a user-mode registration. Any other kind fails the test.
func encodeUMR(t *testing.T, b *wqe.Builder, kind string, raw json.RawMessage) int {
	t.Helper()
	switch kind {
	case "umr_ctrl":
		var s struct {
			head
			Flags  uint8  `json:"flags"`
			Units  uint16 `json:"klm_octowords"`
			Offset uint16 `json:"translation_offset"`
			Mask   hex    `json:"mkey_mask"`
		}
		vectors.Decode(t, raw, &s)
		b.UMRCtrl(wqe.UMRCtrl{Flags: s.Flags, KLMOctowords: s.Units, TranslationOffset: s.Offset, MkeyMask: uint64(s.Mask)})
		return wqe.UMRCtrlSize
	case "mkey_context":
		var s struct {
			head
			Free    uint8  `json:"free"`
			Access  uint8  `json:"access_flags"`
			QPNMkey hex    `json:"qpn_mkey"`
			FlagsPD hex    `json:"flags_pd"`
			Start   hex    `json:"start_addr"`
			Len     uint64 `json:"len"`
		}
		vectors.Decode(t, raw, &s)
		b.MkeyContext(wqe.MkeyContext{Free: s.Free, Access: s.Access, QPNMkey: uint32(s.QPNMkey), FlagsPD: uint32(s.FlagsPD),
			StartAddr: uint64(s.Start), Len: s.Len})
		return wqe.MkeyContextSize
	case "klm":
		var s struct {
			head
			ByteCount uint32 `json:"byte_count"`
			MKey      hex    `json:"mkey"`
			Addr      hex    `json:"address"`
		}
		vectors.Decode(t, raw, &s)
		b.KLM(wqe.KLM{ByteCount: s.ByteCount, MKey: uint32(s.MKey), Addr: uint64(s.Addr)})
		return wqe.KLMSize
	case "repeat_block":
		var s struct {
			head
			ByteCount uint32 `json:"byte_count"`
			Op        uint32 `json:"op"`
			Count     uint32 `json:"repeat_count"`
			Entries   uint16 `json:"num_ent"`
		}
		vectors.Decode(t, raw, &s)
		b.RepeatBlock(wqe.RepeatBlock{ByteCount: s.ByteCount, Op: s.Op, RepeatCount: s.Count, NumEntries: s.Entries})
		return wqe.RepeatBlockSize
	case "repeat_ent":
		var s struct {
			head
			Stride    uint16 `json:"stride"`
			ByteCount uint16 `json:"byte_count"`
			MKey      hex    `json:"memkey"`
			Addr      hex    `json:"va"`
		}
		vectors.Decode(t, raw, &s)
		b.RepeatEntry(wqe.RepeatEntry{Stride: s.Stride, ByteCount: s.ByteCount, MKey: uint32(s.MKey), Addr: uint64(s.Addr)})
		return wqe.RepeatEntrySize
	case "pad":
		var s struct {
			head
			Length int `json:"length"`
		}
		vectors.Decode(t, raw, &s)
		b.Pad()
		return s.Length // if it is wrong, the bytes or the next offset differ
	}
	t.Fatalf("unknown segment type %q in %s", kind, raw)
	return 0
}

func encodeMaskedCS(t *testing.T, b *wqe.Builder, raw json.RawMessage) int {
	t.Helper()
	var s struct {
		head
		Size        int `json:"size"`
		Swap        hex `json:"swap"`
		Compare     hex `json:"compare"`
		SwapMask    hex `json:"swap_mask"`
		CompareMask hex `json:"compare_mask"`
	}
	vectors.Decode(t, raw, &s)
	if s.Size == 8 {
		b.MaskedCS8(wqe.MaskedCS8{Swap: uint64(s.Swap), Compare: uint64(s.Compare), SwapMask: uint64(s.SwapMask), CompareMask: uint64(s.CompareMask)})
		return wqe.MaskedCS8Size
	}
	require.Equal(t, 4, s.Size)
	b.MaskedCS4(wqe.MaskedCS4{Swap: uint32(s.Swap), Compare: uint32(s.Compare), SwapMask: uint32(s.SwapMask), CompareMask: uint32(s.CompareMask)})
	return wqe.MaskedCS4Size
}

func encodeMaskedFA(t *testing.T, b *wqe.Builder, raw json.RawMessage) int {
	t.Helper()
	var s struct {
		head
		Size     int `json:"size"`
		Add      hex `json:"add"`
		Boundary hex `json:"field_boundary"`
	}
	vectors.Decode(t, raw, &s)
	if s.Size == 8 {
		b.MaskedFA8(wqe.MaskedFA8{Add: uint64(s.Add), Boundary: uint64(s.Boundary)})
		return wqe.MaskedFA8Size
	}
	require.Equal(t, 4, s.Size)
	b.MaskedFA4(wqe.MaskedFA4{Add: uint32(s.Add), Boundary: uint32(s.Boundary)})
	return wqe.MaskedFA4Size
}

func encodeAV(t *testing.T, b *wqe.Builder, raw json.RawMessage) int {
	t.Helper()
	var s struct {
		head
		QKey     *hex        `json:"qkey"`
		DCKey    *hex        `json:"dc_key"`
		DQP      uint32      `json:"dqp_dct"`
		Ext      int         `json:"ext"`
		RateSL   uint8       `json:"stat_rate_sl"`
		FLMLID   uint8       `json:"fl_mlid"`
		RLID     uint16      `json:"rlid"`
		RMAC     vectors.Hex `json:"rmac"`
		TClass   uint8       `json:"tclass"`
		HopLimit uint8       `json:"hop_limit"`
		GRH      hex         `json:"grh_gid_fl"`
		RGID     vectors.Hex `json:"rgid"`
	}
	vectors.Decode(t, raw, &s)
	require.NotEqual(t, s.QKey == nil, s.DCKey == nil, "one key in %s", raw)
	a := wqe.CompactAV{Ext: s.Ext == 1, DQP: s.DQP, RateSL: s.RateSL, FLMLID: s.FLMLID, RLID: s.RLID}
	if s.QKey != nil {
		a.Key = wqe.UDKey(uint32(*s.QKey))
	} else {
		a.Key = uint64(*s.DCKey)
	}
	if !a.Ext {
		require.Empty(t, s.RMAC, "a compact address in %s", raw)
		b.CompactAV(a)
		return wqe.CompactAVSize
	}
	require.Len(t, s.RMAC, 6)
	require.Len(t, s.RGID, 16)
	b.AV(wqe.AV{CompactAV: a, RMAC: [6]byte(s.RMAC), TClass: s.TClass, HopLimit: s.HopLimit, GRH: uint32(s.GRH), RGID: [16]byte(s.RGID)})
	return wqe.AVSize
}

// decodeData returns the data segment of a vector, and its type.
func decodeData(t *testing.T, raw json.RawMessage, at int) (wqe.Data, string) {
	t.Helper()
	var s struct {
		head
		ByteCount uint32 `json:"byte_count"`
		Length    uint64 `json:"length"`
		LKey      hex    `json:"lkey"`
		Addr      hex    `json:"addr"`
	}
	vectors.Decode(t, raw, &s)
	d := wqe.Data{ByteCount: s.ByteCount, LKey: uint32(s.LKey), Addr: uint64(s.Addr)}
	require.Equal(t, at, s.Offset)
	if s.Type == "data" {
		require.Equal(t, s.Length, d.Length())
	} else {
		require.Zero(t, s.Length)
	}
	return d, s.Type
}
