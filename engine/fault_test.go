package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A scene is two connected queue pairs of two clients, with memory of both, and another
// connected pair of the same clients whose work is independent.
type scene struct {
	*rig
	p, q        *end // p is the requester, q the responder
	local, far  *key // 256 bytes each, with all rights
	idle1, idle *end
}

func newScene(t testing.TB, cfg Config) *scene {
	t.Helper()
	r, p, q := duo(t, cfg)
	s := &scene{rig: r, p: p, q: q, local: p.h.full(256, 1), far: q.h.full(256, 7)}
	s.idle1, s.idle = pair(p.h, q.h)
	return s
}

const unharmed = cqe.Syndrome(0)

type mistake struct {
	name string
	op   wqe.Opcode
	// lay returns the segments of the WQE that fails.
	lay func(s *scene) []any
	// prepare makes all other changes that the fault needs.
	prepare func(s *scene)

	requester cqe.Syndrome
	receive   cqe.Syndrome // syndrome of the responder's receive; 0: none is consumed
	responder bool         // the responder goes to error as well
}

func mistakes() []mistake {
	write := func(f func(s *scene) wqe.Data) func(s *scene) []any {
		return func(s *scene) []any { return []any{s.far.raddr(0), f(s)} }
	}
	remote := func(f func(s *scene) wqe.Raddr) func(s *scene) []any {
		return func(s *scene) []any { return []any{f(s), s.local.data(0, 16)} }
	}
	good := func(s *scene) []any { return []any{s.far.raddr(0), s.local.data(0, 16)} }
	message := func(s *scene) []any { return []any{s.local.data(0, 16)} }
	deny := func(right uint32) func(s *scene) {
		return func(s *scene) {
			s.q.modify(control.QPAttr{QPN: s.q.num, Mask: control.AttrState | control.AttrAccess, State: control.StateRTS,
				Access: (control.AccessAll &^ control.AccessZeroBased) &^ right})
		}
	}
	// rights makes memory of the responder whose key has only the rights in a, and gives its
	// remote address.
	rights := func(a uint32) func(s *scene) wqe.Raddr {
		return func(s *scene) wqe.Raddr { return s.q.h.key(64, a).raddr(0) }
	}
	stranger := func(h *host) uint32 { // makes a key of the same client in another protection domain
		_, addr := h.take(64)
		return h.reg(h.allocPD(), addr, 64, control.AccessLocalWrite|control.AccessRemoteWrite|control.AccessRemoteRead)
	}
	receive := func(d ...wqe.Data) func(s *scene) { return func(s *scene) { s.q.recv(d...) } }
	list := func(f func(s *scene) []wqe.Data) func(s *scene) { return func(s *scene) { s.q.recv(f(s)...) } }

	return []mistake{
		// Faults of local memory, 0x04.
		{"gather key unknown", wqe.OpRDMAWrite, write(func(s *scene) wqe.Data { return wqe.Data{ByteCount: 8, LKey: 0x12300, Addr: s.local.addr} }), nil, cqe.LocalProtection, 0, false},
		{"gather key 0x100", wqe.OpRDMAWrite, write(func(s *scene) wqe.Data { return wqe.Data{ByteCount: 8, LKey: 0x100, Addr: s.local.addr} }), nil, cqe.LocalProtection, 0, false},
		{"gather key of another variant", wqe.OpSend, func(s *scene) []any {
			d := s.local.data(0, 8)
			d.LKey ^= 1
			return []any{d}
		}, nil, cqe.LocalProtection, 0, false},
		{"gather key of the peer", wqe.OpRDMAWrite, write(func(s *scene) wqe.Data { return s.far.data(0, 8) }), nil, cqe.LocalProtection, 0, false},
		{"gather key of another domain", wqe.OpRDMAWrite, write(func(s *scene) wqe.Data {
			d := s.local.data(0, 8)
			d.LKey = stranger(s.p.h)
			return d
		}), nil, cqe.LocalProtection, 0, false},
		{"gather one byte too many", wqe.OpRDMAWrite, write(func(s *scene) wqe.Data { return s.local.data(0, 257) }), nil, cqe.LocalProtection, 0, false},
		{"gather one byte past the end", wqe.OpRDMAWrite, write(func(s *scene) wqe.Data { return s.local.data(256, 1) }), nil, cqe.LocalProtection, 0, false},
		{"gather one byte before", wqe.OpRDMAWrite, write(func(s *scene) wqe.Data { return s.local.data(-1, 1) }), nil, cqe.LocalProtection, 0, false},
		{"gather around the address space", wqe.OpRDMAWrite, write(func(s *scene) wqe.Data {
			return wqe.Data{ByteCount: 0x7fffffff, LKey: s.local.key, Addr: ^uint64(0) - 5}
		}), nil, cqe.LocalProtection, 0, false},
		{"second piece bad", wqe.OpRDMAWrite, func(s *scene) []any {
			return []any{s.far.raddr(0), s.local.data(0, 8), s.local.data(255, 2)}
		}, nil, cqe.LocalProtection, 0, false},
		{"READ into a key without local write", wqe.OpRDMARead, func(s *scene) []any {
			return []any{s.far.raddr(0), s.p.h.key(64, control.AccessRemoteRead).data(0, 8)}
		}, nil, cqe.LocalProtection, 0, false},
		{"READ into a key unknown", wqe.OpRDMARead, func(s *scene) []any {
			return []any{s.far.raddr(0), s.local.data(0, 8), wqe.Data{ByteCount: 200, LKey: 0x12300}, s.local.data(8, 8)}
		}, nil, cqe.LocalProtection, 0, false},
		// Faults of the WQE itself, 0x02 and 0x01.
		{"WRITE without remote address", wqe.OpRDMAWrite, func(*scene) []any { return nil }, nil, cqe.LocalQPOp, 0, false},
		{"WRITE_IMM without remote address", wqe.OpRDMAWriteImm, func(*scene) []any { return nil }, nil, cqe.LocalQPOp, 0, false},
		{"READ without remote address", wqe.OpRDMARead, func(*scene) []any { return nil }, nil, cqe.LocalQPOp, 0, false},
		{"READ with inline data", wqe.OpRDMARead, func(s *scene) []any { return []any{s.far.raddr(0), []byte("data")} }, nil, cqe.LocalQPOp, 0, false},
		{"inline data past ds", wqe.OpRDMAWrite, func(s *scene) []any {
			return []any{s.far.raddr(0), wqe.Data{ByteCount: wqe.InlineFlag | 13}}
		}, nil, cqe.LocalQPOp, 0, false},
		{"inline data far past ds", wqe.OpSend, func(s *scene) []any {
			return []any{wqe.Data{ByteCount: wqe.InlineFlag | 0x3ff}}
		}, nil, cqe.LocalQPOp, 0, false},
		{"an opcode that no device has", 0x7f, good, nil, cqe.LocalQPOp, 0, false},
		// Faults of remote memory, 0x13.
		{"remote key unknown", wqe.OpRDMAWrite, remote(func(s *scene) wqe.Raddr { return wqe.Raddr{Addr: s.far.addr, RKey: 0x4560000} }), nil, cqe.RemoteAccess, 0, true},
		{"remote key of another variant", wqe.OpRDMARead, remote(func(s *scene) wqe.Raddr { return wqe.Raddr{Addr: s.far.addr, RKey: s.far.key ^ 0x80} }), nil, cqe.RemoteAccess, 0, true},
		{"remote key of the requester", wqe.OpRDMAWrite, remote(func(s *scene) wqe.Raddr { return s.local.raddr(0) }), nil, cqe.RemoteAccess, 0, true},
		{"remote key of another domain", wqe.OpRDMAWrite, remote(func(s *scene) wqe.Raddr {
			r := s.far.raddr(0)
			r.RKey = stranger(s.q.h)
			return r
		}), nil, cqe.RemoteAccess, 0, true},
		{"WRITE one byte past the end", wqe.OpRDMAWrite, remote(func(s *scene) wqe.Raddr { return s.far.raddr(241) }), nil, cqe.RemoteAccess, 0, true},
		{"READ one byte past the end", wqe.OpRDMARead, remote(func(s *scene) wqe.Raddr { return s.far.raddr(241) }), nil, cqe.RemoteAccess, 0, true},
		{"WRITE one byte before", wqe.OpRDMAWrite, remote(func(s *scene) wqe.Raddr { return s.far.raddr(-1) }), nil, cqe.RemoteAccess, 0, true},
		{"WRITE around the address space", wqe.OpRDMAWrite, remote(func(s *scene) wqe.Raddr { return wqe.Raddr{Addr: ^uint64(0) - 7, RKey: s.far.key} }), nil, cqe.RemoteAccess, 0, true},
		{"WRITE without remote write", wqe.OpRDMAWrite, remote(rights(control.AccessLocalWrite | control.AccessRemoteRead)), nil, cqe.RemoteAccess, 0, true},
		{"READ of an unknown key into an unknown key", wqe.OpRDMARead, func(s *scene) []any {
			return []any{wqe.Raddr{Addr: s.far.addr, RKey: 0x4560000}, wqe.Data{ByteCount: 8, LKey: 0x12300, Addr: s.local.addr}}
		}, nil, cqe.RemoteAccess, 0, true},
		{"READ without remote read", wqe.OpRDMARead, remote(rights(control.AccessLocalWrite | control.AccessRemoteWrite)), nil, cqe.RemoteAccess, 0, true},
		{"WRITE_IMM to a bad key", wqe.OpRDMAWriteImm, remote(func(s *scene) wqe.Raddr { return wqe.Raddr{RKey: 3} }), receive(), cqe.RemoteAccess, cqe.LocalAccess, true},
		{"WRITE_IMM of several packets to a bad key", wqe.OpRDMAWriteImm, func(s *scene) []any {
			return []any{wqe.Raddr{RKey: 3}, s.p.h.key(8192, control.AccessRemoteRead).data(0, 8192)}
		}, receive(), cqe.RemoteAccess, cqe.Flush, true},
		// Requests that the responder does not allow, 0x12.
		{"QP without remote write", wqe.OpRDMAWrite, good, deny(control.AccessRemoteWrite), cqe.RemoteInvalidRequest, 0, true},
		{"QP without remote read", wqe.OpRDMARead, good, deny(control.AccessRemoteRead), cqe.RemoteInvalidRequest, 0, true},
		// Faults of receives.
		{"receive too short", wqe.OpSend, message, list(func(s *scene) []wqe.Data { return []wqe.Data{s.far.data(0, 8), s.far.data(20, 7)} }), cqe.RemoteInvalidRequest, cqe.LocalLength, true},
		{"receive without a list", wqe.OpSendImm, message, receive(), cqe.RemoteInvalidRequest, cqe.LocalLength, true},
		{"receive with a bad key", wqe.OpSend, message, receive(wqe.Data{ByteCount: 64, LKey: 0x55500}), cqe.RemoteOperation, cqe.LocalProtection, true},
		{"receive past its key", wqe.OpSend, message, list(func(s *scene) []wqe.Data { return []wqe.Data{s.far.data(250, 16)} }), cqe.RemoteOperation, cqe.LocalProtection, true},
		{"receive into a key without local write", wqe.OpSend, message, list(func(s *scene) []wqe.Data {
			return []wqe.Data{s.q.h.key(64, control.AccessRemoteRead).data(0, 64)}
		}), cqe.RemoteOperation, cqe.LocalProtection, true},
		{"receive behind the terminator", wqe.OpSend, message, list(func(s *scene) []wqe.Data {
			return []wqe.Data{s.far.data(0, 8), {LKey: wqe.KeyEnd}, s.far.data(20, 100)}
		}), cqe.RemoteInvalidRequest, cqe.LocalLength, true},
		// Requests that wait in vain.
		{"no receive", wqe.OpSend, message, func(s *scene) { s.p.q.Attr.RNRRetry = 3 }, cqe.RNRRetry, 0, false},
		{"no receive, no retry", wqe.OpSend, message, func(s *scene) { s.p.q.Attr.RNRRetry = 0 }, cqe.RNRRetry, 0, false},
		{"no receive for an immediate", wqe.OpRDMAWriteImm, good, func(s *scene) { s.p.q.Attr.RNRRetry = 1 }, cqe.RNRRetry, 0, false},
		{"peer destroyed", wqe.OpRDMAWrite, good, func(s *scene) { s.q.destroy() }, cqe.TransportRetry, 0, false},
		{"peer reset", wqe.OpRDMARead, good, func(s *scene) { s.q.toState(control.StateRST) }, cqe.TransportRetry, 0, false},
		{"peer in error", wqe.OpSend, message, func(s *scene) { s.q.toState(control.StateERR) }, cqe.TransportRetry, 0, false},
		{"client of the peer gone", wqe.OpRDMAWrite, good, func(s *scene) { _ = s.q.h.c.Close() }, cqe.TransportRetry, 0, false},
		{"peer connected to another", wqe.OpRDMAWrite, good, func(s *scene) {
			s.q.toState(control.StateRST)
			s.q.up(s.idle)
		}, cqe.TransportRetry, 0, false},
	}
}

