//go:build linux && (amd64 || arm64)

package replay_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/replay"
	"github.com/stretchr/testify/require"
)

// Failures of all kinds replay: completions with errors, and what is flushed after them on both sides.
func TestFailures(t *testing.T) {
	for name, fail := range map[string]func(a, b *side){
		"remote key": func(a, b *side) {
			a.send(nicless.SendWR{Op: nicless.Write, SGE: []nicless.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey() + 1})
		},
		"remote bounds": func(a, b *side) {
			a.send(nicless.SendWR{Op: nicless.Read, SGE: []nicless.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + 1<<20 - 4, RKey: b.mr.RKey()})
		},
		"local key": func(a, b *side) {
			a.send(nicless.SendWR{Op: nicless.Write, SGE: []nicless.SGE{{Addr: a.mr.Addr(), Length: 8, LKey: a.mr.LKey() ^ 0x100}}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
		},
		"receive too short": func(a, b *side) {
			a.send(nicless.SendWR{Op: nicless.Send, SGE: []nicless.SGE{a.mr.SGE(0, 100)}})
		},
		"misaligned atomic": func(a, b *side) {
			a.send(nicless.SendWR{Op: nicless.FetchAdd, SwapAdd: 1, SGE: []nicless.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + 4, RKey: b.mr.RKey()})
		},
		"key that is gone": func(a, b *side) {
			mr, err := b.pd.RegisterMemory(4096, nicless.FullAccess)
			require.NoError(t, err)
			wr := nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, SGE: []nicless.SGE{a.mr.SGE(0, 8)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()}
			a.send(wr)
			a.wait(1)
			require.NoError(t, mr.Close())
			a.send(wr)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := same(t, record(t, 2, true, func(c []*nicless.Context) {
				a, b := newSide(t, c[0], nicless.QPConfig{}, nicless.CQConfig{}), newSide(t, c[1], nicless.QPConfig{}, nicless.CQConfig{})
				require.NoError(t, nicless.Pair(a.qp, b.qp, nicless.Connection{}))
				a.fill(3, 0, 100)
				for range 3 {
					require.NoError(t, b.qp.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{b.mr.SGE(0, 16)}}))
				}
				fail(a, b)
				require.Error(t, a.wait(1)[0].Err())
				for range 2 {
					a.send(nicless.SendWR{Op: nicless.Write, SGE: []nicless.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
				}
				for _, w := range a.wait(2) {
					require.Error(t, w.Err())
				}
				if name != "local key" {
					for _, w := range b.wait(3) {
						require.Error(t, w.Err())
					}
				}
			}))
			require.GreaterOrEqual(t, r.CQEs, uint64(3))
		})
	}
}

// Receives of a shared queue, datagrams, queues that are reset, and completion queues of other kinds.
func TestKindsOfQueues(t *testing.T) {
	t.Run("srq", func(t *testing.T) {
		same(t, record(t, 2, true, func(c []*nicless.Context) {
			b0 := newSide(t, c[1], nicless.QPConfig{}, nicless.CQConfig{})
			srq, err := b0.pd.CreateSRQ(nicless.SRQConfig{})
			require.NoError(t, err)
			for i := range 30 {
				require.NoError(t, srq.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{b0.mr.SGE(i*1000, 1000)}}))
			}
			for k := range 2 {
				a := newSide(t, c[0], nicless.QPConfig{}, nicless.CQConfig{})
				q, err := b0.pd.CreateQP(nicless.QPConfig{SendCQ: b0.cq, SRQ: srq})
				require.NoError(t, err)
				require.NoError(t, nicless.Pair(a.qp, q, nicless.Connection{}))
				a.fill(byte(k), 0, 1000)
				for i := range 10 {
					a.send(nicless.SendWR{Op: nicless.Send, Flags: nicless.Signaled, SGE: []nicless.SGE{a.mr.SGE(0, 10+i*90)}})
				}
				a.wait(10)
				b0.wait(10)
			}
		}))
	})
	for name, cfg := range map[string]nicless.CQConfig{"compressed": {Compressed: true}, "128 bytes": {Size128: true}, "small": {Entries: 8}} {
		t.Run(name, func(t *testing.T) {
			same(t, record(t, 2, true, func(c []*nicless.Context) {
				a, b := newSide(t, c[0], nicless.QPConfig{}, cfg), newSide(t, c[1], nicless.QPConfig{}, cfg)
				require.NoError(t, nicless.Pair(a.qp, b.qp, nicless.Connection{}))
				for i := range 40 {
					a.fill(byte(i), 0, 64)
					wr := nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, SGE: []nicless.SGE{a.mr.SGE(0, 64)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
					_, err := a.qp.PostSendList([]nicless.SendWR{wr, wr, wr})
					require.NoError(t, err)
					a.wait(3)
				}
			}))
		})
	}
	t.Run("reset", func(t *testing.T) {
		same(t, record(t, 2, true, func(c []*nicless.Context) {
			a, b := newSide(t, c[0], nicless.QPConfig{}, nicless.CQConfig{}), newSide(t, c[1], nicless.QPConfig{}, nicless.CQConfig{})
			for i := range 3 {
				require.NoError(t, nicless.Pair(a.qp, b.qp, nicless.Connection{}))
				a.fill(byte(i), 0, 5000)
				a.send(nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, SGE: []nicless.SGE{a.mr.SGE(0, 5000)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
				a.wait(1)
				for _, q := range []*nicless.QP{a.qp, b.qp} {
					require.NoError(t, q.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateRST}))
					require.NoError(t, q.Modify(&nicless.Attr{Mask: nicless.AttrState | nicless.AttrPKeyIndex | nicless.AttrPort | nicless.AttrAccess, State: nicless.StateINIT, Port: 1, Access: nicless.RemoteWrite}))
				}
			}
		}))
	})
}

