package engine

import (
	"fmt"
	"math/bits"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/request"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

var allStates = []uint8{control.StateRST, control.StateINIT, control.StateRTR, control.StateRTS, control.StateSQE, control.StateSQD, control.StateERR}

// in makes a queue pair of h and takes it to a state.
func (h *host) in(state uint8, c *poller) *end {
	h.Helper()
	p := h.qp(control.QP{}, c, c)
	steps := map[uint8]int{control.StateRST: 0, control.StateINIT: 1, control.StateRTR: 2, control.StateRTS: 3, control.StateSQD: 3, control.StateERR: 3}[state]
	for _, a := range []control.QPAttr{p.toInit(), p.toRTR(p.num), p.toRTS()}[:steps] {
		p.modify(a)
	}
	if state == control.StateSQD || state == control.StateERR {
		p.toState(state)
	}
	require.Equal(h, state, p.state())
	return p
}

// everything returns a modify request in which each attribute has a valid value.
func (p *end) everything(mask uint32, state uint8) control.QPAttr {
	a := p.toRTR(p.num)
	b := p.toRTS()
	a.Mask, a.State, a.CurState = mask|control.AttrState, state, p.state()
	a.Port, a.Access = 1, control.AccessRemoteWrite
	a.Timeout, a.RetryCount, a.RNRRetry, a.SQPSN, a.MaxRdAtomic = b.Timeout, b.RetryCount, b.RNRRetry, b.SQPSN, b.MaxRdAtomic
	return a
}

// rcTable is the transitions of a reliable connection (ibv_modify_qp), with the attributes
// that each requires. All other transitions are refused, except that every state may go to
// RST and ERR.
var rcTable = map[[2]uint8]uint32{
	{control.StateRST, control.StateINIT}:  control.AttrAccess | control.AttrPKeyIndex | control.AttrPort,
	{control.StateINIT, control.StateINIT}: 0,
	{control.StateINIT, control.StateRTR}: control.AttrAV | control.AttrPathMTU | control.AttrDestQPN | control.AttrRQPSN |
		control.AttrMaxDestRdAtom | control.AttrMinRNRTimer,
	{control.StateRTR, control.StateRTS}: control.AttrTimeout | control.AttrRetryCount | control.AttrRNRRetry | control.AttrSQPSN | control.AttrMaxRdAtomic,
	{control.StateRTS, control.StateRTS}: 0,
	{control.StateRTS, control.StateSQD}: 0,
	{control.StateSQD, control.StateRTS}: 0,
	{control.StateSQD, control.StateSQD}: 0,
}

// Each pair of states is tried. A transition that exists is accepted with the attributes
// that it requires; with one of them missing it is refused, and the refusal names the
// attribute. Other transitions are refused, and the refusal names both states. A refusal
// changes nothing.
func TestTransitions(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 4})
	for _, from := range allStates {
		if from == control.StateSQE { // RC has no such state
			continue
		}
		for _, to := range append(allStates, 7, 255) {
			t.Run(states.Name(from)+" to "+states.Name(to), func(t *testing.T) {
				required, ok := rcTable[[2]uint8{from, to}]
				ok = ok || to == control.StateRST || to == control.StateERR
				p := a.in(from, c)
				defer func() { p.destroy(); a.used -= uint64(len(p.sq) + len(p.rq) + 128) }()
				before := p.q.Attr
				if !ok {
					err := p.tryModify(p.everything(0, to))
					require.ErrorIs(t, err, &control.Error{Code: control.CodeState})
					require.ErrorContains(t, err, "from "+states.Name(from)+" to "+states.Name(to))
					require.Equal(t, before, p.q.Attr)
					return
				}
				for left := required; left != 0; left &= left - 1 {
					missing := uint32(1) << bits.TrailingZeros32(left)
					err := p.tryModify(p.everything(required&^missing, to))
					require.ErrorIs(t, err, &control.Error{Code: control.CodeInvalid})
					require.ErrorContains(t, err, fmt.Sprintf("%v", request.AttributeNames(missing)))
					require.Equal(t, before, p.q.Attr)
				}
				require.NoError(t, p.tryModify(p.everything(required, to)))
				require.Equal(t, to, p.state())
			})
		}
	}
}

