package cqe

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/nicless/nicless/internal/vectors"
	"github.com/stretchr/testify/require"
)

// hexNumber is a number that vectors write as "0x...".
type hexNumber uint64

func (h *hexNumber) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 0, 64)
	*h = hexNumber(n)
	return err
}

// goldenFields has all fields that a vector of kind cqe may have.
type goldenFields struct {
	CQESize       int            `json:"cqe_size"`
	ProducerIndex uint64         `json:"producer_index"`
	LogCQSize     uint           `json:"log_cq_size"`
	Slot          uint64         `json:"slot"`
	Owner         uint8          `json:"owner"`
	Opcode        Opcode         `json:"opcode"`
	Format        Format         `json:"format"`
	Solicited     uint8          `json:"solicited"`
	WQEOpcode     uint8          `json:"wqe_opcode"`
	QPN           uint32         `json:"qpn"`
	WQECounter    uint16         `json:"wqe_counter"`
	ByteCnt       uint32         `json:"byte_cnt"`
	Imm           hexNumber      `json:"imm_inval_pkey"`
	SRQNUIdx      uint32         `json:"srqn_uidx"`
	MLPath        uint8          `json:"ml_path"`
	SLID          uint16         `json:"slid"`
	FlagsRQPN     hexNumber      `json:"flags_rqpn"`
	Timestamp     hexNumber      `json:"timestamp"`
	Syndrome      Syndrome       `json:"syndrome"`
	Vendor        uint8          `json:"vendor_err_synd"`
	Signature     uint8          `json:"signature"`
	Inline        vectors.Hex    `json:"inline"`
	WC            map[string]any `json:"wc"`
}

func (f *goldenFields) opOwn() OpOwn {
	return MakeOpOwn(f.Opcode, f.Format, f.Solicited != 0, f.Owner)
}

// encode writes the fields as a device does.
func (f *goldenFields) encode(t *testing.T) []byte {
	t.Helper()
	slot := new([Size128]byte)
	first, entry := Halves(slot)
	if f.Opcode.IsError() {
		e := ErrCQE{SRQNUIdx: f.SRQNUIdx, Vendor: f.Vendor, Syndrome: f.Syndrome, WQEOpcode: f.WQEOpcode,
			QPN: f.QPN, Counter: f.WQECounter, Signature: f.Signature, OpOwn: f.opOwn()}
		e.Put(entry)
	} else {
		c := CQE{MLPath: f.MLPath, SLID: f.SLID, FlagsRQPN: uint32(f.FlagsRQPN), SRQNUIdx: f.SRQNUIdx,
			Imm: uint32(f.Imm), ByteCount: f.ByteCnt, Timestamp: uint64(f.Timestamp), WQEOpcode: f.WQEOpcode,
			QPN: f.QPN, Counter: f.WQECounter, Signature: f.Signature, OpOwn: f.opOwn()}
		c.Put(entry)
	}
	switch f.Format {
	case FormatInline32:
		require.Equal(t, len(f.Inline), copy(entry[:MaxInline32], f.Inline))
	case FormatInline64:
		require.Equal(t, len(f.Inline), copy(first[:], f.Inline))
	default:
		require.Empty(t, f.Inline)
	}
	if f.CQESize == Size {
		return entry[:]
	}
	require.Equal(t, Size128, f.CQESize)
	return slot[:]
}

// encodeFast writes the fields with the functions that the engine uses. These have no arguments
// for fields that the engine never writes. ok is false if the vector has such fields.
func (f *goldenFields) encodeFast() (b [Size]byte, ok bool) {
	path := f.Imm != 0 || f.MLPath != 0 || f.SLID != 0 || f.FlagsRQPN != 0
	switch {
	case f.Format != FormatPlain || f.Signature != 0 || f.CQESize != Size,
		f.Opcode == Req && path,
		f.Opcode >= RespWriteImm && f.Opcode <= RespSendInv && f.WQEOpcode != 0:
		return b, false
	}
	for i := range b {
		b[i] = 0xa5 // the functions must overwrite every byte
	}
	switch f.Opcode {
	case Req:
		PutReq(&b, f.QPN, f.SRQNUIdx, f.WQEOpcode, f.WQECounter, f.ByteCnt, uint64(f.Timestamp), f.opOwn())
	case RespWriteImm, RespSend, RespSendImm, RespSendInv:
		PutResp(&b, f.QPN, f.SRQNUIdx, uint32(f.FlagsRQPN), uint32(f.Imm), f.WQECounter, f.ByteCnt, uint64(f.Timestamp), f.opOwn())
		PutPath(&b, f.SLID, f.MLPath)
	case ReqErr, RespErr:
		PutErr(&b, f.QPN, f.SRQNUIdx, f.WQEOpcode, f.WQECounter, f.Syndrome, f.Vendor, f.opOwn())
	default:
		return b, false
	}
	return b, true
}

// TestGoldenCQE encodes and decodes every vector. It also checks the vector's place in the ring
// and the work completion that a poller reports for it.
func TestGoldenCQE(t *testing.T) {
	vectors.Golden(t, "cqe", "cqe", func(t *testing.T, v vectors.Vector) {
		var f goldenFields
		vectors.Decode(t, v.Fields, &f)

		require.Equal(t, v.Bytes, vectors.Hex(f.encode(t)), "encode")
		if b, ok := f.encodeFast(); ok {
			require.Equal(t, v.Bytes, vectors.Hex(b[:]), "encode, fast")
		}

		last := (*[Size]byte)(v.Bytes[len(v.Bytes)-Size:])
		o := OpOwn(last[OffOpOwn])
		require.Equal(t, f.Slot, Slot(f.ProducerIndex, f.LogCQSize))
		require.Equal(t, f.Owner, Owner(f.ProducerIndex, f.LogCQSize))
		require.Equal(t, f.Opcode != Invalid, Valid(o, f.ProducerIndex, f.LogCQSize))
		require.False(t, Valid(o, f.ProducerIndex+1<<f.LogCQSize, f.LogCQSize), "stale one lap later")

		var want map[string]any
		require.NoError(t, json.Unmarshal(v.Fields, &want))
		for _, ring := range []string{"producer_index", "log_cq_size", "slot"} {
			delete(want, ring) // a field of the ring, which is not in the bytes
		}
		require.Equal(t, want, described(t, v.Bytes), "decode")
	})
}

// described returns Describe's tree as a program reads it.
func described(t *testing.T, b []byte) (got map[string]any) {
	t.Helper()
	tree, err := Describe(b)
	require.NoError(t, err)
	text, err := json.Marshal(tree)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &got))
	return got
}
