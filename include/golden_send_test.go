package include

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/include/internal/requests"
	"github.com/nicless/nicless/internal/vectors"
)

var be = binary.BigEndian

// num is a number in JSON, or a string that contains a number with 0x.
type num uint64

func (n *num) UnmarshalJSON(b []byte) error {
	v, err := strconv.ParseUint(strings.Trim(string(b), `"`), 0, 64)
	*n = num(v)
	return err
}

// segment is a segment of a vector. It has the fields of all kinds of segment that C writes.
type segment struct {
	Type      string      `json:"type"`
	RAddr     num         `json:"raddr"`
	RKey      num         `json:"rkey"`
	ByteCount num         `json:"byte_count"`
	Length    num         `json:"length"`
	LKey      num         `json:"lkey"`
	Addr      num         `json:"addr"`
	SwapAdd   num         `json:"swap_add"`
	Compare   num         `json:"compare"`
	Data      vectors.Hex `json:"data"`
}

type sendFields struct {
	Opcode    uint8             `json:"opcode"`
	OpMod     uint8             `json:"opmod"`
	Index     uint16            `json:"wqe_index"`
	QPN       uint32            `json:"qpn"`
	DS        int               `json:"ds"`
	Signature uint8             `json:"signature"`
	Stream    uint16            `json:"dci_stream"`
	Flags     uint8             `json:"fm_ce_se"`
	Imm       num               `json:"imm"`
	Segments  []json.RawMessage `json:"segments"`
	WQECount  int               `json:"wqe_cnt"`
}

const (
	opNop, opSendInval, opSendImm, opWriteImm, opFA = 0x00, 0x01, 0x0b, 0x09, 0x12
)

// expressible turns a vector into a work request, if the C functions can write it. The vector
// must have an opcode that C posts, and the segments that the opcode needs, followed by
// pointers or inline data.
func (f *sendFields) expressible(t *testing.T) (p requests.Post, ok bool) {
	t.Helper()
	p = requests.Post{Opcode: f.Opcode, Flags: f.Flags, Imm: uint32(f.Imm)}
	withImm := p.Opcode == opSendInval || p.Opcode == opSendImm || p.Opcode == opWriteImm
	switch {
	case f.OpMod != 0 || f.Signature != 0 || f.Stream != 0:
		return p, false
	case f.Imm != 0 && !withImm:
		return p, false
	case !strings.Contains("\x00\x01\x08\x09\x0a\x0b\x10\x11\x12", string(rune(f.Opcode))):
		return p, false
	case f.Opcode == opNop && f.DS != 1:
		return p, false // a NOP with a ds that is too large
	}
	for i, raw := range f.Segments {
		var s segment
		require.NoError(t, json.Unmarshal(raw, &s))
		switch s.Type {
		case "raddr":
			p.RAddr, p.RKey = uint64(s.RAddr), uint32(s.RKey)
		case "atomic":
			p.Swap, p.Compare = uint64(s.SwapAdd), uint64(s.Compare)
			if f.Opcode == opFA && p.Compare != 0 {
				return p, false // stale bytes, which C does not write
			}
		case "data":
			p.SGE = append(p.SGE, fmt.Sprintf("%d %d %d", s.Addr, s.Length, s.LKey))
		case "inline":
			if len(s.Data) == 0 || i != len(f.Segments)-1 || len(p.SGE) > 0 {
				return p, false // nothing inline, or inline and pointers mixed
			}
			p.Data = s.Data
		default:
			return p, false
		}
	}
	return p, true
}

// C writes the whole WQEs of the vectors from the vendor's header. The rest of the ring stays 0.
func TestGoldenSend(t *testing.T) {
	for _, file := range []string{"send_wqe", "send_ring"} {
		eachGolden(t, func(t *testing.T, path string) {
			c, checked := talk(t, path), 0
			vectors.Golden(t, file, file, func(t *testing.T, v vectors.Vector) {
				var f sendFields
				vectors.Decode(t, v.Fields, &struct {
					*sendFields
					ignored
				}{sendFields: &f})
				p, ok := f.expressible(t)
				if !ok {
					return
				}
				checked++
				blocks := f.WQECount
				if blocks == 0 {
					blocks = 64
				}
				require.Equal(t, []string{"0"}, c.ask("queue %d %d", blocks, f.QPN))
				c.ask("move %d", f.Index)
				require.Equal(t, []string{"0"}, c.ask("%s", p.Line()))
				answer := c.ask("ring")
				want := make([]byte, blocks*64)
				if f.WQECount != 0 {
					copy(want, v.Bytes)
				} else {
					for i, b := range v.Bytes[:f.DS*16] {
						want[(int(f.Index)*64+i)%len(want)] = b
					}
				}
				same(t, want, answer[0])
				record := make([]byte, 8)
				be.PutUint16(record[6:], f.Index+uint16((f.DS+3)/4))
				require.Equal(t, hex.EncodeToString(record), answer[1], "record")
				first := int(f.Index) * 64 % len(want)
				require.Equal(t, hex.EncodeToString(want[first:first+8]), answer[2][:16], "register")
			})
			t.Logf("%s: %d of the vectors are of kinds that C posts", file, checked)
			require.Greater(t, checked, map[string]int{"send_wqe": 50, "send_ring": 2}[file])
		})
	}
}

// ignored lists fields of vectors that follow from other fields.
type ignored struct {
	Fence      any `json:"fence"`
	Completion any `json:"ce"`
	Solicited  any `json:"solicited"`
	Blocks     any `json:"wqebbs"`
	Slot       any `json:"slot"`
	Next       any `json:"next_producer"`
}

func same(t *testing.T, want []byte, got string) {
	t.Helper()
	if hex.EncodeToString(want) == got {
		return
	}
	b, err := hex.DecodeString(got)
	require.NoError(t, err)
	require.Equal(t, hex.Dump(want), hex.Dump(b))
}
