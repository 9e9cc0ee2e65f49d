package include

import (
	"bufio"
	"fmt"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
)

// A C client dials a name of a Go program, and listens under one that a Go program dials. Each learns of the
// memory that the other offers, and can be written to at once.
func TestNames(t *testing.T) {
	each(t, "names", func(t *testing.T, path string) {
		socket := serve(t)
		ctx := await.Context(t)
		c, err := nicless.Dial(socket)
		require.NoError(t, err)
		defer c.Close()
		pd, err := c.AllocPD()
		require.NoError(t, err)
		mr, err := pd.RegisterMemory(4096, nicless.FullAccess)
		require.NoError(t, err)
		mr.Store64(0, 0xabcd)
		cq, err := c.CreateCQ(nicless.CQConfig{})
		require.NoError(t, err)
		for _, how := range []string{"dial", "listen"} {
			q, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
			require.NoError(t, err)
			l, err := c.ListenName("go", nicless.ListenConfig{})
			require.NoError(t, err)
			cmd := exec.CommandContext(ctx, path, socket, how, map[string]string{"dial": "go", "listen": "c"}[how])
			cmd.Stderr = t.Output()
			line := start(t, cmd)
			var peer nicless.Descriptor
			if how == "dial" {
				call, err := l.Accept(ctx)
				require.NoError(t, err)
				peer = call.Peer()
				require.NoError(t, call.Accept(ctx, q, nicless.Connection{}, mr.Remote("go's")))
			} else {
				require.Equal(t, "listens", line())
				peer, err = c.DialName(ctx, "c", q, nicless.Connection{}, mr.Remote("go's"))
				require.NoError(t, err)
			}
			require.Equal(t, "peer go's of 4096 bytes", line())
			write(t, q, cq, mr, &peer)
			require.Equal(t, fmt.Sprintf("got %x", 0xabcd), line())
			require.NoError(t, cmd.Wait())
			require.NoError(t, l.Close())
			require.NoError(t, q.Close())
		}
		out, err := run(t, path, socket, "dial", "unknown")
		require.Error(t, err)
		require.Contains(t, out, `no other program announces "unknown" to this one`)
		out, err = run(t, path, socket, "listen", "a@b")
		require.Error(t, err)
		require.Contains(t, out, `name "a@b" has @ or a space`)
	})
}

// write writes 8 bytes into the memory that the peer offers.
func write(t *testing.T, q *nicless.QP, cq *nicless.CQ, mr *nicless.MR, peer *nicless.Descriptor) {
	t.Helper()
	m, err := peer.Find("m")
	require.NoError(t, err)
	require.NoError(t, q.PostSend(&nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled,
		RemoteAddr: m.Addr, RKey: m.RKey, SGE: []nicless.SGE{mr.SGE(0, 8)}}))
	var done [1]nicless.Completion
	_, err = cq.Wait(await.Context(t), done[:])
	require.NoError(t, err)
	require.NoError(t, done[0].Err())
}

// start starts a program, and returns a function that waits for the next line that it prints.
func start(t *testing.T, cmd *exec.Cmd) (line func() string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	return func() string {
		t.Helper()
		require.True(t, lines.Scan(), "the program has ended")
		return lines.Text()
	}
}
