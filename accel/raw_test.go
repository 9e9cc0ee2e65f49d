package accel_test

import (
	"encoding/hex"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// rawQP returns a queue pair for use through Raw, and its peer.
func (l *lab) rawQP(t *testing.T, sends int) (qp, peer *nicless.QP) {
	t.Helper()
	create := func() *nicless.QP {
		cq, err := l.ctx.CreateCQ(nicless.CQConfig{Entries: 64, PollOnly: true})
		require.NoError(t, err)
		qp, err := l.pd.CreateQP(nicless.QPConfig{
			SendCQ: cq, MaxSendWR: sends, MaxSendSGE: 1, MaxInline: 12, MaxRecvSGE: 1,
		})
		require.NoError(t, err)
		return qp
	}
	qp, peer = create(), create()
	require.NoError(t, nicless.Pair(qp, peer, nicless.Connection{}))
	return qp, peer
}

// RDMaxcel's functions do the same on the host, in a kernel and by a launch. The test goes
// around the ring more than once, with counts of more than 16 bits.
func TestRDMaxcel(t *testing.T) {
	l := newLab(t, 4096, accel.Config{})
	var post func(accel.WQEParams) error
	var ring func(dst, src []byte) error
	var poll func(accel.CQEPollParams) (int32, error)
	for _, way := range []struct {
		name string
		use  func()
		n    int // number of WQEs
	}{
		{"host", func() {
			post, poll = accel.SendWQE, accel.PollCQE
			ring = func(dst, src []byte) error { accel.RingDB(dst, src); return nil }
		}, 1<<16 + 10},
		{"launch", func() { post, ring, poll = l.stream.LaunchSendWQE, l.stream.LaunchRingDB, l.stream.LaunchPollCQE }, 40},
	} {
		t.Run(way.name, func(t *testing.T) {
			way.use()
			qp, _ := l.rawQP(t, 16)
			raw, err := qp.Raw()
			require.NoError(t, err)
			for i := range way.n {
				l.mem.Store(0, uint64(i)+1)
				p := raw.SendParams()
				p.WRID, p.OpType, p.Signaled = uint64(i), wqe.OpRDMAWrite, true
				p.LAddr, p.LKey, p.Length = l.mem.Ref(0).Addr, l.mem.Ref(0).Key, 8
				p.RAddr, p.RKey = l.far.Ref(0).Addr, l.far.Ref(0).Key
				require.NoError(t, post(p))
				slot := 64 * (i % int(p.WQECnt))
				require.NoError(t, ring(raw.Register, raw.Send[slot:slot+64]))
				n := int32(accel.CQENone)
				for n == accel.CQENone {
					n, err = poll(raw.SendCQ.PollParams(uint32(i)))
					require.NoError(t, err)
				}
				require.Zero(t, n)
				require.Equal(t, uint64(i)+1, l.far.Load(0))
			}
		})
	}
	t.Run("kernel", func(t *testing.T) {
		qp, _ := l.rawQP(t, 16)
		raw, err := qp.Raw()
		require.NoError(t, err)
		require.NoError(t, l.run(t, 1, 1, func(th *accel.Thread) {
			for i := range 100 {
				l.mem.Store(0, uint64(i)+1)
				p := raw.SendParams()
				p.WRID, p.OpType, p.Signaled = uint64(i), wqe.OpRDMAWrite, true
				p.LAddr, p.LKey, p.Length = l.mem.Ref(0).Addr, l.mem.Ref(0).Key, 8
				p.RAddr, p.RKey = l.far.Ref(0).Addr, l.far.Ref(0).Key
				th.SendWQE(p)
				th.RingDB(raw.Register, raw.Send[64*(i%int(p.WQECnt)):])
				for th.PollCQE(raw.SendCQ.PollParams(uint32(i))) == accel.CQENone {
				}
			}
		}))
		require.EqualValues(t, 100, l.far.Load(0))
	})
}

// This is the order in which RDMaxcel posts: each post updates the record, and N writes to
// the register follow later.
func TestRingsAfterPosts(t *testing.T) {
	const n = 8
	l := newLab(t, 4096, accel.Config{})
	qp, peer := l.rawQP(t, 16)
	raw, err := qp.Raw()
	require.NoError(t, err)
	far, err := peer.Raw()
	require.NoError(t, err)
	for i := range n {
		p := far.RecvParams()
		p.WRID, p.LAddr, p.LKey, p.Length = uint64(i), l.far.Ref(64*i).Addr, l.far.Ref(0).Key, 64
		require.NoError(t, accel.RecvWQE(p))
	}
	for i := range n {
		l.mem.Bytes()[8*i] = byte('a' + i)
		p := raw.SendParams()
		p.WRID, p.OpType, p.Signaled = uint64(i), wqe.OpRDMAWriteImm, true
		p.LAddr, p.LKey, p.Length = l.mem.Ref(8*i).Addr, l.mem.Ref(0).Key, 8
		p.RAddr, p.RKey = l.far.Ref(1024+8*i).Addr, l.far.Ref(0).Key
		require.NoError(t, l.stream.LaunchSendWQE(p))
	}
	for i := range n {
		require.NoError(t, l.stream.LaunchRingDB(raw.Register, raw.Send[64*i:64*i+64]))
	}
	for _, cq := range []nicless.RawCQ{raw.SendCQ, far.RecvCQ} {
		for i := range n {
			got := int32(accel.CQENone)
			for got == accel.CQENone {
				got, err = l.stream.LaunchPollCQE(cq.PollParams(uint32(i)))
				require.NoError(t, err)
			}
			require.GreaterOrEqual(t, got, int32(0))
		}
	}
	for i := range n {
		require.Equal(t, byte('a'+i), l.far.Bytes()[1024+8*i])
	}
	counts := hex.EncodeToString(raw.Record)[8:] + hex.EncodeToString(far.Record)[:8]
	require.Equal(t, "00000008"+"00000008", counts)
}

func TestRawRefuses(t *testing.T) {
	l := newLab(t, 4096, accel.Config{})
	qp, _ := l.rawQP(t, 16)
	raw, err := qp.Raw()
	require.NoError(t, err)
	p := raw.SendParams()
	p.WQECnt = 3
	require.ErrorContains(t, accel.SendWQE(p), "wqe_cnt: 3; a power of two up to 32768 is possible")
	p = raw.SendParams()
	p.Buf = p.Buf[:64]
	require.EqualError(t, accel.SendWQE(p), "hostpath: ring of 64 bytes; 16 entries need 1024")
	p = raw.SendParams()
	p.DBRec = p.DBRec[:4]
	require.EqualError(t, accel.RecvWQE(p), "hostpath: doorbell record of 4 bytes; 8 are needed")
	c := raw.SendCQ.PollParams(0)
	c.CQESize = 32
	_, err = accel.PollCQE(c)
	require.EqualError(t, err, "hostpath: cqe_size 32; 64 and 128 are possible")
	err = l.run(t, 1, 1, func(th *accel.Thread) { th.PollCQE(c) })
	require.EqualError(t, err, "accel: kernel, block 0, thread 0: PollCQE: hostpath: cqe_size 32; 64 and 128 are possible")
	_, err = qp.Export()
	require.ErrorContains(t, err, "made without Concurrent")
}