// Attributes that a transition does not take are refused by name. Attributes that it may
// take are set.
func TestOptionalAttributes(t *testing.T) {
	const timers = control.AttrAccess | control.AttrMinRNRTimer
	optional := map[[2]uint8]uint32{
		{control.StateINIT, control.StateINIT}: control.AttrAccess | control.AttrPKeyIndex | control.AttrPort,
		{control.StateINIT, control.StateRTR}:  control.AttrAccess | control.AttrPKeyIndex,
		{control.StateRTR, control.StateRTS}:   timers,
		{control.StateRTS, control.StateRTS}:   timers,
		{control.StateSQD, control.StateRTS}:   timers,
		{control.StateSQD, control.StateSQD}: timers | control.AttrPKeyIndex | control.AttrPort | control.AttrAV | control.AttrTimeout |
			control.AttrRetryCount | control.AttrRNRRetry | control.AttrMaxRdAtomic | control.AttrMaxDestRdAtom,
	}
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 4})
	for pair, required := range rcTable {
		for _, attr := range request.Attributes {
			if required&attr.Bit != 0 {
				continue
			}
			p := a.in(pair[0], c)
			err := p.tryModify(p.everything(required|attr.Bit, pair[1]))
			what := states.Name(pair[0]) + " to " + states.Name(pair[1]) + " with " + attr.Name
			if optional[pair]&attr.Bit != 0 {
				require.NoError(t, err, what)
			} else {
				require.ErrorIs(t, err, &control.Error{Code: control.CodeInvalid}, what)
				require.ErrorContains(t, err, attr.Name)
				require.Equal(t, pair[0], p.state())
			}
			p.destroy()
			a.used -= uint64(len(p.sq) + len(p.rq) + 128)
		}
	}
	p := a.in(control.StateRTS, c)
	require.ErrorContains(t, p.tryModify(control.QPAttr{QPN: p.num, Mask: control.AttrState | 1<<30, State: control.StateRTS}), "0x40000000")
	require.ErrorContains(t, p.tryModify(control.QPAttr{QPN: p.num, Mask: control.AttrState | control.AttrAccess, State: control.StateERR}), "access")
	require.ErrorContains(t, p.tryModify(control.QPAttr{QPN: p.num, Mask: control.AttrState | control.AttrPort, State: control.StateRST}), "port")
}

// For each attribute, the last possible value is accepted and the next one is refused.
func TestAttributeLimits(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 4})
	for _, row := range []struct {
		name     string
		from, to uint8
		good     func(*control.QPAttr)
		bad      func(*control.QPAttr)
	}{
		{"port", control.StateRST, control.StateINIT, func(a *control.QPAttr) { a.Port = 1 }, func(a *control.QPAttr) { a.Port = 2 }},
		{"port", control.StateRST, control.StateINIT, nil, func(a *control.QPAttr) { a.Port = 0 }},
		{"pkey_index", control.StateRST, control.StateINIT, func(a *control.QPAttr) { a.PKeyIndex = 0 }, func(a *control.QPAttr) { a.PKeyIndex = 1 }},
		{"access", control.StateRST, control.StateINIT, func(a *control.QPAttr) { a.Access = control.AccessAll }, func(a *control.QPAttr) { a.Access = 0x40 }},
		{"access", control.StateRST, control.StateINIT, func(a *control.QPAttr) { a.Access = 0 }, func(a *control.QPAttr) { a.Access = 1 << 31 }},
		{"path_mtu", control.StateINIT, control.StateRTR, func(a *control.QPAttr) { a.PathMTU = 1 }, func(a *control.QPAttr) { a.PathMTU = 0 }},
		{"path_mtu", control.StateINIT, control.StateRTR, func(a *control.QPAttr) { a.PathMTU = 5 }, func(a *control.QPAttr) { a.PathMTU = 6 }},
		{"dest_qpn", control.StateINIT, control.StateRTR, func(a *control.QPAttr) { a.DestQPN = 0xffffff }, func(a *control.QPAttr) { a.DestQPN = 1 << 24 }},
		{"rq_psn", control.StateINIT, control.StateRTR, func(a *control.QPAttr) { a.RQPSN = 0xffffff }, func(a *control.QPAttr) { a.RQPSN = 1 << 24 }},
		{"max_dest_rd_atomic", control.StateINIT, control.StateRTR, func(a *control.QPAttr) { a.MaxDestRdAtomic = 16 }, func(a *control.QPAttr) { a.MaxDestRdAtomic = 17 }},
		{"min_rnr_timer", control.StateINIT, control.StateRTR, func(a *control.QPAttr) { a.MinRNRTimer = 31 }, func(a *control.QPAttr) { a.MinRNRTimer = 32 }},
		{"peer's device", control.StateINIT, control.StateRTR, nil, func(a *control.QPAttr) { a.GUID++ }},
		{"timeout", control.StateRTR, control.StateRTS, func(a *control.QPAttr) { a.Timeout = 31 }, func(a *control.QPAttr) { a.Timeout = 32 }},
		{"retry_count", control.StateRTR, control.StateRTS, func(a *control.QPAttr) { a.RetryCount = 7 }, func(a *control.QPAttr) { a.RetryCount = 8 }},
		{"rnr_retry", control.StateRTR, control.StateRTS, func(a *control.QPAttr) { a.RNRRetry = 7 }, func(a *control.QPAttr) { a.RNRRetry = 8 }},
		{"sq_psn", control.StateRTR, control.StateRTS, func(a *control.QPAttr) { a.SQPSN = 0xffffff }, func(a *control.QPAttr) { a.SQPSN = 1 << 24 }},
		{"max_rd_atomic", control.StateRTR, control.StateRTS, func(a *control.QPAttr) { a.MaxRdAtomic = 16 }, func(a *control.QPAttr) { a.MaxRdAtomic = 17 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := a.in(row.from, c)
			before := p.q.Attr
			bad := p.everything(rcTable[[2]uint8{row.from, row.to}], row.to)
			row.bad(&bad)
			err := p.tryModify(bad)
			require.ErrorIs(t, err, &control.Error{Code: control.CodeInvalid})
			require.ErrorContains(t, err, row.name)
			require.Equal(t, before, p.q.Attr)
			if row.good != nil {
				good := p.everything(rcTable[[2]uint8{row.from, row.to}], row.to)
				row.good(&good)
				require.NoError(t, p.tryModify(good))
			}
		})
	}
}

