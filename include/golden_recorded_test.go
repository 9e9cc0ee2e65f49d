package include

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/include/internal/requests"
	"github.com/nicless/nicless/internal/vectors"
)

// verbs has the opcodes that C posts, by their names in verbs.
var verbs = map[string]uint8{
	"RDMA_WRITE": 0x08, "RDMA_WRITE_WITH_IMM": 0x09, "RDMA_READ": 0x10, "SEND": 0x0a, "SEND_WITH_IMM": 0x0b,
	"SEND_WITH_INV": 0x01, "ATOMIC_CMP_AND_SWP": 0x11, "ATOMIC_FETCH_AND_ADD": 0x12,
}

// Bits of send_flags in verbs.
const (
	verbsFence, verbsSignaled, verbsSolicited, verbsInline = 1, 2, 4, 8
)

type recordedSend struct {
	QPN    uint32 `json:"qpn"`
	Blocks int    `json:"sq_wqe_cnt"`
	Index  uint64 `json:"sq_index"`
	SigAll int    `json:"sq_sig_all"`
	WR     []struct {
		Opcode string      `json:"opcode"`
		Flags  uint8       `json:"send_flags"`
		Imm    vectors.Hex `json:"imm_or_inv_wire"`
		SGE    []struct {
			Addr   num         `json:"addr"`
			Length uint32      `json:"length"`
			LKey   uint32      `json:"lkey"`
			Data   vectors.Hex `json:"data"`
		} `json:"sge"`
		RemoteAddr num    `json:"remote_addr"`
		RKey       uint32 `json:"rkey"`
		CompareAdd num    `json:"compare_add"`
		Swap       num    `json:"swap"`
		InvalRKey  uint32 `json:"invalidate_rkey"`
	} `json:"wr"`
	AH json.RawMessage `json:"ah"`
}

type recordedWQEs struct {
	WQEs []struct {
		Index uint64      `json:"index"`
		Bytes vectors.Hex `json:"bytes"`
	} `json:"wqes"`
	Record   string `json:"dbrec_sq"`
	Register string `json:"uar_first_8"`
}

// posts turns a recording into work requests, if C has their operations. smallFence says that
// libmlx5 has set a fence on the first work request because an earlier one changes keys. In C
// the caller has to set this fence.
func (in *recordedSend) posts(smallFence bool) (list []requests.Post, ok bool) {
	if in.AH != nil {
		return nil, false
	}
	for i, wr := range in.WR {
		opcode, ok := verbs[wr.Opcode]
		if !ok {
			return nil, false
		}
		p := requests.Post{Opcode: opcode, Imm: be.Uint32(wr.Imm), RAddr: uint64(wr.RemoteAddr), RKey: wr.RKey,
			Swap: uint64(wr.Swap), Compare: uint64(wr.CompareAdd)}
		switch opcode {
		case opFA:
			p.Swap = uint64(wr.CompareAdd)
		case opSendInval:
			p.Imm = wr.InvalRKey
		}
		if wr.Flags&verbsSignaled != 0 || in.SigAll != 0 {
			p.Flags |= 0x08
		}
		if wr.Flags&verbsSolicited != 0 {
			p.Flags |= 0x02
		}
		if wr.Flags&verbsFence != 0 {
			p.Flags |= 0x80
		} else if smallFence && i == 0 {
			p.Flags |= 0x20
		}
		for _, s := range wr.SGE {
			if wr.Flags&verbsInline != 0 {
				p.Data = append(p.Data, s.Data...)
			} else {
				p.SGE = append(p.SGE, fmt.Sprintf("%d %d %d", s.Addr, s.Length, s.LKey))
			}
		}
		list = append(list, p)
	}
	return list, true
}

