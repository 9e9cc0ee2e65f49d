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
		at := fmt.Sprintf("go@%016x", c.Device())
		for _, way := range [][2]string{{"dial", "go"}, {"dial", at}, {"listen", "c"}} {
			how := way[0]
			q, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
			require.NoError(t, err)
			l, err := c.ListenName("go", nicless.ListenConfig{})
			require.NoError(t, err)
			cmd := exec.CommandContext(ctx, path, socket, how, way[1])
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
		out, err = run(t, path, socket, "dial", "go@0123456789abcdef")
		require.Error(t, err)
		require.Contains(t, out, `no other program announces "go" to this one`)
		q, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
		require.NoError(t, err)
		for _, place := range []string{"", "b", "0000000000000000", "+123456789abcdef", "0.0.0.0", "::", "::ffff:0.0.0.0", "1.2.3",
			"01.2.3.4", "fe80::1%lo", "b@c"} {
			const words = "follows the @; the number of an engine (16 hexadecimal digits) or an IP address is possible"
			_, err = c.DialName(ctx, "go@"+place, q, nicless.Connection{})
			require.ErrorContains(t, err, words, place)
			out, err = run(t, path, socket, "dial", "go@"+place)
			require.Error(t, err)
			require.Contains(t, out, words, place)
		}
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
