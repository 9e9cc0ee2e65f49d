//go:build linux && (amd64 || arm64)

package engine

import (
	"bytes"
	"math/bits"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// flips are rules that flip a bit: one that says which, one beyond the end, one that is drawn.
func flips(match fault.Match) []fault.Rule {
	at, beyond, bit := fault.Number(13), fault.Number(1<<40), uint8(6)
	return []fault.Rule{{Match: match, Flip: &fault.Flip{Byte: &at, Bit: &bit}},
		{Match: match, Flip: &fault.Flip{Byte: &beyond}}, {Match: match, Flip: new(fault.Flip)}}
}

// flippedOnce requires that got is want with one wrong bit, the one that rule number n of flips says.
func (r *rig) flippedOnce(want, got []byte, n int) {
	r.Helper()
	require.Len(r, got, len(want))
	wrong, at := 0, 0
	for i := range want {
		if d := want[i] ^ got[i]; d != 0 {
			wrong += bits.OnesCount8(d)
			at = i
		}
	}
	require.Equal(r, 1, wrong, "bits")
	switch n {
	case 0:
		require.Equal(r, 13, at)
		require.Equal(r, want[13]^1<<6, got[13])
	case 1:
		require.Equal(r, len(want)-1, at)
	}
}

// One bit of what arrives is wrong, of each operation, and nothing else: not the source, and not what the
// queue does next.
func TestRuleFlipsABit(t *testing.T) {
	for n := range flips(first) {
		for name, op := range map[string]wqe.Opcode{"WRITE": wqe.OpRDMAWrite, "inline": wqe.OpRDMAWrite,
			"SEND": wqe.OpSend, "READ": wqe.OpRDMARead} {
			everywhere(t, func(t *testing.T, s *scene) {
				rule := flips(first)[n]
				set := s.setFaults(rule)
				s.q.recv(s.far.data(0, 9), s.far.data(9, 60))
				near, far := bytes.Clone(s.local.mem), bytes.Clone(s.far.mem)
				from, to := near[:40], s.far.mem[:40]
				switch name {
				case "SEND":
					s.p.post(ctrl(op), s.local.data(0, 11), s.local.data(11, 29))
				case "inline":
					s.p.post(ctrl(op), s.far.raddr(0), near[:40])
				case "READ":
					from, to = far[:40], s.local.mem[:40]
					s.p.post(ctrl(op), s.far.raddr(0), s.local.data(0, 3), s.local.data(3, 37))
				default:
					s.p.post(ctrl(op), s.far.raddr(0), s.local.data(0, 40))
				}
				s.settle()
				w := s.p.scq.one()
				require.Equal(t, cqe.StatusSuccess, w.Status)
				s.flippedOnce(from, to, n)
				if name == "READ" {
					require.Equal(t, far, s.far.mem)
				} else {
					require.Equal(t, near, s.local.mem)
				}
				require.EqualValues(t, 1, set.Acted(0))
				if name == "SEND" {
					require.Equal(t, cqe.StatusSuccess, s.q.rcq.one().Status)
				}
				s.works()
			})
		}
	}
}

// The bit of a transfer of several slices, or packets, is flipped once.
func TestRuleFlipsABitOfALongTransfer(t *testing.T) {
	for n := range flips(first) {
		for _, op := range []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpRDMARead} {
			everywhere(t, func(t *testing.T, s *scene) {
				const size = 150_000
				s.setFaults(flips(first)[n])
				a, b := s.p.h.full(size, 1), s.q.h.full(size, 100)
				from, to := a, b
				if op == wqe.OpRDMARead {
					from, to = b, a
				}
				want := bytes.Clone(from.mem)
				s.p.post(ctrl(op), b.raddr(0), a.data(0, size))
				s.settle()
				require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
				require.True(t, bytes.Equal(want, from.mem))
				s.flippedOnce(want, to.mem, n)
				s.works()
			})
		}
	}
}

// The bit is flipped in memory that the device does not map, in data that come in CQEs, and in datagrams.
func TestRuleFlipsABitAnywhere(t *testing.T) {
	for n := range flips(first) {
		t.Run("unmapped", func(t *testing.T) {
			keysAway = true
			defer func() { keysAway = false }()
			s := newScene(t, Config{})
			s.setFaults(flips(first)[n])
			want := bytes.Clone(s.local.mem[:100])
			s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 100))
			s.settle()
			require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
			require.Equal(t, want, s.local.mem[:100])
			s.flippedOnce(want, s.far.mem[:100], n)
		})
		t.Run("in a CQE", func(t *testing.T) {
			p, q := carrying(t, control.QPTypeRC, 6)
			s := &scene{rig: p.h.rig, p: p, q: q, local: p.h.full(256, 1), far: q.h.full(256, 7)}
			s.setFaults(flips(first)[n])
			before := bytes.Clone(s.far.mem)
			q.recv(s.far.data(0, 64))
			p.post(ctrl(wqe.OpSend), s.local.data(0, 20))
			s.settle()
			got, w := q.rcq.carried()
			require.Equal(t, cqe.StatusSuccess, w.Status)
			s.flippedOnce(s.local.mem[:20], got, n)
			require.Equal(t, before, s.far.mem)
		})
		t.Run("datagram", func(t *testing.T) {
			r := newRig(t, Config{})
			a, b := r.host("p"), r.host("q")
			p, q := pairOf(control.QPTypeUD, a, b)
			s := &scene{rig: r, p: p, q: q, local: a.full(256, 1), far: b.full(256, 7)}
			s.setFaults(flips(first)[n])
			for i := range 2 {
				q.recv(s.far.data(128*i, 128))
				p.post(ctrl(wqe.OpSend), q.to(), s.local.data(0, 30))
			}
			s.settle()
			require.Len(t, q.rcq.all(), 2)
			s.flippedOnce(s.local.mem[:30], s.far.mem[40:70], n)
			require.Equal(t, s.local.mem[:30], s.far.mem[168:198])
		})
	}
}

// The explanation says which rule has flipped a bit.
func TestFlipIsExplained(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		next := s.p.h.events()
		rule := flips(fault.Match{})[0]
		rule.Name = "rot"
		s.setFaults(rule)
		index := s.put()
		s.settle()
		e := next()
		require.NotNil(t, e)
		require.Equal(t, index, e.Index)
		require.Contains(t, string(e.Code[:]), codes.FaultInjected.String())
		require.Equal(t, `injected by rule "rot" (a bit of the payload is flipped)`, e.Text)
		require.Nil(t, next())
	})
}
