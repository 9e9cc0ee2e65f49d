package nicless

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
)

// holder makes objects of all kinds, reads none of its events and answers, and copies 32 MiB
// again and again until it is stopped.
func holder(path string) error {
	const long = 32 << 20
	a, err := newPeer(path)
	if err != nil {
		return err
	}
	channel, err := a.ctx.CreateChannel()
	if err != nil {
		return err
	}
	cq, err := a.ctx.CreateCQ(CQConfig{Channel: channel})
	if err != nil {
		return err
	}
	srq, err := a.pd.CreateSRQ(SRQConfig{})
	if err != nil {
		return err
	}
	mr, err := a.pd.RegisterMemory(2*long, FullAccess)
	if err != nil {
		return err
	}
	var qps [16]*QP
	for i := range qps {
		qps[i], err = a.pd.CreateQP(QPConfig{SendCQ: cq, SRQ: srq})
		if err != nil {
			return err
		}
	}
	if err := Pair(qps[0], qps[1], Connection{}); err != nil {
		return err
	}
	// This connection sends as many requests as the engine takes, and never reads an answer.
	conn, err := net.Dial("unixpacket", path)
	if err != nil {
		return err
	}
	hello := control.Append(nil, control.OpHello, 0, 1, &control.Hello{Magic: control.Magic, Major: control.Major, Features: ^uint64(0)})
	if _, err := conn.Write(hello); err != nil {
		return err
	}
	for seq := uint64(2); err == nil; seq++ {
		_ = conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		_, err = conn.Write(control.Append(nil, control.OpOpenEvents, 0, seq, &control.Empty{}))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		fmt.Println("full")
	} else {
		fmt.Println("refused") // the engine has ended that connection
	}
	var done [16]Completion
	for range 2000 { // events that are not read, more than a channel can hold
		if err := cq.Arm(false); err != nil {
			return err
		}
		if err := qps[0].PostSend(&SendWR{Op: Write, Flags: Signaled, Data: []byte("x"), RemoteAddr: mr.Addr(), RKey: mr.RKey()}); err != nil {
			return err
		}
		for n := 0; n == 0; runtime.Gosched() {
			if n, err = cq.Poll(done[:]); err != nil {
				return err
			}
		}
	}
	for {
		for range 8 {
			if err := qps[0].PostSend(&SendWR{Op: Write, Flags: Signaled, SGE: []SGE{mr.SGE(0, long)}, RemoteAddr: mr.Addr() + long, RKey: mr.RKey()}); err != nil {
				return err
			}
		}
		if n, _ := fmt.Println("busy"); n == 0 {
			return errors.New("nobody listens")
		}
		for got := 0; got < 8; {
			n, err := cq.Poll(done[:])
			if err != nil {
				return err
			}
			for i := range done[:n] {
				if err := done[i].Err(); err != nil {
					return err
				}
			}
			got += n
			if n == 0 {
				runtime.Gosched()
			}
		}
	}
}

// A client that is stopped in the middle of its work, with unread events and answers, delays
// no other client: others connect, work and leave. When the client is killed, the engine gets
// everything back.
func TestAStoppedClientHoldsUpNobody(t *testing.T) {
	e, path := startEngine(t)
	before := e.holdings(t)
	h := rerun(t, "holder", path)
	// in case the engine waits for the client
	context.AfterFunc(await.Context(t), func() { _ = h.Process.Kill() })
	require.Contains(t, []string{"full", "refused"}, h.line(t))
	require.Equal(t, "busy", h.line(t))
	require.NoError(t, h.Process.Signal(syscall.SIGSTOP))
	until(t, "the client is stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.Process.Pid))
		require.NoError(t, err)
		_, state, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(state, "T")
	})

	ctx := await.Context(t)
	for range 3 {
		a, err := newPeer(path)
		require.NoError(t, err)
		b, err := newPeer(path)
		require.NoError(t, err)
		require.NoError(t, Pair(a.qp, b.qp, Connection{}))
		for range 100 {
			require.NoError(t, a.qp.PostSend(&SendWR{Op: Write, Flags: Signaled, Data: []byte("bystander"), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}))
			var c [1]Completion
			n, err := a.cq.Wait(ctx, c[:])
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.NoError(t, c[0].Err())
		}
		require.NoError(t, a.ctx.Close())
		require.NoError(t, b.ctx.Close())
	}

	h.kill() // SIGKILL ends even a stopped process
	until(t, "everything of the client is given back", func() bool { return e.holdings(t) == before })
}