// After each list of work requests, C has left the ring, the record and the register as the
// vendor's library did in the recording. The two halves of the register alternate from list to
// list.
func TestGoldenRecordedSend(t *testing.T) {
	for _, file := range []string{"libmlx5-sq-rc", "libmlx5-sq-wrap", "libmlx5-sq-uc-ud"} {
		eachGolden(t, func(t *testing.T, path string) {
			c, checked, half := talk(t, path), 0, 0
			blocks, qpn := 0, uint32(0)
			vectors.Recorded(t, file, func(t *testing.T, r vectors.Recording) {
				var in recordedSend
				var want recordedWQEs
				require.NoError(t, json.Unmarshal(r.Inputs, &in))
				require.NoError(t, json.Unmarshal(r.Expected, &want))
				list, ok := in.posts(want.WQEs[0].Bytes[11]&0xe0 == 0x20)
				if !ok {
					return
				}
				checked++
				if blocks != in.Blocks || qpn != in.QPN {
					require.Equal(t, []string{"0"}, c.ask("queue %d %d", in.Blocks, in.QPN))
					blocks, qpn, half = in.Blocks, in.QPN, 0
				}
				c.ask("move %d", in.Index)
				for _, p := range list {
					require.Equal(t, []string{"0"}, c.ask("%s", p.Line()))
				}
				ring := make([]byte, in.Blocks*64)
				for _, w := range want.WQEs {
					for i, b := range w.Bytes {
						ring[(int(w.Index)*64+i)%len(ring)] = b
					}
				}
				answer := c.ask("ring")
				same(t, ring, answer[0])
				require.Equal(t, "00000000"+want.Record, answer[1], "record; the receive word is not a poster's")
				register := strings.Repeat("00", half*256) + want.Register
				register += strings.Repeat("00", 512-len(register)/2)
				require.Equal(t, register, answer[2], "register: 8 bytes in one half")
				half ^= 1
			})
			t.Logf("%s: %d of the recordings are of operations that C has", file, checked)
			require.NotZero(t, checked)
		})
	}
}

func TestGoldenRecv(t *testing.T) {
	eachGolden(t, func(t *testing.T, path string) {
		c := talk(t, path)
		vectors.Golden(t, "recv_wqe", "recv_wqe", func(t *testing.T, v vectors.Vector) {
			var f struct {
				Stride   int       `json:"stride"`
				Queue    string    `json:"queue"`
				Segments []segment `json:"segments"`
			}
			require.NoError(t, json.Unmarshal(v.Fields, &f))
			if f.Queue == "srq" || v.Name == "rq_all_zero" {
				return // C has no shared receive queues, and always ends a list
			}
			var list []string
			for _, s := range f.Segments {
				if s.Type == "data" {
					list = append(list, fmt.Sprintf("%d %d %d", s.Addr, s.Length, s.LKey))
				}
			}
			answer := c.ask("recv %d %d %s", f.Stride, 0, strings.Join(list, " "))
			require.Equal(t, hex.EncodeToString(v.Bytes), answer[0])
		})
		vectors.Recorded(t, "libmlx5-rq", func(t *testing.T, r vectors.Recording) {
			var in struct {
				Stride int    `json:"rq_stride"`
				Index  uint64 `json:"rq_index"`
				SGE    []struct {
					Addr   num    `json:"addr"`
					Length uint32 `json:"length"`
					LKey   uint32 `json:"lkey"`
				} `json:"sge"`
			}
			var want struct {
				Bytes  string `json:"bytes"`
				Record string `json:"dbrec_rq"`
			}
			require.NoError(t, json.Unmarshal(r.Inputs, &in))
			require.NoError(t, json.Unmarshal(r.Expected, &want))
			var list []string
			for _, s := range in.SGE {
				list = append(list, fmt.Sprintf("%d %d %d", s.Addr, s.Length, s.LKey))
			}
			answer := c.ask("recv %d %d %s", in.Stride, in.Index, strings.Join(list, " "))
			// The recording has stale bytes here.
			want.Bytes += strings.Repeat("0", 2*in.Stride-len(want.Bytes))
			require.Equal(t, []string{want.Bytes, want.Record + "00000000"}, answer)
		})
	})
}
