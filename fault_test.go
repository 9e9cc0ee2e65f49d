package nicless

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/stretchr/testify/require"
)

// faulty is a connection through an engine, with memory that the peer may read only.
type faulty struct {
	t        *testing.T
	cq       *CQ
	a, b     *QP
	mr       *MR
	readOnly *MR
}

func newFaulty(t *testing.T, c *Context, cfg QPConfig) *faulty {
	t.Helper()
	f := &faulty{t: t}
	pd, err := c.AllocPD()
	require.NoError(t, err)
	f.cq, err = c.CreateCQ(CQConfig{Entries: 1024})
	require.NoError(t, err)
	f.mr, err = pd.RegisterMemory(4096, FullAccess)
	require.NoError(t, err)
	f.readOnly, err = pd.RegisterMemory(4096, LocalWrite|RemoteRead)
	require.NoError(t, err)
	cfg.SendCQ = f.cq
	f.a, err = pd.CreateQP(cfg)
	require.NoError(t, err)
	f.b, err = pd.CreateQP(cfg)
	require.NoError(t, err)
	require.NoError(t, Pair(f.a, f.b, Connection{}))
	return f
}

// bad is a WRITE to memory that the peer may only read.
func (f *faulty) bad() SendWR {
	return SendWR{ID: 42, Op: Write, Flags: Signaled, SGE: []SGE{f.mr.SGE(0, 8)}, RemoteAddr: f.readOnly.Addr(),
		RKey: f.readOnly.RKey()}
}

// wait returns the next n completions.
func (f *faulty) wait(n int) (list []Completion) {
	f.t.Helper()
	for len(list) < n {
		var c [16]Completion
		k, err := f.cq.Wait(f.t.Context(), c[:min(n-len(list), len(c))])
		require.NoError(f.t, err)
		list = append(list, c[:k]...)
	}
	return list
}

// engines runs a test with an engine in this program, and with one in another process.
func engines(t *testing.T, test func(t *testing.T, c *Context)) {
	t.Run("embedded", func(t *testing.T) {
		c, err := Open(Config{})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		test(t, c)
	})
	t.Run("process", func(t *testing.T) {
		_, path := startEngine(t)
		c, err := Dial(path)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		test(t, c)
	})
}

// The error of a completion says what was wrong. Flushed completions name the WQE that was the cause, on both
// sides. The completion is a value, and its error stays the same when others fail.
func TestErrorCarriesItsExplanation(t *testing.T) {
	engines(t, func(t *testing.T, c *Context) {
		f := newFaulty(t, c, QPConfig{})
		require.NoError(t, f.b.PostRecv(&RecvWR{ID: 7, SGE: []SGE{f.mr.SGE(0, 8)}}))
		later := f.bad()
		later.ID, later.RKey = 43, f.mr.RKey()
		n, err := f.a.PostSendList([]SendWR{f.bad(), later})
		require.NoError(t, err)
		require.Equal(t, 2, n)
		list := f.wait(3)
		byID := map[uint64]Completion{}
		for _, c := range list {
			byID[c.ID] = c
		}
		text := fmt.Sprintf("RDMA_WRITE: rkey %#08x gives local write+remote read, remote write is needed (key-access)", f.readOnly.RKey())

		var e *FaultError
		err = byID[42].Err()
		require.ErrorAs(t, err, &e)
		require.EqualError(t, err, fmt.Sprintf("qp 0x%06x wqe 0 id 42: remote access error: %s", f.a.QPN(), text))
		require.Equal(t, err.Error(), byID[42].String())
		require.ErrorIs(t, err, cqe.RemoteAccess)
		var work *cqe.WorkError
		require.ErrorAs(t, err, &work)
		require.Equal(t, []any{uint64(42), uint8(0x88)}, []any{work.ID, work.Vendor})
		require.Equal(t, []any{"key-access", cqe.RemoteAccess, f.a.QPN(), uint16(0)}, []any{e.Code, e.Syndrome, e.Queue, e.Index})
		require.Nil(t, e.Cause)
		require.Len(t, e.Bytes, 64)
		require.Equal(t, byte(0x08), e.Bytes[3], "the opcode of the WQE")

		require.ErrorAs(t, byID[43].Err(), &e)
		require.Equal(t, &FaultPlace{Queue: f.a.QPN(), Index: 0, Of: "wqe"}, e.Cause)
		require.EqualError(t, e, fmt.Sprintf("qp 0x%06x wqe 1 id 43: work request flushed because of wqe 0 of qp 0x%06x: %s",
			f.a.QPN(), f.a.QPN(), text))
		require.ErrorIs(t, e, cqe.Flush)

		require.ErrorAs(t, byID[7].Err(), &e)
		require.True(t, e.Receive)
		require.Equal(t, &FaultPlace{Queue: f.a.QPN(), Index: 0, Of: "wqe"}, e.Cause)

		for range 200 { // the ring of the device overruns, and the errors stay
			f := newFaulty(t, c, QPConfig{MaxSendWR: 4, MaxRecvWR: 4})
			bad := f.bad()
			require.NoError(t, f.a.PostSend(&bad))
			require.ErrorContains(t, f.wait(1)[0].Err(), "remote write is needed (key-access)")
			require.NoError(t, errors.Join(f.a.Close(), f.b.Close(), f.cq.Close(), f.mr.Close(), f.readOnly.Close()))
		}
		require.Equal(t, err.Error(), byID[42].Err().Error())
	})
}