// Each fault gives its syndrome, after the completions of the WQEs before it. Then all WQEs
// that were posted, and all that are posted later, are flushed in order. No other queue pair
// is affected.
func TestFaults(t *testing.T) {
	for _, f := range mistakes() {
		t.Run(f.name, func(t *testing.T) { f.run(newScene(t, Config{})) })
		t.Run(f.name+", in slices", func(t *testing.T) { f.run(newScene(t, Config{Slice: 64, Burst: 1})) })
	}
}

func (f *mistake) run(s *scene) {
	t, p, q := s.TB, s.p, s.q
	responderGone := false
	if f.prepare != nil {
		f.prepare(s)
		responderGone = q.state() != control.StateRTS || q.q.Dead
	}
	if f.requester != cqe.RNRRetry && !q.q.Dead {
		q.recv() // flushed if the responder fails, otherwise not used
	}
	p.recv(s.local.data(0, 8))
	p.recv()
	was := append([]byte(nil), s.far.mem...)

	p.post(silent(wqe.OpNop))
	before := p.post(ctrl(wqe.OpNop))
	bad := p.post(silent(f.op), f.lay(s)...) // unsignaled, but errors are reported anyway
	unsignaled := p.post(silent(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
	// Not the first error, so it has no completion.
	p.post(wqe.Ctrl{Opcode: wqe.OpNop, Flags: wqe.CEFirstError})
	signaled := p.post(ctrl(wqe.OpSend), s.local.data(0, 8), s.local.data(0, 8), s.local.data(0, 8), s.local.data(0, 8))
	s.expire()

	list := p.scq.all()
	require.Len(t, list, 6)
	require.Equal(t, cqe.Req, list[0].Kind)
	require.Equal(t, before, list[0].Counter)
	s.failed(list[1], f.requester, bad)
	require.Equal(t, uint8(f.op), list[1].WQEOpcode)
	s.failed(list[2], cqe.Flush, unsignaled)
	require.Equal(t, uint8(wqe.OpRDMAWrite), list[2].WQEOpcode)
	s.failed(list[3], cqe.Flush, signaled)
	for i, w := range list[4:] {
		require.Equal(t, cqe.RespErr, w.Kind)
		s.failed(w, cqe.Flush, uint16(i))
	}
	require.Equal(t, control.StateERR, p.state())
	// A READ fails for a local key when its answer comes. Over a link, the WRITE behind it was sent before.
	if overCable == nil || f.op != wqe.OpRDMARead || f.requester != cqe.LocalProtection {
		s.same(was, s.far.mem, "the responder's memory")
	}

	later := p.post(silent(wqe.OpNop))
	p.recv()
	s.settle()
	list = p.scq.all()
	require.Len(t, list, 2)
	s.failed(list[0], cqe.Flush, later)
	s.failed(list[1], cqe.Flush, 2)

	switch {
	case f.responder:
		require.Equal(t, control.StateERR, q.state())
		list := q.rcq.all()
		require.Len(t, list, int(q.received))
		for i, w := range list {
			want := cqe.Flush
			if i == 0 && f.receive != 0 {
				want = f.receive
			}
			require.Equal(t, cqe.RespErr, w.Kind)
			s.failed(w, want, uint16(i))
		}
	case !responderGone:
		require.Equal(t, control.StateRTS, q.state())
		q.rcq.none()
		q.post(ctrl(wqe.OpNop)) // the responder still works
		s.settle()
		q.scq.one()
	}
	if !responderGone {
		s.idle1.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(100), s.local.data(0, 100))
		s.settle()
		require.Equal(t, unharmed, s.idle1.scq.one().Syndrome)
		s.same(s.local.mem[:100], s.far.mem[100:200], "another pair's work")
	}
}
