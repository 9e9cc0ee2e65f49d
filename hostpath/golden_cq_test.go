package hostpath

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

func TestGoldenCQArm(t *testing.T) {
	vectors.Recorded(t, "libmlx5-cq-arm", func(t *testing.T, r vectors.Recording) {
		var in struct {
			CQN       uint32 `json:"cqn"`
			Solicited int    `json:"solicited_only"`
			SoFar     uint64 `json:"cqes_polled_so_far"`
			Now       uint64 `json:"polled_now"`
			Acked     int    `json:"events_acked"`
		}
		var want struct {
			CI  vectors.Hex `json:"dbrec_ci"`
			Arm vectors.Hex `json:"dbrec_arm"`
			UAR vectors.Hex `json:"uar_0x20"`
		}
		vectors.Decode(t, r.Inputs, &in)
		vectors.Decode(t, r.Expected, &want)
		b := newBench(t, 64, nil)
		b.cq.cqn = in.CQN
		post := func(n uint64) {
			for range n {
				require.NoError(t, b.sq.Post(&SendWR{Op: OpNop, Flags: Signaled}))
			}
			b.sq.Ring()
			b.dev.step()
			require.Len(t, b.poll(), int(n))
		}
		for range in.SoFar - in.Now {
			post(1)
		}
		for range in.Acked {
			b.cq.EventSeen()
		}
		post(in.Now)
		b.cq.Arm(in.Solicited != 0)
		require.Equal(t, []byte(want.CI), b.cqRecord[:4], "consumer index")
		require.Equal(t, []byte(want.Arm), b.cqRecord[4:8], "arm word")
		require.Equal(t, []byte(want.UAR), b.uar[512:520], "register")
	})
}

// A setting is a QP whose next work request is the one that a recorded CQE
// completes.
type setting struct {
	table   Table
	sq      *SQ
	rq      *RQ
	payload []byte // the memory that the receive's list names
}

const payloadAddr = 0x2_0000_0000

func newSetting(t *testing.T, index, qpn uint32) *setting {
	t.Helper()
	m := newMemory(t, 4096*64*2)
	s := &setting{payload: bytes.Repeat([]byte{0xee}, 256)}
	record := m.take(8)
	var err error
	s.sq, err = NewSQ(SQConfig{Ring: m.take(1024 * 64), Record: record, QPN: qpn, MaxSGE: 1})
	require.NoError(t, err)
	s.rq, err = NewRQ(RQConfig{Ring: m.take(1024 * 64), Stride: 64, Record: record})
	require.NoError(t, err)
	s.table.used = make([]bool, index)
	for i := range s.table.used {
		s.table.used[i] = true
	}
	got, err := s.table.Alloc()
	require.NoError(t, err)
	require.Equal(t, index, got)
	s.table.Set(index, &QP{SQ: &s.sq.SendRing, RQ: s.rq, QPN: qpn})
	return s
}

// send posts a work request whose WQE has this index.
func (s *setting) send(t *testing.T, counter uint16, op Op, id uint64) {
	t.Helper()
	q, c := s.sq, uint64(counter)
	q.next, q.seen, q.rung = c, c, c
	q.freed.Publish(c)
	wr := SendWR{ID: id, Op: op, Flags: Signaled}
	switch op {
	case OpCompareSwap, OpFetchAdd:
		wr.SGE = sge(8)
	case OpBindMW:
		wr.Bind = &Bind{Type: 2}
	}
	require.NoError(t, q.Post(&wr))
	q.Ring()
}

// recv posts a receive with this counter, whose list cuts payload into pieces.
func (s *setting) recv(t *testing.T, counter uint16, id uint64) {
	t.Helper()
	q, c := s.rq, uint64(counter)
	q.next, q.seen = c, c
	q.freed.Publish(c)
	wr := RecvWR{ID: id}
	addr := uint64(payloadAddr)
	for _, n := range []uint32{3, 0, 16, 200} {
		wr.SGE = append(wr.SGE, SGE{Addr: addr, Length: n, LKey: 7})
		addr += uint64(n)
	}
	require.NoError(t, q.PostRecv(&wr))
	q.Ring()
}

// cq makes a CQ whose next entry has this index and the bytes of slot.
func (s *setting) cq(t *testing.T, size, index uint64, slot []byte) *CQ {
	t.Helper()
	m := newMemory(t, int(size)*len(slot)+4096)
	ring := m.take(int(size) * len(slot))
	q, err := NewCQ(CQConfig{
		Ring: ring, EntrySize: len(slot), Record: m.take(8), Table: &s.table,
		Memory: func(lkey uint32, addr uint64, n int) []byte {
			off := addr - payloadAddr
			if lkey != 7 || off > uint64(len(s.payload)) || uint64(n) > uint64(len(s.payload))-off {
				return nil
			}
			return s.payload[off : off+uint64(n)]
		},
	})
	require.NoError(t, err)
	copy(ring[index%size*uint64(len(slot)):], slot)
	q.ci = index
	return q
}

// prepare posts the work request that the 64-byte CQE e completes.
func (s *setting) prepare(t *testing.T, e []byte, id uint64, opcode *uint8) {
	t.Helper()
	w := cqe.ParseWC((*[cqe.Size]byte)(e))
	if !w.Requester() {
		s.recv(t, w.Counter, id)
		return
	}
	op := OpSend
	for o := range numOps {
		if ops[o].code == wqe.Opcode(w.WQEOpcode) && (w.Opcode != cqe.WCFromPost || opcode == nil || uint8(ops[o].wc) == *opcode) {
			op = o
			break
		}
	}
	s.send(t, w.Counter, op, id)
}

