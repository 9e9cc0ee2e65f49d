package include

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
)

// inNetwork runs the test again in a network namespace whose lo has these addresses, and returns false.
// There, it returns true.
func inNetwork(t *testing.T, addresses ...string) bool {
	t.Helper()
	const mark = "NICLESS_INCLUDE_NETWORK"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	if said, err := exec.Command("unshare", "--user", "--map-root-user", "--net", "ip", "link").CombinedOutput(); err != nil {
		t.Skipf("needs user namespaces and ip: %v %s", err, said)
	}
	script := "ip link set lo up"
	for _, a := range addresses {
		script += " && ip address add " + a + " dev lo"
	}
	cmd := exec.CommandContext(await.Context(t), "unshare", "--user", "--map-root-user", "--net", "sh", "-c",
		script+` && exec "$@"`, "sh", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	if strings.Contains(string(said), "--- SKIP: "+t.Name()) {
		t.Skipf("%s", said)
	}
	require.Contains(t, string(said), "--- PASS: "+t.Name())
	return false
}

// A program in Go dials a C program over RoCE, which listens for all, and the other way round.
func TestNamesOverRoCE(t *testing.T) {
	if !inNetwork(t, "10.66.0.1/24", "10.66.0.2/24") {
		return
	}
	each(t, "names", func(t *testing.T, path string) {
		ctx := await.Context(t)
		socket := serve(t, "roce:10.66.0.1")
		c, err := nicless.Open(nicless.Config{Links: []string{"roce:10.66.0.2"}})
		require.NoError(t, err)
		defer c.Close()
		pd, err := c.AllocPD()
		require.NoError(t, err)
		mr, err := pd.RegisterMemory(4096, nicless.FullAccess)
		require.NoError(t, err)
		mr.Store64(0, 0xabcd)
		cq, err := c.CreateCQ(nicless.CQConfig{})
		require.NoError(t, err)
		q, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
		require.NoError(t, err)
		cmd := exec.CommandContext(ctx, path, socket, "listen-all", "c")
		cmd.Stderr = t.Output()
		lines := start(t, cmd)
		require.Equal(t, "listens", lines())
		peer, err := c.DialName(ctx, "c@10.66.0.1", q, nicless.Connection{}, mr.Remote("go's"))
		require.NoError(t, err)
		require.Equal(t, "peer go's of 4096 bytes", lines())
		write(t, q, cq, mr, &peer)
		require.Equal(t, "got abcd", lines())
		require.NoError(t, cmd.Wait())
		require.NoError(t, q.Close())

		q, err = pd.CreateQP(nicless.QPConfig{SendCQ: cq})
		require.NoError(t, err)
		l, err := c.ListenName("go", nicless.ListenConfig{ToAll: true})
		require.NoError(t, err)
		cmd = exec.CommandContext(ctx, path, socket, "dial", "go@10.66.0.2")
		cmd.Stderr = t.Output()
		lines = start(t, cmd)
		call, err := l.Accept(ctx)
		require.NoError(t, err)
		peer = call.Peer()
		require.NoError(t, call.Accept(ctx, q, nicless.Connection{}, mr.Remote("go's")))
		require.Equal(t, "peer go's of 4096 bytes", lines())
		write(t, q, cq, mr, &peer)
		require.Equal(t, "got abcd", lines())
		require.NoError(t, cmd.Wait())
	})
}
