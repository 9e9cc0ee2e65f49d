//go:build linux && (amd64 || arm64)

package nicless

import (
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/sanitize"
	"github.com/stretchr/testify/require"
)

// Offsets in the memory of a suspect.
const (
	sentAt    = 0
	otherAt   = 256
	broughtAt = 512
	inboxAt   = 1024
	tickAt    = 2048
	wrSize    = 64
)

// A suspect is a context with a Sanitizer, and objects with which a test makes mistakes, or does the same
// rightly. Mistakes do not depend on luck: requests behind a SEND whose peer has no receive stay in flight.
type suspect struct {
	*testing.T
	c          *Context
	s          *Sanitizer
	pd         *PD
	cq         *CQ
	near, far  *MR
	a, b, tick [2]*QP
}

func newSuspect(t *testing.T, c *Context, cfg SanitizerConfig) *suspect {
	t.Helper()
	x := &suspect{T: t, c: c}
	if cfg.Report == nil {
		cfg.Report = func(*sanitize.Report) {} // Reports has them
	}
	var err error
	x.s, err = c.Sanitize(cfg)
	require.NoError(t, err)
	x.pd, err = c.AllocPD()
	require.NoError(t, err)
	x.cq, err = c.CreateCQ(CQConfig{Entries: 1024})
	require.NoError(t, err)
	x.near, err = x.pd.RegisterMemory(4096, FullAccess)
	require.NoError(t, err)
	x.far, err = x.pd.RegisterMemory(4096, FullAccess)
	require.NoError(t, err)
	x.a, x.b, x.tick = x.pair(x.cq), x.pair(x.cq), x.pair(x.cq)
	return x
}

func (x *suspect) pair(cq *CQ) (q [2]*QP) {
	x.Helper()
	for i := range q {
		var err error
		q[i], err = x.pd.CreateQP(QPConfig{SendCQ: cq, MaxSendWR: 16, MaxRecvWR: 16})
		require.NoError(x, err)
	}
	require.NoError(x, Pair(q[0], q[1], Connection{}))
	return q
}

// wr is an operation of 64 bytes between near and far, or a message.
func (x *suspect) wr(op Op, here, there int) SendWR {
	return SendWR{Op: op, Flags: Signaled, SGE: []SGE{x.near.SGE(here, wrSize)},
		RemoteAddr: x.far.Addr() + uint64(there), RKey: x.far.RKey()}
}

func (x *suspect) post(q *QP, wrs ...SendWR) {
	x.Helper()
	_, err := q.PostSendList(wrs)
	require.NoError(x, err)
}

// give posts a receive into far.
func (x *suspect) give(q *QP, where int) {
	x.Helper()
	require.NoError(x, q.PostRecv(&RecvWR{SGE: []SGE{x.far.SGE(where, wrSize)}}))
}

// take polls n completions of a queue.
func (x *suspect) takeFrom(q *CQ, n int) (list []Completion) {
	x.Helper()
	ctx := await.Context(x)
	for len(list) < n {
		var c [8]Completion
		k, err := q.Wait(ctx, c[:min(n-len(list), len(c))])
		require.NoError(x, err)
		list = append(list, c[:k]...)
	}
	return list
}

// take polls n completions without errors.
func (x *suspect) take(n int) {
	x.Helper()
	for _, c := range x.takeFrom(x.cq, n) {
		require.NoError(x, c.Err())
	}
}

// passes waits until the device has found all that was posted before: it was in all queue pairs since.
func (x *suspect) passes() {
	x.Helper()
	for range 3 {
		x.post(x.tick[0], x.wr(Write, tickAt, tickAt))
		x.take(1)
	}
}

// reports closes the context, and returns all reports.
func (x *suspect) reports() []sanitize.Report {
	x.Helper()
	require.NoError(x, x.c.Close())
	return x.s.Reports()
}

func changeSendBuffer(x *suspect, wrong bool) {
	x.post(x.a[0], x.wr(Send, sentAt, 0))
	x.passes()
	if wrong {
		x.near.Store64(sentAt+8, 9)
	}
	x.give(x.a[1], inboxAt)
	x.take(2)
	x.near.Store64(sentAt+8, 8)
}

func changeReceiveBuffer(x *suspect, wrong bool) {
	x.give(x.a[1], inboxAt)
	x.post(x.a[0], x.wr(Write, otherAt, otherAt)) // its visit finds the receive too
	x.take(1)
	if wrong {
		x.far.Store64(inboxAt+8, 4)
	}
	x.post(x.a[0], x.wr(Send, sentAt, 0))
	x.take(2)
	x.far.Store64(inboxAt+8, 5)
}

