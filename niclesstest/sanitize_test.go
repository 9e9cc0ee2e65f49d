//go:build linux && (amd64 || arm64)

package niclesstest

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nicless/nicless"
	"github.com/stretchr/testify/require"
)

// useKeyThatIsGone posts a WRITE to memory that is deregistered, and takes its completion.
func useKeyThatIsGone(t testing.TB, mr *nicless.MR, wr *nicless.SendWR, do func(*nicless.SendWR)) {
	far, err := mr.Register(0, 64, nicless.FullAccess)
	require.NoError(t, err)
	wr.RemoteAddr, wr.RKey = far.Addr(), far.RKey()
	do(wr)
	require.NoError(t, far.Close())
	do(wr)
}

// A mistake fails the test, which gets both accesses and the stack of the post.
func TestDeviceSanitize(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		r := report(func(t testing.TB) {
			d := New(t)
			d.Sanitize()
			d.Allow("key-refused", "key-unknown") // the requester and the owner are told
			a, b := d.Pair(PairConfig{TwoClients: true})
			if wrong {
				useKeyThatIsGone(t, b.MR, a.Write(64), func(wr *nicless.SendWR) { a.Do(wr) })
				return
			}
			require.NoError(t, a.Do(a.Write(64)).Err())
		})
		if !wrong {
			require.Empty(t, r.errors)
			continue
		}
		requireKeyGone(t, r)
	}
}

func requireKeyGone(t *testing.T, r *record) {
	t.Helper()
	require.Len(t, r.errors, 1)
	text := r.errors[0]
	require.Contains(t, text, "niclesstest: the sanitizer has found a mistake:\n==================\nERROR: nicless sanitizer: key-gone: ")
	require.Contains(t, text, "Deregistration by ")
	_, stack, found := strings.Cut(text, "    #0 sanitize_test.go:")
	require.True(t, found, text)
	require.Contains(t, stack, "niclesstest.useKeyThatIsGone\n")
}

// The same of a context that the test has opened itself.
func TestSanitize(t *testing.T) {
	r := report(func(t testing.TB) {
		c, err := nicless.Open(nicless.Config{})
		require.NoError(t, err)
		defer c.Close()
		Sanitize(t, c)
		pd, err := c.AllocPD()
		require.NoError(t, err)
		mr, err := pd.RegisterMemory(4096, nicless.FullAccess)
		require.NoError(t, err)
		cq, err := c.CreateCQ(nicless.CQConfig{})
		require.NoError(t, err)
		var q [2]*nicless.QP
		for i := range q {
			q[i], err = pd.CreateQP(nicless.QPConfig{SendCQ: cq})
			require.NoError(t, err)
		}
		require.NoError(t, nicless.Pair(q[0], q[1], nicless.Connection{}))
		wr := &nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, SGE: []nicless.SGE{mr.SGE(1024, 64)}}
		useKeyThatIsGone(t, mr, wr, func(wr *nicless.SendWR) {
			require.NoError(t, q[0].PostSend(wr))
			var c [1]nicless.Completion
			_, err := cq.Wait(context.Background(), c[:])
			require.NoError(t, err)
		})
	})
	requireKeyGone(t, r)
}

// A context that cannot be sanitized fails the test.
func TestSanitizeClosed(t *testing.T) {
	r := report(func(t testing.TB) { Sanitize(t, new(nicless.Context)) })
	require.Len(t, r.errors, 1)
	require.Contains(t, r.errors[0], "niclesstest: nicless: sanitize: ")
}

// The sanitizer works with each clock. With Held, time has to pass before a request is executed.
func TestSanitizeClocks(t *testing.T) {
	work := func(t *testing.T, cfg Config) {
		d := NewWith(t, cfg)
		s := d.Sanitize()
		a, _ := d.Pair(PairConfig{})
		for range 3 {
			a.Post(a.Write(64))
			if cfg.Clock == Held {
				d.Advance(time.Millisecond)
			}
			require.NoError(t, a.Next().Err())
		}
		require.Empty(t, s.Reports())
	}
	clocks(t, work)
	t.Run("bubble", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { work(t, Config{Clock: Bubble}) })
	})
}