func TestGoldenCQEWC(t *testing.T) {
	vectors.Recorded(t, "libmlx5-cqe-wc", func(t *testing.T, r vectors.Recording) {
		var in struct {
			Index  uint32      `json:"uidx"`
			QPN    uint32      `json:"qpn"`
			Count  uint64      `json:"cqe_index"`
			Size   uint64      `json:"cqe_cnt"`
			Posted uint64      `json:"posted_wr_id"`
			CQE    vectors.Hex `json:"cqe"`
		}
		var want struct {
			WC struct {
				Polled    int         `json:"polled"`
				ID        uint64      `json:"wr_id"`
				Status    uint8       `json:"status"`
				Opcode    *uint8      `json:"opcode"`
				ByteLen   *uint32     `json:"byte_len"`
				Imm       vectors.Hex `json:"imm_wire"`
				SrcQP     *uint32     `json:"src_qp"`
				Flags     *uint8      `json:"wc_flags"`
				SLID      *uint16     `json:"slid"`
				SL        *uint8      `json:"sl"`
				PKeyIndex *uint16     `json:"pkey_index"`
				QPN       uint32      `json:"qp_num"`
				VendorErr uint8       `json:"vendor_err"`
			} `json:"wc"`
			Buffer vectors.Hex `json:"buffer"`
		}
		vectors.Decode(t, r.Inputs, &in)
		vectors.Decode(t, r.Expected, &want)
		s := newSetting(t, in.Index, in.QPN)
		s.prepare(t, in.CQE, in.Posted, want.WC.Opcode)
		q := s.cq(t, in.Size, in.Count, in.CQE)

		var got [2]Completion
		require.Equal(t, want.WC.Polled, q.Poll(got[:]))
		c := &got[0]
		require.Equal(t, want.WC.ID, c.ID)
		require.Equal(t, want.WC.Status, uint8(c.Status))
		require.Equal(t, want.WC.QPN, c.QPN)
		require.Equal(t, want.WC.VendorErr, c.VendorErr)
		require.Equal(t, want.WC.Status == 0, c.Err() == nil)
		if want.WC.Status == 0 {
			require.Equal(t, *want.WC.Opcode, uint8(c.Opcode))
			require.Equal(t, *want.WC.ByteLen, c.ByteLen)
			require.Equal(t, *want.WC.SrcQP, c.SrcQP)
			require.Equal(t, *want.WC.Flags, uint8(c.Flags))
			require.Equal(t, *want.WC.SLID, c.SLID)
			require.Equal(t, *want.WC.SL, c.SL)
			require.Equal(t, *want.WC.PKeyIndex, c.PKeyIndex)
			imm := be.AppendUint32(nil, c.Imm)
			if c.Flags&cqe.WCWithInv != 0 { // the recording has this number in the byte order of its machine
				imm = binary.LittleEndian.AppendUint32(nil, c.Imm)
			}
			require.Equal(t, []byte(want.WC.Imm), imm)
		}
		require.Equal(t, bytes.Repeat([]byte{0xee}, len(s.payload)-len(want.Buffer)), s.payload[len(want.Buffer):])
		require.Equal(t, append([]byte{}, want.Buffer...), s.payload[:len(want.Buffer)])
	})
}

func TestGoldenCQE128WC(t *testing.T) {
	vectors.Recorded(t, "libmlx5-cqe128-wc", func(t *testing.T, r vectors.Recording) {
		var in struct {
			Index  uint32      `json:"uidx"`
			Count  uint64      `json:"cqe_index"`
			Size   uint64      `json:"cqe_cnt"`
			Posted uint64      `json:"posted_wr_id"`
			Slot   vectors.Hex `json:"slot"`
		}
		var want struct {
			StartPoll int         `json:"start_poll"`
			ID        uint64      `json:"wr_id"`
			Status    uint8       `json:"status"`
			Opcode    uint8       `json:"opcode"`
			ByteLen   uint32      `json:"byte_len"`
			Buffer    vectors.Hex `json:"buffer"`
		}
		vectors.Decode(t, r.Inputs, &in)
		vectors.Decode(t, r.Expected, &want)
		require.Len(t, []byte(in.Slot), cqe.Size128)
		require.Zero(t, want.StartPoll, "the library found a completion")
		_, e := cqe.Halves((*[cqe.Size128]byte)(in.Slot))
		s := newSetting(t, in.Index, cqe.ParseWC(e).QPN)
		s.prepare(t, e[:], in.Posted, &want.Opcode)
		q := s.cq(t, in.Size, in.Count, in.Slot)

		var got [2]Completion
		require.Equal(t, 1, q.Poll(got[:]))
		c := &got[0]
		require.Equal(t, want.ID, c.ID)
		require.Equal(t, want.Status, uint8(c.Status))
		require.Equal(t, want.Opcode, uint8(c.Opcode))
		require.Equal(t, want.ByteLen, c.ByteLen)
		require.Equal(t, []byte(want.Buffer), s.payload[:len(want.Buffer)])
	})
}