// cur_state is compared with the state that the QP is in.
func TestCurState(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	p := a.in(control.StateRTS, a.cq(control.CQ{LogSize: 4}))
	err := p.tryModify(control.QPAttr{QPN: p.num, Mask: control.AttrCurState, CurState: control.StateSQD})
	require.ErrorIs(t, err, &control.Error{Code: control.CodeState})
	require.ErrorContains(t, err, "SQD")
	require.ErrorContains(t, err, "RTS")
	p.modify(control.QPAttr{QPN: p.num, Mask: control.AttrCurState | control.AttrMinRNRTimer, CurState: control.StateRTS, MinRNRTimer: 9})
	require.Equal(t, uint8(9), p.q.Attr.MinRNRTimer)
}

// A query returns what was set.
func TestQuery(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	p := a.in(control.StateRTS, a.cq(control.CQ{LogSize: 4}))
	var got control.QPAttr
	a.call(control.OpQueryQP, &control.QPN{QPN: p.num}, &got)
	want := p.toRTR(p.num)
	rts := p.toRTS()
	want.Mask, want.State, want.CurState = 0, control.StateRTS, control.StateRTS
	want.Port, want.Access = 1, p.toInit().Access
	want.Timeout, want.RetryCount, want.RNRRetry, want.SQPSN, want.MaxRdAtomic = rts.Timeout, rts.RetryCount, rts.RNRRetry, rts.SQPSN, rts.MaxRdAtomic
	got.Mask = 0
	require.Equal(t, want, got)
	p.toState(control.StateRST)
	a.call(control.OpQueryQP, &control.QPN{QPN: p.num}, &got)
	got.Mask = 0
	require.Equal(t, control.QPAttr{QPN: p.num}, got, "RST forgets")
}

// No WQE is executed in RST, INIT and RTR. Receives are flushed in ERR, whatever the state
// was before.
func TestStatesThatDoNotSend(t *testing.T) {
	for _, state := range []uint8{control.StateRST, control.StateINIT, control.StateRTR, control.StateSQD} {
		r := newRig(t, Config{})
		a := r.host("a")
		c := a.cq(control.CQ{LogSize: 4})
		p := a.in(state, c)
		p.post(ctrl(wqe.OpNop))
		p.recv()
		r.settle()
		c.none()
		p.toState(control.StateERR)
		r.settle()
		list := c.all()
		require.Len(t, list, 2)
		r.failed(list[0], cqe.Flush, 0)
		r.failed(list[1], cqe.Flush, 0)
	}
}

// A reset discards everything without completions, also in the middle of a transfer.
// Afterwards counters begin at 0.
func TestResetForgets(t *testing.T) {
	r, p, q := duo(t, Config{Slice: 64})
	src, dst := p.h.full(1000, 1), q.h.full(1000, 2)
	q.recv(dst.data(0, 1000))
	p.post(silent(wqe.OpNop))
	p.post(ctrl(wqe.OpSend), src.data(0, 1000))
	p.post(ctrl(wqe.OpNop))
	r.e.Step()
	r.e.Step()
	require.NotNil(t, p.q.Job)
	p.reset(q)
	r.settle()
	p.scq.none()
	q.rcq.none()
	require.Zero(t, p.q.SQ.Done)
	index := p.post(ctrl(wqe.OpSend), src.data(0, 1000)) // the receive is still posted
	r.settle()
	require.Equal(t, index, p.scq.one().Counter)
	require.Equal(t, uint16(0), q.rcq.one().Counter)
	r.same(src.mem, dst.mem, "after a reset")
}

// A queue in SQD finishes what it has begun and then stops. It continues in RTS.
func TestDrain(t *testing.T) {
	r, p, q := duo(t, Config{Slice: 64})
	src, dst := p.h.full(1000, 1), q.h.full(1000, 2)
	first := p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1000))
	second := p.post(ctrl(wqe.OpNop))
	r.e.Step()
	require.NotNil(t, p.q.Job)
	p.toState(control.StateSQD)
	r.settle()
	require.Equal(t, first, p.scq.one().Counter)
	r.same(src.mem, dst.mem, "what was begun")
	// In SQD it still receives.
	p.recv()
	q.post(ctrl(wqe.OpSend))
	r.settle()
	require.Equal(t, cqe.RespSend, p.rcq.one().Kind)
	p.toState(control.StateRTS)
	r.settle()
	require.Equal(t, second, p.scq.one().Counter)
}
