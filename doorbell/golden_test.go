package doorbell

import (
	"encoding/binary"
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

// goldenFields has all fields that a vector of kind doorbell may have.
type goldenFields struct {
	Register Kind `json:"register"`

	Raw     hexNumber `json:"raw"` // records
	Counter uint32    `json:"counter"`

	ArmSN     uint8  `json:"arm_sn"` // cq_arm
	Solicited uint8  `json:"cmd_solicited"`
	CI        uint32 `json:"ci"`
	CQN       uint32 `json:"cqn"`
	Note      string `json:"note"`

	QPN   uint32    `json:"qpn"` // uar_db, bf
	Index uint16    `json:"index_field"`
	Word0 hexNumber `json:"word0"`
	Word1 hexNumber `json:"word1"`
	DS    uint8     `json:"ds"`
}

// encode writes the fields as a client does. A BlueFlame vector has no fields for the rest of
// its WQE; encode takes these bytes from the parameter like.
func (f *goldenFields) encode(t *testing.T, like []byte) []byte {
	t.Helper()
	switch f.Register {
	case QPRecvWord, QPSendWord, SRQWord:
		require.EqualValues(t, f.Counter, Counter(uint32(f.Raw)))
		return binary.BigEndian.AppendUint32(nil, uint32(f.Raw))
	case CQCIWord:
		require.Equal(t, f.Counter, CI(uint32(f.Raw)))
		return binary.BigEndian.AppendUint32(nil, uint32(f.Raw))
	case CQArm:
		a := Arm{SN: f.ArmSN, Solicited: f.Solicited != 0, CI: f.CI}
		b := binary.BigEndian.AppendUint32(nil, a.Word())
		return binary.BigEndian.AppendUint64(b, uint64(MakeArmRegister(a, f.CQN)))
	case UARRing:
		var b [RingSize]byte
		r := Ring(f.Word0)<<32 | Ring(f.Word1)
		r.Put(&b)
		return b[:]
	case BlueFlame:
		b := append([]byte(nil), like...)
		clear(b[1:3])
		clear(b[4:8])
		r := ParseRing((*[RingSize]byte)(b)) | MakeRing(f.Index, f.QPN) | Ring(f.DS)
		r.Put((*[RingSize]byte)(b))
		return b
	}
	t.Fatalf("register %q is not known", f.Register)
	return nil
}

// TestGoldenDoorbell encodes and decodes every vector.
func TestGoldenDoorbell(t *testing.T) {
	vectors.Golden(t, "doorbell", "doorbell", func(t *testing.T, v vectors.Vector) {
		var f goldenFields
		vectors.Decode(t, v.Fields, &f)
		require.Equal(t, v.Bytes, vectors.Hex(f.encode(t, v.Bytes)), "encode")

		var want, got map[string]any
		require.NoError(t, json.Unmarshal(v.Fields, &want))
		delete(want, "note") // a remark, not a field
		tree, err := Describe(f.Register, v.Bytes)
		require.NoError(t, err)
		text, err := json.Marshal(tree)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &got))
		require.Equal(t, want, got, "decode")
	})
}

// TestGoldenAcceleratorRing checks MakeRing on the vectors that it can write: those without
// opcode, ds and other bits.
func TestGoldenAcceleratorRing(t *testing.T) {
	made := 0
	vectors.Golden(t, "doorbell", "doorbell", func(t *testing.T, v vectors.Vector) {
		var f goldenFields
		vectors.Decode(t, v.Fields, &f)
		if f.Register != UARRing || v.Bytes[0]|v.Bytes[3]|v.Bytes[7] != 0 {
			return
		}
		var b [RingSize]byte
		MakeRing(f.Index, f.QPN).Put(&b)
		require.Equal(t, v.Bytes, vectors.Hex(b[:]))
		made++
	})
	require.Positive(t, made)
}

// TestGoldenRecordedArm repeats the calls that a program made to libmlx5, and compares the
// results with the words that libmlx5 stored.
func TestGoldenRecordedArm(t *testing.T) {
	vectors.Recorded(t, "libmlx5-cq-arm", func(t *testing.T, r vectors.Recording) {
		var in struct {
			CQN       uint32 `json:"cqn"`
			Solicited uint8  `json:"solicited_only"`
			Polled    uint32 `json:"cqes_polled_so_far"`
			PolledNow uint32 `json:"polled_now"`
			Events    uint32 `json:"events_acked"`
		}
		vectors.Decode(t, r.Inputs, &in)
		var want struct {
			CI  vectors.Hex `json:"dbrec_ci"`
			Arm vectors.Hex `json:"dbrec_arm"`
			UAR vectors.Hex `json:"uar_0x20"`
		}
		vectors.Decode(t, r.Expected, &want)

		// The sequence number increases by one for each event.
		a := Arm{SN: uint8(in.Events & 3), Solicited: in.Solicited != 0, CI: in.Polled}
		require.Equal(t, want.CI, vectors.Hex(binary.BigEndian.AppendUint32(nil, CI(in.Polled))))
		require.Equal(t, want.Arm, vectors.Hex(binary.BigEndian.AppendUint32(nil, a.Word())))
		require.Equal(t, want.UAR, vectors.Hex(binary.BigEndian.AppendUint64(nil, uint64(MakeArmRegister(a, in.CQN)))))

		reg := ArmRegister(binary.BigEndian.Uint64(want.UAR))
		require.Equal(t, a, reg.Arm())
		require.Equal(t, in.CQN, reg.CQN())
	})
}
