package lab

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Unmodified verbs programs of Debian run in a machine, on its engine.
func TestVerbs(t *testing.T) {
	long(t)
	m := files(t, stock)
	m.has(t, "ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "libmlx5")
	p := newPair(t, "pcie", m)
	p.startEngines()
	t.Run("in one machine", func(t *testing.T) {
		p.use(t)
		a := p.nodes[0]
		said := a.run("nicless", "run", "--engine", a.socket, "ibv_devinfo", "-v")
		require.Regexp(t, `hca_id:\s+nicless0`, said)
		require.Regexp(t, `state:\s+PORT_ACTIVE`, said)
		verbsPair(a, a, "127.0.0.1", "ibv_rc_pingpong", "-c", "-g", "0", "-n", "20")
		verbsPair(a, a, "127.0.0.1", "ib_write_bw", "-F", "-n", "20", "-s", "4096")
	})
}

// verbsPair runs a program twice: a server, and a client that connects to it at an address. Both have
// to succeed, and the client has to say how much it has moved.
func verbsPair(servers, clients *place, address string, argv ...string) {
	servers.t.Helper()
	const port = 18555
	verbs := func(p *place) []string {
		return append(append([]string{"nicless", "run", "--engine", p.socket, "--"}, argv...), "-p", fmt.Sprint(port))
	}
	began := time.Now()
	server := servers.start(verbs(servers)...)
	listens(server, port)
	client := clients.start(append(verbs(clients), address)...)
	said := client.succeeds()
	server.succeeds()
	result := regexp.MustCompile(`(?m)^ *(\d+ bytes in .*|\d+[ \t]+\d+[ \t]+[0-9.]+[ \t]+[0-9.]+[ \t]+[0-9.]+[ \t]*)$`).FindString(said)
	require.NotEmpty(servers.t, result, said)
	servers.t.Logf("%s, %s to %s, %v: %s", strings.Join(argv, " "), clients.name, servers.name, time.Since(began).Round(time.Second/10), strings.TrimSpace(result))
}

// listens waits until a program listens on a TCP port in its machine.
func listens(r *program, port int) {
	r.at.t.Helper()
	line := regexp.MustCompile(fmt.Sprintf(`(?m)^.*:%04X .* 0A .*$`, port))
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if line.MatchString(r.at.run("cat", "/proc/net/tcp", "/proc/net/tcp6")) {
			return
		}
		select {
		case <-r.done:
			require.FailNow(r.at.t, "ended", "%s: ended (%v); it said:\n%s", r.name, r.err, r.said.String())
		default:
		}
	}
	require.FailNow(r.at.t, "too slow", "%s: does not listen after %v; it said:\n%s", r.name, patience, r.said.String())
}
