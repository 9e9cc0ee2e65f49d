package hostpath

import (
	"encoding/json"
	"testing"

	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// goldenOp contains the fields of a vector that come from a work request. The vectors are
// of operations that were not recorded with libmlx5.
type goldenOp struct {
	Opcode   wqe.Opcode `json:"opcode"`
	Index    uint64     `json:"wqe_index"`
	QPN      uint32     `json:"qpn"`
	Flags    uint8      `json:"fm_ce_se"`
	Imm      num        `json:"imm"`
	Segments []struct {
		Type  string `json:"type"`
		Raddr num    `json:"raddr"`
		RKey  num    `json:"rkey"`

		Size        uint32 `json:"size"`
		Swap        num    `json:"swap"`
		Compare     num    `json:"compare"`
		SwapMask    num    `json:"swap_mask"`
		CompareMask num    `json:"compare_mask"`
		Add         num    `json:"add"`
		Boundary    num    `json:"field_boundary"`

		Length  uint32 `json:"length"`
		LKey    num    `json:"lkey"`
		Addr    num    `json:"addr"`
		Access  uint8  `json:"access_flags"`
		Bytes   uint32 `json:"byte_count"`
		MKey    num    `json:"mkey"`
		MemKey  num    `json:"memkey"`
		Address num    `json:"address"`
		VA      num    `json:"va"`
		Stride  uint32 `json:"stride"`
		Repeat  uint32 `json:"repeat_count"`
		Flags   uint8  `json:"flags"`
		Index   uint32 `json:"max_index"`
		Number  uint32 `json:"qpn_cqn"`
	} `json:"segments"`
}

// ours reports whether the vector is of an operation that the recordings lack. Of the UMRs
// these are the ones that fill lists.
func (f *goldenOp) ours() bool {
	switch f.Opcode {
	case wqe.OpAtomicMaskedCS, wqe.OpAtomicMaskedFA, wqe.OpDump, wqe.OpMMO, wqe.OpWait, wqe.OpSendEn:
		return true
	case wqe.OpUMR:
		return f.Segments[0].Flags == wqe.UMRInline && len(f.Segments) > 2
	}
	return false
}

// flags returns the flags that the vector's fm_ce_se has.
func (f *goldenOp) flags(t *testing.T) (flags Flags) {
	t.Helper()
	if f.Flags&wqe.FenceMask != 0 {
		flags |= Fence
	}
	switch f.Flags & wqe.CEMask {
	case wqe.CEOnError:
	case wqe.CEAlways:
		flags |= Signaled
	default:
		t.Fatalf("fm_ce_se %#02x: no flag of a work request asks for this completion mode", f.Flags)
	}
	if f.Flags&wqe.FlagSolicited != 0 {
		flags |= Solicited
	}
	return flags
}

// request returns the work request that must give the vector's bytes.
func (f *goldenOp) request(t *testing.T) *SendWR {
	t.Helper()
	op := map[wqe.Opcode]Op{
		wqe.OpAtomicMaskedCS: OpMaskedCompareSwap, wqe.OpAtomicMaskedFA: OpMaskedFetchAdd, wqe.OpUMR: OpBindList,
		wqe.OpDump: OpDump, wqe.OpMMO: OpCopy, wqe.OpWait: OpWaitCQ, wqe.OpSendEn: OpSendEnable,
	}
	wr := &SendWR{Op: op[f.Opcode], Flags: f.flags(t)}
	l := &List{Key: uint32(f.Imm)}
	for _, s := range f.Segments {
		switch s.Type {
		case "raddr":
			wr.RemoteAddr, wr.RKey = uint64(s.Raddr), uint32(s.RKey)
		case "masked_cs":
			wr.SwapAdd, wr.Compare = uint64(s.Swap), uint64(s.Compare)
			wr.Mask = &Mask{Swap: uint64(s.SwapMask), Compare: uint64(s.CompareMask)}
		case "masked_fa":
			wr.SwapAdd, wr.Mask = uint64(s.Add), &Mask{Boundary: uint64(s.Boundary)}
		case "data":
			wr.SGE = append(wr.SGE, SGE{Addr: uint64(s.Addr), Length: s.Length, LKey: uint32(s.LKey)})
		case "mkey_context":
			for _, r := range wqe.MkeyRights {
				if s.Access&r.Access != 0 {
					l.Access |= uint32(r.Right)
				}
			}
			wr.List = l
		case "repeat_block":
			l.Repeat = s.Repeat
		case "klm":
			l.Entries = append(l.Entries, ListEntry{SGE: SGE{Addr: uint64(s.Address), Length: s.Bytes, LKey: uint32(s.MKey)}})
		case "repeat_ent":
			l.Entries = append(l.Entries, ListEntry{SGE: SGE{Addr: uint64(s.VA), Length: s.Bytes, LKey: uint32(s.MemKey)}, Stride: s.Stride})
		case "wait":
			wr.Index, wr.Queue = s.Index, s.Number
			if wr.Op == OpWaitCQ { // counts the completions, of which the WQE names the last
				wr.Index++
			}
		case "umr_ctrl", "mmo_meta", "pad":
		default:
			t.Fatalf("segment %q", s.Type)
		}
	}
	return wr
}

// Operations that are not in the recordings give the bytes of the vectors.
func TestGoldenOperations(t *testing.T) {
	seen := 0
	vectors.Golden(t, "send_wqe", "send_wqe", func(t *testing.T, v vectors.Vector) {
		var f goldenOp
		require.NoError(t, json.Unmarshal(v.Fields, &f))
		if !f.ours() {
			return
		}
		seen++
		m := newMemory(t, 1<<16)
		q, err := NewSQ(SQConfig{Ring: m.take(1 << 15), Record: m.take(8), QPN: f.QPN, MaxSGE: 2})
		require.NoError(t, err)
		q.next, q.seen = f.Index, f.Index
		require.NoError(t, q.Post(f.request(t)))
		got, want := make([]byte, len(v.Bytes)), []byte(v.Bytes)
		wqe.Unwrap(got, q.ring, uint16(f.Index))
		switch f.Opcode {
		case wqe.OpDump:
			// The vector has another fence: its client sets only one of the two bits.
			want[11] = want[11]&^wqe.FenceMask | wqe.FenceVerbs
		case wqe.OpMMO:
			clear(want[16:32]) // the work request has no opaque memory
		}
		require.Equal(t, want, got)
	})
	require.GreaterOrEqual(t, seen, 12)
}