// rewrite returns a trace with one event changed: the first for which change returns true.
func rewrite(t *testing.T, b []byte, change func(e *trace.Event) bool) []byte {
	r, err := trace.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	var out bytes.Buffer
	w, err := trace.NewWriter(&out, r.Clock())
	require.NoError(t, err)
	changed := false
	for {
		var e trace.Event
		err := r.Next(&e)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if e.Kind == trace.KindEnd {
			break
		}
		e.Data = bytes.Clone(e.Data)
		changed = changed || change(&e)
		require.NoError(t, w.Write(&e))
	}
	require.True(t, changed)
	require.NoError(t, w.Close(0, false))
	return out.Bytes()
}

// A byte of the trace that is not what the device does is found, and named.
func TestPlantedDifferences(t *testing.T) {
	b := record(t, 2, true, talk(t, nicless.RC))
	same(t, b)
	seen := 0
	for name, c := range map[string]struct {
		change      func(e *trace.Event) bool
		where, what string
		field       string
	}{
		"byte count": {func(e *trace.Event) bool {
			if e.Kind != trace.KindCQE || cqe.OpOwn(e.Data[63]).Opcode() != cqe.RespSendImm {
				return false
			}
			binary.BigEndian.PutUint32(e.Data[44:], binary.BigEndian.Uint32(e.Data[44:])+1)
			return true
		}, "cq 0x", "the completion differs", "byte_cnt"},
		"payload": {func(e *trace.Event) bool {
			if e.Kind != trace.KindPayload || len(e.Data) < 1000 {
				return false
			}
			e.Data[777] ^= 1
			return true
		}, "wqe 0", "differ at the destination", "checksum"},
		"missing completion": {func(e *trace.Event) bool {
			if e.Kind == trace.KindCQE {
				seen++
			}
			if e.Kind != trace.KindCQE || seen != 3 {
				return false
			}
			e.Kind = trace.KindLink // says nothing to a replay
			return true
		}, "cq 0x", "that the trace does not have", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := replay.Run(bytes.NewReader(rewrite(t, b, c.change)), replay.Options{})
			require.NoError(t, err)
			require.False(t, r.Same())
			all := ""
			for _, d := range r.Differences {
				all += d.String() + "\n"
			}
			require.Contains(t, all, c.where)
			require.Contains(t, all, c.what)
			require.Contains(t, all, c.field)
		})
	}
}

// Traces that cannot be replayed are refused with the reason.
func TestRefused(t *testing.T) {
	plain := record(t, 2, false, talk(t, nicless.RC))
	_, err := replay.Run(bytes.NewReader(plain), replay.Options{})
	require.ErrorIs(t, err, replay.ErrNotRecorded)

	b := record(t, 2, true, talk(t, nicless.RC))
	_, err = replay.Run(bytes.NewReader(b[:len(b)/2]), replay.Options{})
	require.Error(t, err)
	require.ErrorIs(t, err, trace.ErrCut)
	other := bytes.Clone(b)
	other[8] = 2
	_, err = replay.Run(bytes.NewReader(other), replay.Options{})
	require.ErrorContains(t, err, "version 2; this program reads version 1")
	lost := rewrite(t, b, func(e *trace.Event) bool {
		if e.Kind != trace.KindExecute {
			return false
		}
		*e = trace.Event{Kind: trace.KindLost, Time: e.Time, Value: 3}
		return true
	})
	_, err = replay.Run(bytes.NewReader(lost), replay.Options{})
	require.ErrorContains(t, err, "3 events of the trace were lost")

	// Without the peer, the queue pair is left out.
	first := uint32(0)
	alone := rewrite(t, b, func(e *trace.Event) bool {
		if e.Kind == trace.KindQueue && first == 0 {
			first = e.Queue
		}
		if e.Kind == trace.KindQueue && e.Queue != first {
			e.Kind = trace.KindLink
		}
		return e.Kind == trace.KindClientGone // after that, nothing is changed
	})
	r, err := replay.Run(bytes.NewReader(alone), replay.Options{})
	require.NoError(t, err)
	require.Len(t, r.LeftOut, 1)
	require.Contains(t, r.LeftOut[0].Why, "is not in the trace")
	require.Zero(t, r.WQEs)
}

// replayDamaged replays a trace that may say anything.
func replayDamaged(b []byte) {
	_, _ = replay.Run(bytes.NewReader(b), replay.Options{Patience: time.Millisecond})
}

// A trace that says anything else at any place makes no replay fail otherwise than with an error or a
// difference.
func TestDamaged(t *testing.T) {
	devx, err := os.ReadFile("../../testdata/replays/devx_queues.nictrace")
	require.NoError(t, err)
	for _, b := range [][]byte{record(t, 2, true, talk(t, nicless.RC)), devx} {
		random := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			damaged := bytes.Clone(b)
			for range 1 + random.IntN(4) {
				at := trace.FileHeadSize + random.IntN(min(len(b)-trace.FileHeadSize, 30_000))
				damaged[at] = byte(random.Uint32())
			}
			replayDamaged(damaged)
		}
	}
}