// If the device has overwritten a reason before its completion is polled, the error says so.
func TestErrorSaysThatItsReasonIsLost(t *testing.T) {
	engines(t, func(t *testing.T, c *Context) {
		const n = 130
		pairs := make([]*faulty, n)
		for i := range pairs {
			f := newFaulty(t, c, QPConfig{MaxSendWR: 4, MaxRecvWR: 4})
			pairs[i] = f
			bad := f.bad()
			before, err := c.Status()
			require.NoError(t, err)
			require.NoError(t, f.a.PostSend(&bad))
			until(t, "the write fails", func() bool { // without a poll
				s, err := c.Status()
				return err == nil && s.Failed > before.Failed
			})
		}
		// Each fault writes two reasons: why the WRITE fails, and why the peer is in the error state.
		lost := 0
		for _, f := range pairs {
			var e *FaultError
			require.ErrorAs(t, f.wait(1)[0].Err(), &e)
			if e.Overrun {
				lost++
				require.Empty(t, e.Code)
				require.ErrorContains(t, e, "remote access error (vendor 0x88); its reason is lost: the device keeps 128, and has overwritten it")
			} else {
				require.Equal(t, "key-access", e.Code)
			}
		}
		require.Equal(t, n-64, lost)
	})
}

// Over a link both engines explain: the requester's what it knows, and the responder's the reason.
func TestErrorOverALink(t *testing.T) {
	link := fmt.Sprintf("pool:%s,dead=1m,size=8M,node=", filepath.Join(t.TempDir(), "pool"))
	var ctx [2]*Context
	for i := range ctx {
		c, err := Open(Config{Links: []string{fmt.Sprint(link, i)}})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		ctx[i] = c
	}
	var qp [2]*QP
	var cq [2]*CQ
	var mr [2]*MR
	for i, c := range ctx {
		pd, err := c.AllocPD()
		require.NoError(t, err)
		cq[i], err = c.CreateCQ(CQConfig{})
		require.NoError(t, err)
		mr[i], err = pd.RegisterMemory(4096, LocalWrite|RemoteRead)
		require.NoError(t, err)
		qp[i], err = pd.CreateQP(QPConfig{SendCQ: cq[i]})
		require.NoError(t, err)
	}
	for i, q := range qp {
		until(t, "the link is up", func() bool { return q.Connect(qp[1-i].Descriptor(), Connection{}) == nil })
	}
	require.NoError(t, qp[1].PostRecv(&RecvWR{SGE: []SGE{mr[1].SGE(0, 8)}}))
	require.NoError(t, qp[0].PostSend(&SendWR{Op: Write, SGE: []SGE{mr[0].SGE(0, 8)}, RemoteAddr: mr[1].Addr(), RKey: mr[1].RKey()}))
	var c [1]Completion
	_, err := cq[0].Wait(t.Context(), c[:])
	require.NoError(t, err)
	require.ErrorIs(t, c[0].Err(), cqe.RemoteAccess)
	require.ErrorContains(t, c[0].Err(), "refused it (NAK: remote access error); why is said to its owner (link-refused)")
	_, err = cq[1].Wait(t.Context(), c[:])
	require.NoError(t, err)
	require.ErrorIs(t, c[0].Err(), cqe.Flush)
	require.ErrorContains(t, c[0].Err(), "gives local write+remote read, remote write is needed (key-access)")
}

// The zero Completion and a NOP do not read as a SEND that succeeded.
func TestCompletionsThatAreNoSend(t *testing.T) {
	require.ErrorIs(t, Completion{}.Err(), ErrNotPolled)
	require.Equal(t, ErrNotPolled.Error(), Completion{}.String())
	c, err := Open(Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	f := newFaulty(t, c, QPConfig{})
	require.NoError(t, f.a.PostSend(&SendWR{ID: 5, Op: Nop, Flags: Signaled}))
	nop := f.wait(1)[0]
	require.NoError(t, nop.Err())
	require.Equal(t, fmt.Sprintf("id 5: NOP SUCCESS, QP %#06x", f.a.QPN()), nop.String())
	require.NotEqual(t, cqe.WCSend, nop.Opcode)
}

// With QPConfig.Stacks the error says which line has posted the request.
func TestErrorNamesTheLine(t *testing.T) {
	all := []QPConfig{{Stacks: true}, {Stacks: true, Concurrent: true}}
	if allStacks() {
		all = append(all, QPConfig{})
	}
	for _, cfg := range all {
		c, err := Open(Config{})
		require.NoError(t, err)
		f := newFaulty(t, c, cfg)
		bad := f.bad()
		_, err = f.a.PostSendList([]SendWR{bad}) // the line
		require.NoError(t, err)
		var e *FaultError
		require.ErrorAs(t, f.wait(1)[0].Err(), &e)
		source, err := os.ReadFile("fault_test.go")
		require.NoError(t, err)
		before, _, _ := strings.Cut(string(source), "// the line\n")
		line := fmt.Sprintf("fault_test.go:%d github.com/nicless/nicless.TestErrorNamesTheLine", strings.Count(before, "\n")+1)
		require.Equal(t, line, e.Stack[0])
		require.ErrorContains(t, e, "(key-access); posted at "+line)
		require.NoError(t, c.Close())
	}
	t.Logf("%d queue pairs", len(all))
}

// With NICLESS_STACKS=1 all queue pairs of a program have Stacks.
func TestStacksByEnvironment(t *testing.T) {
	c := exec.Command(os.Args[0], "-test.run=^TestErrorNamesTheLine$", "-test.v")
	c.Env = append(os.Environ(), "NICLESS_STACKS=1")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestErrorNamesTheLine")
	require.Contains(t, string(out), "3 queue pairs")
}