func writeTwice(x *suspect, wrong bool) {
	writeFirst(x)
	if !wrong {
		x.give(x.a[1], inboxAt)
		x.take(3)
	}
	writeSecond(x)
	x.passes()
	if wrong {
		x.give(x.a[1], inboxAt)
	}
	x.give(x.b[1], inboxAt+wrSize)
	if wrong {
		x.take(6)
	} else {
		x.take(3)
	}
}

func writeFirst(x *suspect) {
	x.post(x.a[0], x.wr(Send, sentAt, 0), x.wr(Write, otherAt, otherAt))
}

func writeSecond(x *suspect) {
	x.post(x.b[0], x.wr(Send, sentAt, 0), x.wr(Write, broughtAt, otherAt+32))
}

func deregister(x *suspect, wrong bool) {
	m, err := x.near.Register(sentAt, wrSize, FullAccess)
	require.NoError(x, err)
	q := x.pair(x.cq)
	wr := x.wr(Send, sentAt, 0)
	wr.SGE[0] = m.SGE(0, wrSize)
	x.post(q[0], wr)
	x.passes()
	if wrong {
		require.NoError(x, m.Close())
		x.give(q[1], inboxAt)
		require.ErrorIs(x, x.takeFrom(x.cq, 1)[0].Err(), cqe.LocalProtection)
		return
	}
	x.give(q[1], inboxAt)
	x.take(2)
	require.NoError(x, m.Close())
}

// deregisterShared is deregister for the buffer of a shared receive queue.
func deregisterShared(x *suspect, wrong bool) {
	srq, err := x.pd.CreateSRQ(SRQConfig{MaxWR: 3})
	require.NoError(x, err)
	var q [2]*QP
	for i := range q {
		q[i], err = x.pd.CreateQP(QPConfig{SendCQ: x.cq, SRQ: srq})
		require.NoError(x, err)
	}
	require.NoError(x, Pair(q[0], q[1], Connection{}))
	for range 9 { // entries are used again
		require.NoError(x, srq.PostRecv(&RecvWR{SGE: []SGE{x.far.SGE(inboxAt, wrSize)}}))
		x.post(q[0], x.wr(Send, sentAt, 0))
		x.take(2)
	}
	m, err := x.far.Register(inboxAt, wrSize, FullAccess)
	require.NoError(x, err)
	giveShared(x, srq, m)
	if wrong {
		require.NoError(x, m.Close())
		x.post(q[0], x.wr(Send, sentAt, 0))
		for _, c := range x.takeFrom(x.cq, 2) {
			require.Error(x, c.Err())
		}
		return
	}
	x.post(q[0], x.wr(Send, sentAt, 0))
	x.take(2)
	require.NoError(x, m.Close())
}

func giveShared(x *suspect, srq *SRQ, m *MR) {
	require.NoError(x, srq.PostRecv(&RecvWR{SGE: []SGE{m.SGE(0, wrSize)}}))
}

func destroy(x *suspect, wrong bool) {
	q := x.pair(x.cq)
	x.post(q[0], x.wr(Send, sentAt, 0))
	x.passes()
	if !wrong {
		x.give(q[1], inboxAt)
		x.take(2)
	}
	require.NoError(x, q[0].Close())
	require.NoError(x, q[1].Close())
	x.passes()
}

func leaveUnpolled(x *suspect, wrong bool) {
	own, err := x.c.CreateCQ(CQConfig{Entries: 16})
	require.NoError(x, err)
	q := x.pair(own)
	x.post(q[0], x.wr(Write, otherAt, otherAt))
	x.passes()
	if !wrong {
		require.NoError(x, x.takeFrom(own, 1)[0].Err())
	}
}

var mistakes = []struct {
	code   sanitize.Code
	do     func(x *suspect, wrong bool)
	stacks []string // of the accesses: a function that each has; "": the access is no post
}{
	{sanitize.SendBufferChanged, changeSendBuffer, []string{"changeSendBuffer", ""}},
	{sanitize.ReceiveBufferChanged, changeReceiveBuffer, []string{"changeReceiveBuffer", ""}},
	{sanitize.Race, writeTwice, []string{"writeSecond", "writeFirst"}},
	{sanitize.KeyGone, deregister, []string{"deregister", ""}},
	{sanitize.KeyGone, deregisterShared, []string{"giveShared", ""}},
	{sanitize.DestroyedInFlight, destroy, []string{"destroy", ""}},
	{sanitize.NeverPolled, leaveUnpolled, []string{""}},
}

