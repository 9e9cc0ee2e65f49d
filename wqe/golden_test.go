package wqe_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/wqe"
)

// sendFields has the fields of a send_wqe or send_ring vector.
type sendFields struct {
	Opcode     wqe.Opcode        `json:"opcode"`
	OpMod      uint8             `json:"opmod"`
	Index      uint16            `json:"wqe_index"`
	QPN        uint32            `json:"qpn"`
	DS         int               `json:"ds"`
	Blocks     int               `json:"wqebbs"`
	Signature  uint8             `json:"signature"`
	Stream     uint16            `json:"dci_stream"`
	Flags      uint8             `json:"fm_ce_se"`
	Fence      uint8             `json:"fence"`
	Completion uint8             `json:"ce"`
	Solicited  uint8             `json:"solicited"`
	Imm        hex               `json:"imm"`
	Segments   []json.RawMessage `json:"segments"`

	// Rings only.
	WQECount     int    `json:"wqe_cnt"`
	Slot         int    `json:"slot"`
	NextProducer uint16 `json:"next_producer"`
}

// hex is a number written as "0x…".
type hex uint64

func (h *hex) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 0, 64)
	*h = hex(n)
	return err
}

func TestGoldenSendWQE(t *testing.T) {
	vectors.Golden(t, "send_wqe", "send_wqe", func(t *testing.T, v vectors.Vector) {
		var f sendFields
		vectors.Decode(t, v.Fields, &f)

		tree, err := wqe.DescribeSend(v.Bytes, wqe.AddressGuess)
		require.NoError(t, err)
		assert.Equal(t, generic(t, v.Fields), described(t, tree), "decoded, address guessed")
		tree, err = wqe.DescribeSend(v.Bytes, address(t, f))
		require.NoError(t, err)
		assert.Equal(t, generic(t, v.Fields), described(t, tree), "decoded, address given")

		got := make([]byte, len(v.Bytes))
		ring := make([]byte, 64*wqe.BlockSize)
		assert.Equal(t, f.Blocks, encodeSend(t, f, ring), "blocks")
		wqe.Unwrap(got, ring, f.Index)
		assert.Equal(t, []byte(v.Bytes), got, "encoded")

		view, err := wqe.Parse(v.Bytes, address(t, f))
		require.NoError(t, err)
		assert.Equal(t, []byte(v.Bytes), reencode(&view, v.Bytes), "parsed and encoded again")
	})
}

func TestGoldenSendRing(t *testing.T) {
	vectors.Golden(t, "send_ring", "send_ring", func(t *testing.T, v vectors.Vector) {
		var f sendFields
		vectors.Decode(t, v.Fields, &f)
		require.Len(t, v.Bytes, f.WQECount*wqe.BlockSize)
		assert.Equal(t, f.Slot, int(f.Index)&(f.WQECount-1), "slot")

		copied := make([]byte, f.DS*wqe.UnitSize)
		require.Len(t, copied, wqe.Unwrap(copied, v.Bytes, f.Index))
		tree, err := wqe.DescribeSend(copied, wqe.AddressGuess)
		require.NoError(t, err)
		got, want := described(t, tree), generic(t, v.Fields)
		for _, name := range []string{"signature", "dci_stream", "fence", "ce", "solicited"} {
			if _, ok := want[name]; !ok {
				delete(got, name) // vectors of a ring may leave these fields out
			}
		}
		for _, name := range []string{"wqe_cnt", "slot", "next_producer"} {
			delete(want, name) // fields of the ring, which are checked above and below
		}
		assert.Equal(t, want, got, "decoded")

		ring := make([]byte, len(v.Bytes))
		blocks := encodeSend(t, f, ring)
		assert.Equal(t, []byte(v.Bytes), ring, "encoded")
		assert.Equal(t, f.NextProducer, f.Index+uint16(blocks), "next producer")
	})
}

// encodeSend builds the vector's WQE in a ring and returns how many blocks it takes.
func encodeSend(t *testing.T, f sendFields, ring []byte) int {
	t.Helper()
	b := wqe.Start(ring, f.Index)
	at := wqe.CtrlSize
	for _, raw := range f.Segments {
		at = encodeSegment(t, &b, raw, at)
	}
	if f.Opcode == wqe.OpNop { // the DS of a NOP may count units that the NOP does not use
		b.Raw(make([]byte, f.DS*wqe.UnitSize-at))
	}
	c := wqe.Ctrl{Opcode: f.Opcode, OpMod: f.OpMod, QPN: f.QPN, Stream: f.Stream, Flags: f.Flags, Imm: uint32(f.Imm)}
	finish := b.Finish
	if f.Signature != 0 {
		finish = b.FinishSigned
	}
	blocks, err := finish(c)
	require.NoError(t, err)
	return blocks
}

