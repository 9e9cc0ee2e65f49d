package lab

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

// Unmodified verbs programs of Debian run in a machine, on its engine.
func TestVerbs(t *testing.T) {
	long(t)
	for i, kind := range kinds {
		if !share.Has(2 + i) { // after TestPCIe and TestCXL
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := files(t, stock)
			m.has(t, "ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "libmlx5")
			p := newPair(t, kind, m)
			p.startEngines()
			verbsPrograms(t, p)
		})
	}
}

func verbsPrograms(t *testing.T, p *pair) {
	t.Run("in one machine", func(t *testing.T) {
		p.use(t)
		a := p.nodes[0]
		said := a.run("nicless", "run", "--engine", a.socket, "ibv_devinfo", "-v")
		require.Regexp(t, `hca_id:\s+nicless0`, said)
		require.Regexp(t, `state:\s+PORT_ACTIVE`, said)
		verbsPair(a, a, "127.0.0.1", "ibv_rc_pingpong", "-c", "-g", "0", "-n", "20")
		verbsPair(a, a, "127.0.0.1", "ib_write_bw", "-F", "-n", "20", "-s", "4096")
	})
	// The programs exchange what they need by TCP, over an interface whose packets go the same way.
	t.Run("from machine to machine", func(t *testing.T) {
		p.use(t)
		p.startNets(func(*place) []string { return nil })
		for _, n := range p.nodes {
			n.gid = gid(n)
		}
		for i, to := range p.nodes {
			from := p.nodes[1-i]
			before := sent(from, i)
			verbsPair(to, from, to.address, "ibv_rc_pingpong", "-c", "-g", "GID", "-n", "20")
			verbsPair(to, from, to.address, "ib_write_bw", "-F", "-x", "GID", "-n", "20", "-s", "65536")
			// The pool's packets have up to 16 KiB.
			require.Greater(t, sent(from, i), before+20+20*4, "the pool has carried the data")
		}
	})
}

// gid returns the index of the address of a machine's network interface.
func gid(p *place) string {
	p.t.Helper()
	said := p.run("nicless", "run", "--engine", p.socket, "ibv_devinfo", "-v")
	found := regexp.MustCompile(`GID\[ *(\d+)\]:\s+::ffff:` + regexp.QuoteMeta(p.address) + `, RoCE v2`).FindStringSubmatch(said)
	require.NotNil(p.t, found, said)
	return found[1]
}

// sent returns how many packets an engine has sent to a node.
func sent(p *place, node int) uint64 {
	p.t.Helper()
	said := p.run("nicless", "links", "--engine", p.socket)
	row := regexp.MustCompile(fmt.Sprintf(`(?m)^  node %d +up +\d+ +(\d+) `, node)).FindStringSubmatch(said)
	require.NotNil(p.t, row, said)
	n, err := strconv.ParseUint(row[1], 10, 64)
	require.NoError(p.t, err)
	return n
}

// verbsPair runs a program twice: a server, and a client that connects to it at an address. Both have
// to succeed, and the client has to say how much it has moved. GID in argv is the index of a machine's
// address.
func verbsPair(servers, clients *place, address string, argv ...string) {
	servers.t.Helper()
	const port = 18555
	verbs := func(p *place) []string {
		line := append([]string{"nicless", "run", "--engine", p.socket, "--"}, argv...)
		if i := slices.Index(line, "GID"); i >= 0 {
			line[i] = p.gid
		}
		return append(line, "-p", fmt.Sprint(port))
	}
	began := time.Now()
	server := servers.start(verbs(servers)...)
	listens(server, port)
	client := clients.start(append(verbs(clients), address)...)
	client.with, server.with = []*program{server}, []*program{client}
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
	r.awaits(fmt.Sprintf("it listens on port %d", port), func() bool {
		if line.MatchString(r.at.run("cat", "/proc/net/tcp", "/proc/net/tcp6")) {
			return true
		}
		if r.ended() {
			require.FailNow(r.at.t, "ended", "ended (%v) and does not listen: %v", r.err, r.job())
		}
		return false
	})
}
