//go:build linux && (amd64 || arm64)

package nicless

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fault"
	"github.com/stretchr/testify/require"
)

// A faulted is a pair of queue pairs of one context, on which rules act.
type faulted struct {
	*testing.T
	a, b *QP
	cq   *CQ
	mr   *MR
}

func newFaulted(t *testing.T, c *Context) *faulted {
	t.Helper()
	f := &faulted{T: t}
	pd, err := c.AllocPD()
	require.NoError(t, err)
	f.mr, err = pd.RegisterMemory(4096, FullAccess)
	require.NoError(t, err)
	f.cq, err = c.CreateCQ(CQConfig{})
	require.NoError(t, err)
	f.a, err = pd.CreateQP(QPConfig{SendCQ: f.cq})
	require.NoError(t, err)
	f.b, err = pd.CreateQP(QPConfig{SendCQ: f.cq})
	require.NoError(t, err)
	require.NoError(t, Pair(f.a, f.b, Connection{}))
	return f
}

// write returns the result of a WRITE.
func (f *faulted) write() error {
	f.Helper()
	require.NoError(f, f.a.PostSend(&SendWR{Op: Write, Flags: Signaled, SGE: []SGE{f.mr.SGE(0, 5)},
		RemoteAddr: f.mr.Addr() + 2048, RKey: f.mr.RKey()}))
	var out [1]Completion
	n, err := f.cq.Wait(context.Background(), out[:])
	require.NoError(f, err)
	require.Equal(f, 1, n)
	return out[0].Err()
}

// failing returns rules that let the nth WRITE fail, and many others with long names, so that their text has
// many pieces.
func failing(nth uint64) (r fault.Rules) {
	r.Rules = []fault.Rule{{Match: fault.Match{Nth: nth},
		Complete: &fault.Complete{Syndrome: fault.Syndrome(cqe.RemoteAccess)}}}
	for i := range 200 {
		r.Rules = append(r.Rules, fault.Rule{Name: fmt.Sprintf("%d %s", i, strings.Repeat("ü", 20)),
			Match: fault.Match{QP: 0xffffff}, RNR: 1})
	}
	return r
}

// Rules are set, replaced and ended, in an engine of this process and in one behind a socket. They say how
// often they have acted, also when they have ended.
func TestFaultsOfAContext(t *testing.T) {
	path := inProcess(t, Config{})
	for name, open := range map[string]func() (*Context, error){
		"embedded": func() (*Context, error) { return Open(Config{}) },
		"dialled":  func() (*Context, error) { return Dial(path) },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := open()
			require.NoError(t, err)
			defer c.Close()
			f := newFaulted(t, c)
			counts := func(r *Faults) uint64 {
				all, err := r.Counts()
				require.NoError(t, err)
				require.Len(t, all, 201)
				return all[0]
			}
			first, err := c.Faults(failing(2))
			require.NoError(t, err)
			require.NoError(t, f.write())
			second, err := c.Faults(failing(3))
			require.NoError(t, err)
			for range 2 {
				require.NoError(t, f.write())
			}
			require.ErrorIs(t, f.write(), cqe.RemoteAccess)
			require.Zero(t, counts(first), "the second rules took their place")
			require.EqualValues(t, 1, counts(second))
			require.NoError(t, first.Close())
			require.EqualValues(t, 1, counts(second), "what is over is not closed")
			require.NoError(t, second.Close())
			require.NoError(t, second.Close())
			require.EqualValues(t, 1, counts(second))

			third, err := c.Faults(failing(1))
			require.NoError(t, err)
			f = newFaulted(t, c)
			require.ErrorIs(t, f.write(), cqe.RemoteAccess)
			require.NoError(t, third.Close())
			require.NoError(t, newFaulted(t, c).write())
		})
	}
}

// Rules with a mistake change nothing. Rules end with their context, and an older engine has none.
func TestFaultsEnd(t *testing.T) {
	path := inProcess(t, Config{})
	setter, err := Dial(path)
	require.NoError(t, err)
	worker, err := Dial(path)
	require.NoError(t, err)
	defer worker.Close()

	r, err := setter.Faults(failing(1))
	require.NoError(t, err)
	_, err = setter.Faults(fault.Rules{Rules: []fault.Rule{{Name: "x"}}})
	require.ErrorContains(t, err, `nicless: faults: fault: rule 1 ("x"): has no action`)
	long := failing(1)
	for i := range long.Rules {
		long.Rules[i].Match.Program, long.Rules[i].Match.Device = "abcdefghijklmno", strings.Repeat("x", 300)
	}
	_, err = setter.Faults(long)
	require.ErrorContains(t, err, "at most 65536 are possible")
	require.ErrorIs(t, newFaulted(t, worker).write(), cqe.RemoteAccess, "of a client of the same user")
	require.NoError(t, setter.Close())
	require.NoError(t, r.Close())
	require.NoError(t, newFaulted(t, worker).write())

	worker.limits.Minor = 5
	_, err = worker.Faults(failing(1))
	require.ErrorContains(t, err, "the engine's protocol is 2.5; 2.6 is needed")
}

// A request that a rule refuses fails with the errno, in this process and through a socket.
func TestFaultsRefuseRequests(t *testing.T) {
	path := inProcess(t, Config{})
	for name, open := range map[string]func() (*Context, error){
		"embedded": func() (*Context, error) { return Open(Config{}) },
		"dialled":  func() (*Context, error) { return Dial(path) },
	} {
		t.Run(name, func(t *testing.T) {
			c, err := open()
			require.NoError(t, err)
			defer c.Close()
			pd, err := c.AllocPD()
			require.NoError(t, err)
			cq, err := c.CreateCQ(CQConfig{})
			require.NoError(t, err)
			r, err := c.Faults(fault.Rules{Rules: []fault.Rule{
				{Match: fault.Match{Times: 1}, Refuse: &fault.Refuse{Call: "create_qp", Errno: "ENOMEM"}},
				{Refuse: &fault.Refuse{Call: "reg_mr", Errno: "EAGAIN"}}}})
			require.NoError(t, err)
			_, err = pd.CreateQP(QPConfig{SendCQ: cq})
			require.ErrorIs(t, err, syscall.ENOMEM)
			_, err = pd.RegisterMemory(4096, FullAccess)
			require.ErrorIs(t, err, syscall.EAGAIN)
			_, err = pd.CreateQP(QPConfig{SendCQ: cq})
			require.NoError(t, err)
			require.NoError(t, r.Close())
			_, err = pd.RegisterMemory(4096, FullAccess)
			require.NoError(t, err)
		})
	}
}
