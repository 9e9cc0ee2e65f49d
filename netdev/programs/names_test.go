//go:build linux && (amd64 || arm64)

package programs

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
)

// A rack is nodes whose interfaces have picked their addresses.
type rack struct {
	*bed
	addresses [][]netip.Addr // by node
}

// newRack starts interfaces that pick their addresses, and waits until each knows all others.
func newRack(t *testing.T, p place, count int) *rack {
	t.Helper()
	r := &rack{bed: newEngines(t, p, newNodes(t, count))}
	for _, n := range r.nodes {
		r.pick(n)
	}
	have := make(map[netip.Addr]bool)
	for i, u := range r.ups {
		list := u.picked()
		for _, a := range list {
			require.False(t, have[a], "two nodes have %v", a)
			have[a] = true
		}
		r.addresses = append(r.addresses, list)
		conf := fmt.Sprintf("nameserver %v\noptions timeout:20\n", list[0])
		require.NoError(t, os.WriteFile(r.resolver(i), []byte(conf), 0o600))
	}
	for i, u := range r.ups {
		for j, list := range r.addresses {
			if i != j {
				u.until("it has found "+list[0].String(), hasFound(list[0], 1))
			}
		}
	}
	return r
}

// resolver is the path of what a node has in place of /etc/resolv.conf.
func (r *rack) resolver(node int) string { return filepath.Join(r.sockets, fmt.Sprint("resolv", node)) }

// begin starts a program that resolves names by the node's interface.
func (r *rack) begin(node int, argv ...string) *process {
	r.t.Helper()
	const shell = `mount --bind "$1" /etc/resolv.conf && shift && exec "$@"`
	return r.nodes[node].start(append([]string{"unshare", "--mount", "sh", "-c", shell, "sh", r.resolver(node)}, argv...)...)
}

// Each node finds each other one by its name, whose address nobody has configured.
func TestNames(t *testing.T) {
	t.Parallel()
	count := 3
	if *whole {
		count = 16
	}
	r := newRack(t, place{engines: "inside"}, count)
	var all []*process
	for from := range r.nodes {
		for _, to := range r.nodes {
			// Its own, too.
			all = append(all, r.begin(from, "ping", "-q", "-c", "3", "-i", "0.1", "-w", "60", to.name+".nicless"))
		}
		for _, p := range all {
			// ping sends until three answers have come, and fails if fewer have before its deadline. More can
			// come: on a busy machine an answer takes longer than the pause between two requests.
			require.NotContains(t, p.succeeds(), "duplicates")
		}
		all = nil
	}
	t.Run("dig", func(t *testing.T) { digs(t, r) })
	t.Run("glibc", func(t *testing.T) {
		said := r.begin(0, "getent", "ahosts", r.nodes[1].name+".nicless").succeeds()
		for _, a := range r.addresses[1] {
			require.Contains(t, said, a.String())
		}
		for _, a := range r.addresses[1] { // and back
			require.Contains(t, r.begin(0, "getent", "hosts", a.String()).succeeds(), r.nodes[1].name+".nicless")
		}
		require.Equal(t, 2, exitStatus(r.begin(0, "getent", "ahosts", "nobody.nicless")))
	})
}

func exitStatus(p *process) int {
	_ = p.wait()
	return p.cmd.ProcessState.ExitCode()
}

// digs queries names by dig, over UDP and TCP.
func digs(t *testing.T, r *rack) {
	proctest.Need(t, "dig")
	dig := func(args ...string) string {
		t.Helper()
		server := "@" + r.addresses[0][len(args)%2].String() // over IPv4, or IPv6
		return r.nodes[0].run(append([]string{"dig", server, "+tries=1", "+time=20"}, args...)...)
	}
	for _, way := range []string{"+notcp", "+tcp"} {
		for i, a := range r.addresses[1] {
			kind := []string{"A", "AAAA"}[i]
			require.Equal(t, a.String(), strings.TrimSpace(dig(way, "+short", "NODE-1.nicless", kind)))
			require.Equal(t, "node-1.nicless.", strings.TrimSpace(dig(way, "+short", "-x", a.String())))
		}
		require.Contains(t, dig(way, "nobody.nicless"), "status: NXDOMAIN")
		require.Contains(t, dig(way, "example.org"), "status: REFUSED")
		require.Contains(t, dig(way, "node-1.nicless", "TXT"), "status: NOERROR")
	}
}

// Eight pairs of nodes exchange TCP at once; beside it, the rate of one pair alone.
//
//	go test ./netdev/programs -run TestPairs -speed -v
func TestPairs(t *testing.T) {
	if !*speed {
		t.Skip("measures with -speed")
	}
	proctest.Need(t, "iperf3")
	const pairs = 8
	r := newRack(t, place{engines: "inside"}, 2*pairs)
	for round := range *rounds {
		one := r.rate(1)
		sum := r.rate(pairs)
		t.Logf("round %d: one pair %.2f Gbit/s, sum of %d pairs %.2f Gbit/s: %.2f of one", round, one, pairs, sum, sum/one)
	}
}

// rate returns the sum of the rates of that many pairs, which exchange data at the same time, in Gbit/s.
func (r *rack) rate(pairs int) (sum float64) {
	var clients, servers []*process
	for i := range pairs {
		s := r.begin(2*i+1, "iperf3", "--server", "--one-off", "--forceflush")
		s.says("Server listening")
		servers = append(servers, s)
	}
	for i := range pairs {
		argv := []string{"iperf3", "--json", "--time", strconv.Itoa(3), "--client", r.nodes[2*i+1].name + ".nicless"}
		clients = append(clients, r.begin(2*i, argv...))
	}
	for i, c := range clients {
		var report struct {
			End struct {
				Received struct {
					Bits float64 `json:"bits_per_second"`
				} `json:"sum_received"`
			}
		}
		said := c.succeeds()
		servers[i].succeeds()
		require.NoError(r.t, json.Unmarshal([]byte(said), &report), said)
		require.Positive(r.t, report.End.Received.Bits, said)
		sum += report.End.Received.Bits / 1e9
	}
	return sum
}