// address returns the kind of address segment that the WQE of a vector has.
func address(t *testing.T, f sendFields) wqe.Address {
	t.Helper()
	a := wqe.NoAddress
	for _, raw := range f.Segments {
		s := string(raw)
		switch {
		case strings.Contains(s, `"type": "av"`) && strings.Contains(s, `"qkey"`):
			a = wqe.AddressUD
		case strings.Contains(s, `"type": "av"`):
			a = wqe.AddressDC
		case strings.Contains(s, `"type": "xrc"`):
			a = wqe.AddressXRC
		case strings.Contains(s, `"type": "eth"`) && a == wqe.AddressUD:
			a = wqe.AddressUDEth
		case strings.Contains(s, `"type": "eth"`):
			a = wqe.AddressEth
		}
	}
	return a
}

func TestGoldenRecvWQE(t *testing.T) {
	vectors.Golden(t, "recv_wqe", "recv_wqe", func(t *testing.T, v vectors.Vector) {
		var f struct {
			Stride   int               `json:"stride"`
			Queue    string            `json:"queue"`
			Next     uint16            `json:"next_wqe_index"`
			Segments []json.RawMessage `json:"segments"`
		}
		vectors.Decode(t, v.Fields, &f)
		require.Contains(t, []string{"rq", "srq"}, f.Queue)
		require.Len(t, v.Bytes, f.Stride)
		srq := f.Queue == "srq"

		tree, err := wqe.DescribeRecv(v.Bytes, srq)
		require.NoError(t, err)
		assert.Equal(t, generic(t, v.Fields), described(t, tree), "decoded")

		got := make([]byte, f.Stride)
		list, at := got, 0
		if srq {
			wqe.SRQNext{Next: f.Next}.Put((*[wqe.SRQNextSize]byte)(got))
			list, at = got[wqe.SRQNextSize:], wqe.SRQNextSize
			var next struct {
				head
				Next uint16 `json:"next_wqe_index"`
			}
			require.NotEmpty(t, f.Segments)
			vectors.Decode(t, f.Segments[0], &next)
			require.Equal(t, head{0, "srq_next"}, next.head)
			require.Equal(t, f.Next, next.Next)
			f.Segments = f.Segments[1:]
		}
		var sges []wqe.Data
		for i, raw := range f.Segments {
			d, kind := decodeData(t, raw, at)
			at += wqe.DataSize
			if kind == "end" {
				require.Equal(t, len(f.Segments)-1, i, "end is last")
				require.True(t, d.End())
				break
			}
			require.Equal(t, "data", kind)
			sges = append(sges, d)
		}
		require.True(t, wqe.PutRecv(list, sges))
		assert.Equal(t, []byte(v.Bytes), got, "encoded")
	})
}

// TestGoldenSendWRAPI parses the WQEs of the vendor's library and puts them back.
func TestGoldenSendWRAPI(t *testing.T) {
	recordedWQEs(t, "libmlx5-sq-wr-api", func(t *testing.T, _ string, b []byte) {
		v, err := wqe.Parse(b, wqe.NoAddress)
		require.NoError(t, err)
		assert.Equal(t, b, reencode(&v, b), "parsed and encoded again")
		_, err = wqe.DescribeSend(b, wqe.NoAddress)
		require.NoError(t, err)
	})
}

// TestGuessRecorded infers addresses in WQEs that the vendor's library wrote.
func TestGuessRecorded(t *testing.T) {
	for _, file := range []string{"libmlx5-sq-rc", "libmlx5-sq-wrap", "libmlx5-sq-uc-ud", "libmlx5-sq-wr-api"} {
		recordedWQEs(t, file, func(t *testing.T, name string, b []byte) {
			want := wqe.NoAddress
			if strings.HasPrefix(name, "ud-") {
				want = wqe.AddressUD
			}
			v, err := wqe.Parse(b, wqe.AddressGuess)
			require.NoError(t, err)
			assert.Equal(t, want, v.Address, "%x", b)
			assert.Equal(t, b, reencode(&v, b), "parsed and encoded again")
		})
	}
}

func recordedWQEs(t *testing.T, file string, check func(t *testing.T, name string, b []byte)) {
	vectors.Recorded(t, file, func(t *testing.T, r vectors.Recording) {
		var x struct {
			WQEs []struct {
				Index uint16      `json:"index"`
				DS    uint8       `json:"ds"`
				Bytes vectors.Hex `json:"bytes"`
			} `json:"wqes"`
			Record string `json:"dbrec_sq"`
			UAR    string `json:"uar_first_8"`
		}
		vectors.Decode(t, r.Expected, &x)
		for _, w := range x.WQEs {
			c := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(w.Bytes))
			assert.Equal(t, w.Index, c.Index)
			assert.Equal(t, w.DS, c.DS)
			check(t, r.Name, w.Bytes)
		}
	})
}

// described encodes a description as JSON and decodes it again, so that it can be compared with
// the fields of a vector.
func described(t *testing.T, tree field.Tree) map[string]any {
	t.Helper()
	raw, err := json.Marshal(tree)
	require.NoError(t, err)
	return generic(t, raw)
}

// generic decodes a JSON object and keeps its numbers as they are written.
func generic(t *testing.T, raw []byte) (m map[string]any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	require.NoError(t, d.Decode(&m))
	return m
}
