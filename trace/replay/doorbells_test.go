//go:build linux && (amd64 || arm64)

package replay_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/replay"
	"github.com/stretchr/testify/require"
)

// Queues that registers start, guarded ones, and those whose completions are collapsed, work again in a
// replay, through several laps of their rings.
func TestDoorbells(t *testing.T) {
	for name, cfg := range map[string]nicless.QPConfig{
		"register": {Doorbells: nicless.DoorbellRegister},
		"guarded":  {Doorbells: nicless.DoorbellGuarded},
	} {
		for how, cq := range map[string]nicless.CQConfig{"": {}, ", collapsed": {Collapsed: true}} {
			t.Run(name+how, func(t *testing.T) {
				b := record(t, 2, true, laps(t, cfg, cq))
				require.Equal(t, trace.Doorbells(cfg.Doorbells), setups(t, b)[0].Doorbells)
				r := same(t, b)
				require.EqualValues(t, 2*lapsWQEs, r.WQEs)
				require.Zero(t, r.Unseen)
			})
		}
	}
}

// lapsWQEs is how many WQEs each connection of laps has: rings of 8 blocks go round many times.
const lapsWQEs = 100

// laps makes two clients write, one to the other, on two connections: the two queue pairs of one client share
// its register in a replay.
func laps(t *testing.T, cfg nicless.QPConfig, cq nicless.CQConfig) func([]*nicless.Context) {
	return func(c []*nicless.Context) {
		cfg.Type, cfg.MaxSendWR = nicless.RC, 8
		a, b := newSide(t, c[0], cfg, cq), newSide(t, c[1], cfg, cq)
		other, last := newSide(t, c[0], cfg, cq), newSide(t, c[1], cfg, cq)
		require.NoError(t, nicless.Pair(a.qp, b.qp, nicless.Connection{}))
		require.NoError(t, nicless.Pair(other.qp, last.qp, nicless.Connection{}))
		for i := range lapsWQEs {
			for _, s := range [][2]*side{{a, b}, {other, last}} {
				s[0].fill(byte(i), 0, 1000+i)
				s[0].send(nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled,
					SGE: []nicless.SGE{s[0].mr.SGE(0, 1000+i)}, RemoteAddr: s[1].mr.Addr() + 4096, RKey: s[1].mr.RKey()})
				if !cq.Collapsed {
					s[0].wait(1)
					continue
				}
				done := make([]nicless.Completion, 1)
				await.Until(t, "a completion", func() bool {
					n, err := s[0].cq.Poll(done)
					require.NoError(t, err)
					return n == 1
				})
			}
		}
	}
}

// setups returns how the queue pairs of a trace were made.
func setups(t *testing.T, b []byte) (all []trace.QueueSetup) {
	t.Helper()
	changed(t, b, func(e *trace.Event) {
		if s, ok := trace.ParseQueueSetup(e.Data); ok && e.Kind == trace.KindQueue {
			all = append(all, s)
		}
	})
	require.NotEmpty(t, all)
	return all
}

// changed returns a trace whose events a function has changed.
func changed(t *testing.T, b []byte, change func(e *trace.Event)) []byte {
	t.Helper()
	in, err := trace.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	var to bytes.Buffer
	out, err := trace.NewWriter(&to, in.Clock())
	require.NoError(t, err)
	for {
		var e trace.Event
		err := in.Next(&e)
		if err == io.EOF || e.Kind == trace.KindEnd {
			break
		}
		require.NoError(t, err)
		e.Data = bytes.Clone(e.Data)
		change(&e)
		require.NoError(t, out.Write(&e))
	}
	require.NoError(t, out.Close(0, false))
	return to.Bytes()
}

// A queue pair without a send queue takes messages in a replay. WQEs that a damaged trace has of it are
// passed over.
func TestNoSends(t *testing.T) {
	b := record(t, 2, true, func(c []*nicless.Context) {
		a := newSide(t, c[0], nicless.QPConfig{Type: nicless.RC}, nicless.CQConfig{})
		b := newSide(t, c[1], nicless.QPConfig{Type: nicless.RC}, nicless.CQConfig{})
		require.NoError(t, nicless.Pair(a.qp, b.qp, nicless.Connection{}))
		for i := range 40 {
			require.NoError(t, b.qp.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{b.mr.SGE(i*64, 64)}}))
			a.send(nicless.SendWR{Op: nicless.Send, Flags: nicless.Signaled, SGE: []nicless.SGE{a.mr.SGE(i, 64)}})
			a.wait(1)
			b.wait(1)
		}
	})
	senders := map[uint32]bool{}
	changed(t, b, func(e *trace.Event) { senders[e.Queue] = senders[e.Queue] || e.Kind == trace.KindFetch })
	without := func(of bool) []byte {
		return changed(t, b, func(e *trace.Event) {
			info, err := trace.ParseQueueInfo(e.Data)
			if e.Kind != trace.KindQueue || senders[e.Queue] != of || err != nil {
				return
			}
			s, _ := trace.ParseQueueSetup(e.Data)
			s.Flags |= trace.NoSends
			e.Data = s.Append(info.Append(nil))
		})
	}
	require.EqualValues(t, 40, same(t, without(false)).Messages)
	r, err := replay.Run(bytes.NewReader(without(true)), replay.Options{})
	require.NoError(t, err)
	require.Zero(t, r.WQEs)
	require.False(t, r.Same(), "its completions are missing")
}
