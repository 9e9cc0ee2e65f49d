package include

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/vectors"
)

// asGo reads a CQE in Go, and formats it as the C program does.
func asGo(b *[cqe.Size]byte, log uint, index uint64) []string {
	w := cqe.ParseWC(b)
	opcode, bytes, imm, stamp := b[56], be.Uint32(b[44:]), be.Uint32(b[36:]), be.Uint64(b[48:])
	valid := 0
	if cqe.Valid(cqe.OpOwn(b[63]), index, log) {
		valid = 1
	}
	if w.Kind.IsError() {
		bytes, imm, stamp = 0, 0, 0
	}
	return strings.Fields(fmt.Sprint(valid, uint8(w.Kind), opcode, w.QPN, w.UIdx, w.Counter, bytes, imm,
		uint8(w.Syndrome), w.VendorErr, stamp))
}

// C reads CQEs as Go does. The tests of package cqe compare Go with recordings of libmlx5.
func TestGoldenCQE(t *testing.T) {
	eachGolden(t, func(t *testing.T, path string) {
		c := talk(t, path)
		check := func(t *testing.T, b []byte, log uint, index uint64) {
			t.Helper()
			e := (*[cqe.Size]byte)(b[len(b)-cqe.Size:])
			require.Equal(t, asGo(e, log, index), c.ask("cqe %d %d %x", log, index, *e), "%x", *e)
		}
		vectors.Golden(t, "cqe", "cqe", func(t *testing.T, v vectors.Vector) {
			var f struct {
				Index uint64 `json:"producer_index"`
				Log   uint   `json:"log_cq_size"`
			}
			require.NoError(t, json.Unmarshal(v.Fields, &f))
			check(t, v.Bytes, f.Log, f.Index)
			check(t, v.Bytes, f.Log, f.Index+1<<f.Log) // one lap later it is no completion
		})
		for _, file := range []string{"libmlx5-cqe-wc", "libmlx5-cqe128-wc"} {
			vectors.Recorded(t, file, func(t *testing.T, r vectors.Recording) {
				var in struct {
					CQE, Slot vectors.Hex
					Index     uint64 `json:"cqe_index"`
				}
				require.NoError(t, json.Unmarshal(r.Inputs, &in))
				check(t, append(in.CQE, in.Slot...), 6, in.Index)
			})
		}
		rng := rand.New(rand.NewPCG(1, 2)) // a fixed seed: the same entries in each run
		for range 2000 {
			var b [cqe.Size]byte
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			check(t, b[:], uint(rng.UintN(23)), rng.Uint64N(1<<30))
		}
	})
}

func TestGoldenDoorbell(t *testing.T) {
	eachGolden(t, func(t *testing.T, path string) {
		c := talk(t, path)
		vectors.Recorded(t, "libmlx5-cq-arm", func(t *testing.T, r vectors.Recording) {
			var in struct {
				CQN       uint32 `json:"cqn"`
				Solicited int    `json:"solicited_only"`
				Polled    uint64 `json:"cqes_polled_so_far"`
				Events    uint32 `json:"events_acked"`
			}
			var want struct {
				CI       string `json:"dbrec_ci"`
				Arm      string `json:"dbrec_arm"`
				Register string `json:"uar_0x20"`
			}
			vectors.Decode(t, r.Expected, &want)
			require.NoError(t, json.Unmarshal(r.Inputs, &in))
			require.Equal(t, []string{want.Arm, want.Register},
				c.ask("arm %d %d %d %d", in.CQN, in.Events, in.Solicited, in.Polled))
			if in.Polled > 0 {
				require.Equal(t, []string{want.CI}, c.ask("ci %d", in.Polled))
			}
		})
		for _, a := range []doorbell.Arm{{SN: 3, CI: 0xffffff}, {SN: 4, Solicited: true, CI: 0x1000011}} {
			solicited := 0
			if a.Solicited {
				solicited = 1
			}
			require.Equal(t, []string{fmt.Sprintf("%08x", a.Word()), fmt.Sprintf("%016x", uint64(doorbell.MakeArmRegister(a, 0xabcdef)))},
				c.ask("arm %d %d %d %d", 0xabcdef, a.SN, solicited, a.CI))
		}
		for count, want := range map[uint64]string{1: "00000001", 0xffffff: "00ffffff", 0x1000000: "00000000", 1<<32 + 5: "00000005"} {
			require.Equal(t, []string{want}, c.ask("ci %d", count))
		}
	})
}

