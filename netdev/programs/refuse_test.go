//go:build linux && (amd64 || arm64)

package programs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
)

// Impossible options are refused with a sentence, and leave nothing behind.
func TestRefused(t *testing.T) {
	t.Parallel()
	proctest.Need(t, "setpriv")
	nodes := newNodes(t, 2)
	b := newEngines(t, places[0], nodes)
	b.up(b.nodes[0]).says("net ready")
	other := b.nodes[1]
	refused := func(says string, argv ...string) {
		t.Helper()
		said := other.start(argv...).fails()
		require.Contains(t, said, says)
		require.NotContains(t, said, "net ready")
		require.NotContains(t, said, "hint: start an engine")    // it is not about
		require.NotContains(t, said, "hint: the mode of the so") // the engine's socket
		require.NotContains(t, other.run("ip", "link"), "nicless0n")
	}
	up := []string{command, "net", "up", "--engine", b.socket(other)}
	with := func(args ...string) []string { return append(up[:len(up):len(up)], args...) }

	refused("hint: --addr with another address", with("--addr", "192.168.8.100/24")...)
	refused("address fd08::100 is taken", with("--addr", "192.168.8.101/24", "--addr", "fd08::100/64")...)
	refused("MTU 67; it is 68 to 65535", with("--addr", "192.168.8.101/24", "--mtu", "67")...)
	refused("IPv6 needs at least 1280", with("--addr", "fd08::101/64", "--mtu", "1279")...)
	refused("has 16 bytes; the limit is 15", with("--addr", "192.168.8.101/24", "--name", "0123456789abcdef")...)
	refused("192.168.8.0/24 is that of the network", with("--addr", "192.168.8.0/24")...)
	refused("192.168.8.255/24 is that of the network", with("--addr", "192.168.8.255/24")...)
	refused("--link auto: interfaces find each other over pools and UCX only", command, "net", "up", "--addr", "192.168.8.101/24", "--link", "auto")
	refused("is not an address", with("--addr", "192.168.8.101")...)
	refused("there is no /dev/net/tun: run modprobe tun", append([]string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs none /dev/net && exec "$@"`, "sh"}, with("--addr", "192.168.8.101/24")...)...)
	refused("net up: --slots /dev/shm/x is also a part of pool /dev/shm/x", command, "net", "up", "--addr", "192.168.8.101/24", "--link", "pool:/dev/shm/x,node=0", "--slots", "/dev/shm/x,node=0,offset=128M")
	refused("making it needs the capability CAP_NET_ADMIN", append([]string{"setpriv", "--bounding-set", "-all", "--inh-caps", "-all"}, with("--addr", "192.168.8.101/24")...)...)

	// Networks from which nothing can be picked.
	refused("--addr 192.168.8.101/24 and --prefix 10.9.0.0/16 exclude each other", with("--addr", "192.168.8.101/24", "--prefix", "10.9.0.0/16")...)
	refused("prefix 10.9.0.1/16 is not a network", with("--prefix", "10.9.0.1/16")...)
	refused("prefixes 10.9.0.0/16 and 10.9.1.0/24 overlap", with("--prefix", "10.9.0.0/16", "--prefix", "10.9.1.0/24")...)
	refused("host's name \"a_b\"", with("--host", "a_b")...)

	// An address of this node that another interface has.
	other.run("ip", "address", "add", "192.168.8.101/32", "dev", "lo")
	refused("interface lo of this host has 192.168.8.101/32, and addresses would be picked from 192.168.8.0/24", with("--prefix", "192.168.8.0/24")...)
	refused("address 192.168.8.101: interface lo of this host has it already", with("--addr", "192.168.8.101/24")...)
	other.run("ip", "address", "delete", "192.168.8.101/32", "dev", "lo")

	// A second interface with the name of the first.
	said := b.nodes[0].start(with("--addr", "192.168.8.105/24")...).fails()
	require.Contains(t, said, "interface nicless0n is used by another process")
	require.Contains(t, said, "hint: a second interface needs another name")
}

// A peer with another MTU is reported in the log, and TCP works.
func TestOtherMTU(t *testing.T) {
	t.Parallel()
	nodes := newNodes(t, 2)
	b := newEngines(t, places[1], nodes)
	b.up(b.nodes[0])
	b.up(b.nodes[1], "--mtu", "1500")
	b.joined()
	for i, its := range []string{"its=1500 own=65520", "its=65520 own=1500"} {
		warned := b.ups[i].said.String()
		require.Contains(t, warned, "a peer has another MTU")
		require.Contains(t, warned, its)
	}
	for _, k := range append(talksBothWays(b.nodes[0], b.nodes[1]), talksBothWays(b.nodes[1], b.nodes[0])...) {
		k.copies(2 << 20)
		k.pings(20)
		k.asks("udp", 0, 1000, 1450)
	}
	// Longer packets are answered, and then the kernel sends shorter ones.
	for i, k := range talks(b.nodes[0], b.nodes[1]) {
		said := b.nodes[0].start("ping", "-n", "-c", "3", "-i", "0.2", "-M", "do", "-s", "4000", k.address).fails()
		require.Contains(t, said, []string{"mtu = 1500", "mtu=1500"}[i])
		k.asks("udp", 2000, 9000)
	}
}

func talksBothWays(a, b *node) []talk {
	k := talks(a, b)
	return k[:]
}

// An interface that root made for a user is used without privilege, and stays.
func TestInterfaceOfRoot(t *testing.T) {
	t.Parallel()
	proctest.Need(t, "setpriv")
	nodes := newNodes(t, 2)
	b := newEngines(t, places[1], nodes)
	made := b.nodes[0]
	for _, l := range []string{
		"ip tuntap add dev nicless0n mode tun user 0", "ip link set dev nicless0n mtu 65520 up",
		"ip address add 192.168.8.100/24 dev nicless0n", "ip address add fd08::100/64 dev nicless0n nodad",
	} {
		made.run(strings.Fields(l)...)
	}
	u := made.start(append([]string{"setpriv", "--bounding-set", "-all", "--inh-caps", "-all"}, b.argv(made)...)...)
	b.ups[0] = &up{process: u, node: made}
	b.up(b.nodes[1])
	b.joined()
	for _, k := range talks(b.nodes[1], made) {
		k.pings(20)
		k.copies(2 << 20)
	}
	b.ends(u)
	require.Contains(t, made.run("ip", "link"), "nicless0n")
}