// onDevices runs a test with an engine in this process, and with one behind a socket.
func onDevices(t *testing.T, f func(t *testing.T, c *Context)) {
	t.Run("embedded", func(t *testing.T) {
		c, err := Open(Config{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		f(t, c)
	})
	t.Run("dialed", func(t *testing.T) { f(t, dialed(t, inProcess(t, Config{}))) })
}

// Each mistake is reported, with the stacks of its posts.
func TestSanitizerFindsMistakes(t *testing.T) {
	for _, m := range mistakes {
		name := string(m.code) + " in " + m.stacks[0]
		t.Run(name, func(t *testing.T) {
			onDevices(t, func(t *testing.T, c *Context) {
				if shm.RaceEnabled && strings.HasSuffix(t.Name(), "embedded") {
					t.Skip("the race detector finds it first")
				}
				x := newSuspect(t, c, SanitizerConfig{})
				m.do(x, true)
				list := x.reports()
				require.Len(t, list, 1, "%v", list)
				r := &list[0]
				require.Equal(t, m.code, r.Code)
				require.Equal(t, sanitize.Error, r.Severity)
				require.Len(t, r.Accesses, len(m.stacks), "%s", r)
				for i, f := range m.stacks {
					requireStack(t, r, i, f)
				}
			})
		})
	}
}

// requireStack checks that an access of a report has a function in its stack. If f is "", it has none.
func requireStack(t *testing.T, r *sanitize.Report, i int, f string) {
	t.Helper()
	stack := r.Accesses[i].Stack
	if f == "" {
		require.Empty(t, stack, "%s", r)
		return
	}
	require.NotEmpty(t, stack, "%s", r)
	all := strings.Join(stack, "\n") + "\n"
	require.Contains(t, all, " github.com/nicless/nicless."+f+"\n", "%s", r)
	require.NotContains(t, all, "(*QP).")
	require.NotContains(t, all, "(*SRQ).")
}

// A program that does the same rightly has no report, not even a note.
func TestSanitizerFindsNothing(t *testing.T) {
	onDevices(t, func(t *testing.T, c *Context) {
		x := newSuspect(t, c, SanitizerConfig{Strict: true, Notes: true})
		for _, m := range mistakes {
			m.do(x, false)
		}
		require.Empty(t, x.reports())
	})
}

// A stack belongs to its WQE also after the indices of the queue pair have wrapped around.
func TestSanitizerAfterWrap(t *testing.T) {
	x := newSuspect(t, dialed(t, inProcess(t, Config{})), SanitizerConfig{})
	q, err := x.pd.CreateQP(QPConfig{SendCQ: x.cq})
	require.NoError(t, err)
	peer, err := x.pd.CreateQP(QPConfig{SendCQ: x.cq})
	require.NoError(t, err)
	require.NoError(t, Pair(q, peer, Connection{}))
	x.a = [2]*QP{q, peer}
	list := make([]SendWR, 64)
	for i := range list {
		list[i] = x.wr(Write, otherAt, otherAt)
		list[i].Flags = 0
	}
	list[len(list)-1].Flags = Signaled
	const laps = 1<<16 + 1<<12
	for done := 0; done < laps; {
		x.post(q, list...)
		x.take(1)
		done += len(list)
		if done%4096 == 0 { // the sanitizer must not be so late that events are lost
			await.Until(t, "the sanitizer has found all", func() bool { return x.s.foundOf(q) == uint64(done) })
		}
	}
	changeSendBuffer(x, true)
	reports := x.reports()
	require.Len(t, reports, 1, "%v", reports)
	requireStack(t, &reports[0], 0, "changeSendBuffer")
	require.Equal(t, uint16(laps&0xffff), *reports[0].Accesses[0].Index)
}

// foundOf returns how many blocks of a queue pair's sends were found.
func (s *Sanitizer) foundOf(q *QP) uint64 {
	s.posters.mu.Lock()
	defer s.posters.mu.Unlock()
	return s.posters.queues[queueAt{number: q.QPN()}].sends.Next()
}

// Of a queue pair that is reset, the counts begin again.
func TestSanitizerAfterReset(t *testing.T) {
	x := newSuspect(t, dialed(t, inProcess(t, Config{})), SanitizerConfig{})
	for range 3 {
		x.post(x.a[0], x.wr(Write, otherAt, otherAt))
		x.take(1)
	}
	for _, q := range x.a {
		require.NoError(t, q.Modify(&Attr{Mask: AttrState, State: StateRST}))
		require.NoError(t, q.toInit(0))
	}
	require.NoError(t, Pair(x.a[0], x.a[1], Connection{}))
	changeSendBuffer(x, true)
	reports := x.reports()
	require.Len(t, reports, 1, "%v", reports)
	requireStack(t, &reports[0], 0, "changeSendBuffer")
	require.Zero(t, *reports[0].Accesses[0].Index)
}