// RDMaxcel's functions write the expected bytes. Bytes that stay as they were are 0xee.
func TestGoldenRDMaxcel(t *testing.T) {
	stale := strings.Repeat("ee", 16)
	eachGolden(t, func(t *testing.T, path string) {
		c := talk(t, path)
		wqe := func(index, flags string) string {
			return "00" + index + "08" + "12345603" + "000000" + flags + "00000000" +
				"00007f0000001000" + "00abcd01" + "00000000" + "00000008" + "00112233" + "00007f0000002000" + stale
		}
		for _, v := range []struct {
			name, request, bytes, record string
		}{
			{"unsignaled", "send 5 8 0x7f0000002000 0x112233 8 0 8 0x7f0000001000 0xabcd01 0x123456",
				wqe("0005", "00"), "00000006"},
			{"signaled is solicited", "send 6 8 0x7f0000002000 0x112233 8 1 8 0x7f0000001000 0xabcd01 0x123456",
				wqe("0006", "0a"), "00000007"},
			{"index of 16 bits, record of 24", "send 0x1020005 8 0x7f0000002000 0x112233 8 0 8 0x7f0000001000 0xabcd01 0x123456",
				wqe("0005", "00"), "00020006"},
			{"length of 32 bits", "send 5 8 0x7f0000002000 0x112233 0x100000008 0 8 0x7f0000001000 0xabcd01 0x123456",
				wqe("0005", "00"), "00000006"},
		} {
			answer := c.ask("%s", v.request)
			require.Equal(t, []string{v.bytes, "00000000" + v.record, v.bytes}, answer, "%s: WQE, record, register", v.name)
		}
		entry := "00001000" + "00112233" + "00007f0000002000"
		end := "00000000" + "00000100" + "0000000000000000"
		for _, v := range []struct{ name, request, bytes string }{
			{"RDMaxcel's own stride", "receive 10 4 0x7f0000002000 0x112233 4096", entry + end},
			{"no count: the first entry", "receive 10 0 0x7f0000002000 0x112233 4096", entry + end},
			{"two pieces", "receive 10 4 0x7f0000002000 0x112233 4096 32", entry + end},
			{"one piece, and the next entry behind it", "receive 10 4 0x7f0000002000 0x112233 4096 16", entry + stale},
		} {
			require.Equal(t, []string{v.bytes, "0000000b00000000"}, c.ask("%s", v.request), v.name)
		}

		e := make([]byte, 64)
		be.PutUint32(e[44:], 4096)
		for _, v := range []struct {
			name   string
			opOwn  byte
			index  uint32
			answer []string
		}{
			{"first lap", 0x00, 3, []string{"4096", "00000004"}},
			{"still the first lap's", 0x00, 11, []string{"-1", "00000000"}},
			{"second lap, solicited", 0x23, 11, []string{"4096", "0000000c"}},
			{"never written", 0xf0, 3, []string{"-1", "00000000"}},
			{"error", 0xd3, 0xffffff, []string{"-2", "00000000"}},
			{"error of a receive", 0xe0, 0, []string{"-2", "00000001"}},
		} {
			e[63] = v.opOwn
			require.Equal(t, v.answer, c.ask("poll %d 8 %s", v.index, hex.EncodeToString(e)), v.name)
		}
	})
}
