package hostpath

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// inlineCQE returns a 64-byte CQE that carries n bytes 1, 2, 3 …, as far as there is room for
// them.
func inlineCQE(kind cqe.Opcode, f cqe.Format, op wqe.Opcode, counter uint16, n uint32) []byte {
	var e [64]byte
	o := cqe.MakeOpOwn(kind, f, false, 0)
	if kind == cqe.Req {
		cqe.PutReq(&e, 5, 0, uint8(op), counter, n, 0, o)
	} else {
		cqe.PutResp(&e, 5, 0, 0, 0, counter, n, 0, o)
	}
	for i := range min(n, 32) {
		e[i] = byte(i + 1)
	}
	return e[:]
}

// A device may return the result of a READ or an atomic inside the CQE. The poller
// copies it to the memory of the work request, also where the WQE wraps around the
// ring's end.
func TestScatterSend(t *testing.T) {
	list := []SGE{{payloadAddr, 10, 7}, {payloadAddr + 100, 4, 7}, {payloadAddr + 50, 18, 7}}
	for _, c := range []struct {
		name    string
		wr      SendWR
		n       uint32
		pieces  map[int]int // offset in the payload: length
		err     error
		counter uint16
	}{
		{"one piece", SendWR{Op: OpRead, SGE: list[:1]}, 10, map[int]int{0: 10}, nil, 0},
		{"three pieces", SendWR{Op: OpRead, SGE: list}, 32, map[int]int{0: 10, 100: 4, 50: 18}, nil, 0},
		{"round the end of the ring", SendWR{Op: OpRead, SGE: list}, 32, map[int]int{0: 10, 100: 4, 50: 18}, nil, 1023},
		{"shorter than the list", SendWR{Op: OpRead, SGE: list}, 12, map[int]int{0: 10, 100: 2}, nil, 0},
		{"compare and swap", SendWR{Op: OpCompareSwap, SGE: []SGE{{payloadAddr + 8, 8, 7}}}, 8, map[int]int{8: 8}, nil, 0},
		{"fetch and add", SendWR{Op: OpFetchAdd, SGE: []SGE{{payloadAddr + 8, 8, 7}}}, 8, map[int]int{8: 8}, nil, 0},
		{"longer than the list", SendWR{Op: OpRead, SGE: list[:1]}, 11, map[int]int{0: 10}, cqe.LocalLength, 0},
		{"longer than a CQE", SendWR{Op: OpRead, SGE: list}, 33, nil, cqe.LocalLength, 0},
		{"no memory of ours", SendWR{Op: OpRead, SGE: []SGE{{payloadAddr, 10, 8}}}, 10, nil, cqe.LocalProtection, 0},
		{"for a WRITE", SendWR{Op: OpWrite, SGE: list}, 10, nil, cqe.RemoteInvalidRequest, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSetting(t, 0, 5)
			s.sq.maxSGE = 3
			s.send(t, c.counter, OpNop, 1) // only so that the index is posted
			s.sq.next, s.sq.rung = uint64(c.counter), 0
			c.wr.ID, c.wr.Flags = 42, Signaled
			require.NoError(t, s.sq.Post(&c.wr))
			s.sq.Ring()
			q := s.cq(t, 4, 0, inlineCQE(cqe.Req, cqe.FormatInline32, ops[c.wr.Op].code, c.counter, c.n))
			want := append([]byte(nil), s.payload...)
			at := byte(0)
			for _, off := range []int{0, 8, 100, 50} {
				for i := range c.pieces[off] {
					at++
					want[off+i] = at
				}
			}
			var got [2]Completion
			require.Equal(t, 1, q.Poll(got[:]))
			require.Equal(t, uint64(42), got[0].ID)
			require.ErrorIs(t, got[0].Err(), c.err)
			require.Equal(t, want, s.payload)
			require.Equal(t, 1024, s.sq.Free(), "freed in any case")
		})
	}
}

func TestScatterRecvRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		cqe  []byte
		err  error
	}{
		{"compressed, which nobody asked for", inlineCQE(cqe.RespSend, cqe.FormatCompressed, 0, 0, 8), cqe.Syndrome(0)},
		{"64 bytes in a 64-byte CQE", inlineCQE(cqe.RespSend, cqe.FormatInline64, 0, 0, 8), cqe.Syndrome(0)},
		{"longer than a CQE", inlineCQE(cqe.RespSend, cqe.FormatInline32, 0, 0, 1<<31), cqe.LocalLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSetting(t, 0, 5)
			s.recv(t, 0, 9)
			var got [2]Completion
			require.Equal(t, 1, s.cq(t, 4, 0, c.cqe).Poll(got[:]))
			require.Equal(t, uint64(9), got[0].ID)
			require.ErrorIs(t, got[0].Err(), c.err)
			require.NotZero(t, got[0].Status)
			require.Equal(t, byte(0xee), s.payload[0])
		})
	}
	t.Run("nobody knows the memory", func(t *testing.T) {
		s := newSetting(t, 0, 5)
		s.recv(t, 0, 9)
		q := s.cq(t, 4, 0, inlineCQE(cqe.RespSend, cqe.FormatInline32, 0, 0, 8))
		q.memory = nil
		var got [1]Completion
		require.Equal(t, 1, q.Poll(got[:]))
		require.ErrorIs(t, got[0].Err(), cqe.LocalProtection)
	})
}
