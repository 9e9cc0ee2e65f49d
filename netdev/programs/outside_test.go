//go:build linux && (amd64 || arm64)

package programs

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
)

// resolveName prints the addresses that a server has for a name: arguments are the server's address, udp or
// tcp, and the name.
func resolveName(args []string) error {
	ip, err := netip.ParseAddr(args[0])
	if err != nil {
		return err
	}
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, args[1], netip.AddrPortFrom(ip, 53).String())
	}}
	list, err := r.LookupHost(context.Background(), args[2]+".")
	if err == nil {
		fmt.Println("has", list)
	}
	return err
}

// dropped is how many packets the kernel has dropped at a node's server of names.
func dropped(n *node, a netip.Addr, network string) int {
	n.t.Helper()
	said := n.run("ss", "-H", "-l", "-n", "-m", "--"+network, "src", netip.AddrPortFrom(a, 53).String())
	found := regexp.MustCompile(`skmem:\(.*,d(\d+)\)`).FindStringSubmatch(said)
	require.NotNil(n.t, found, "%q", said)
	count, err := strconv.Atoi(found[1])
	require.NoError(n.t, err)
	return count
}

// Names are answered to nodes of the network and to the host itself, and not to a host that reaches the same
// address by another interface.
func TestNamesAreForTheNetwork(t *testing.T) {
	t.Parallel()
	proctest.Need(t, "ss", "ping")
	nodes := newNodes(t, 3)
	outside := nodes[2]
	b := newEngines(t, place{engines: "inside"}, nodes[:2])
	for _, n := range b.nodes {
		b.pick(n)
	}
	list, peer := b.ups[0].picked(), b.ups[1].picked()
	b.ups[1].until("it has found node 0", hasFound(list[0], 1))
	b.ups[0].until("it has found node 1", hasFound(peer[0], 1))

	outside.run("ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", strconv.Itoa(nodes[0].pid))
	for i, n := range []*node{nodes[0], outside} {
		n.run("ip", "address", "add", fmt.Sprintf("10.44.0.%d/24", i+1), "dev", "cable")
		n.run("ip", "address", "add", fmt.Sprintf("fd44::%d/64", i+1), "dev", "cable", "nodad")
		n.run("ip", "link", "set", "cable", "up")
	}
	for i, via := range []string{"10.44.0.1", "fd44::1"} {
		outside.run("ip", "route", "add", list[i].String(), "via", via)
		outside.run("ping", "-n", "-q", "-c", "1", "-w", "20", list[i].String())
		for _, network := range []string{"udp", "tcp"} {
			t.Logf("%v by %s", list[i], network)
			for _, n := range nodes[:2] {
				require.Contains(t, n.program("resolve-name", list[i], network, "node-1.nicless").succeeds(), peer[1].String())
			}
			require.Zero(t, dropped(nodes[0], list[i], network))
			p := outside.program("resolve-name", list[i], network, "node-1.nicless")
			p.awaits("its query is dropped", func() bool { return p.ended() || dropped(nodes[0], list[i], network) > 0 })
			require.NotContains(t, p.said.String(), "has")
		}
	}
}
