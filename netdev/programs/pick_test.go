//go:build linux && (amd64 || arm64)

package programs

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/share"
)

// pick starts the interface of a node, which picks its addresses.
func (b *bed) pick(n *node, flags ...string) *up {
	b.t.Helper()
	n.picks, n.name = true, fmt.Sprint("node-", n.number)
	flags = append(flags, "--host", n.name)
	return b.up(n, flags...)
}

// picked waits until the interface is there, and returns the addresses that it has picked.
func (u *up) picked() (list []netip.Addr) {
	u.t.Helper()
	for _, text := range prefixOf.FindAllString(u.says("net ready"), -1) {
		p, err := netip.ParsePrefix(text)
		require.NoError(u.t, err)
		list = append(list, p.Addr())
	}
	require.NotEmpty(u.t, list)
	return list
}

var prefixOf = regexp.MustCompile(`[0-9a-f.:]+/\d+`)

// Without an address, nodes pick some that nobody has, and have them again when they come back.
func TestPick(t *testing.T) {
	t.Parallel()
	for i, p := range places {
		if (!*whole && p.name != "engines inside") || !share.Has(i) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			b := newEngines(t, p, newNodes(t, 3))
			for _, n := range b.nodes {
				b.pick(n)
			}
			have := make(map[netip.Addr]bool)
			var all [][]netip.Addr
			for _, u := range b.ups {
				list := u.picked()
				require.Len(t, list, 2)
				require.True(t, netip.MustParsePrefix("100.110.0.0/16").Contains(list[0]))
				require.True(t, netip.MustParsePrefix("fd6e:6963:6c65:7373::/64").Contains(list[1]))
				for _, a := range list {
					require.False(t, have[a], "two nodes have %v", a)
					have[a] = true
				}
				all = append(all, list)
			}
			lives := []int{1, 1, 1}
			reach := func() {
				for i, from := range b.nodes {
					for j := range b.nodes {
						for _, a := range all[j] {
							if i != j {
								b.ups[i].until("it has found "+a.String(), hasFound(a, lives[j]))
								from.run("ping", "-n", "-q", "-c", "1", "-w", "20", a.String())
							}
						}
					}
				}
			}
			reach()
			b.ups[1].ended = true
			b.ups[1].signal(syscall.SIGKILL)
			require.Error(t, b.ups[1].wait())
			lives[1]++
			require.Equal(t, all[1], b.pick(b.nodes[1]).picked())
			reach()
		})
	}
}

// hasFound reports whether a log says so many times that a peer with an address was found.
func hasFound(a netip.Addr, times int) func(string) bool {
	found := regexp.MustCompile(`"peer found".*\b` + regexp.QuoteMeta(a.String()) + `\b.*\n`)
	return func(said string) bool { return len(found.FindAllString(said, -1)) >= times }
}

// Nodes whose engines did not know each other, and have the same address, come apart when they do: the one
// that has picked it takes another, and the one to which a user has given it stays.
func TestTwoFabricsBecomeOne(t *testing.T) {
	t.Parallel()
	long(t)
	b := newEngines(t, place{engines: "inside"}, newNodes(t, 3))
	picks, given, observer := b.nodes[0], b.nodes[1], b.nodes[2]
	first := b.pick(picks)
	same := first.picked()[0]
	first.ended = true
	b.ends(first.process)
	b.up(observer).says("net ready")

	user := start(t, given.argv(command, "net", "up", "--addr", same.String()+"/16", "--link", b.link(given))...)
	user.says("net ready")
	b.ups[2].until("it has found the address", hasFound(same, 1))
	observer.run("ip", "route", "add", same.String()+"/32", "dev", "nicless0n")
	given.run("ip", "route", "add", observer.address()+"/32", "dev", "nicless0n")
	observer.run("ping", "-n", "-q", "-c", "1", "-w", "20", same.String())
	user.halts() // the others take it for dead
	b.ups[2].until("the peer is down", func(said string) bool {
		return strings.Contains(said, `"peer down"`) && strings.Contains(said, same.String())
	})
	again := b.pick(picks)
	require.Equal(t, same, again.picked()[0])
	b.ups[2].until("it has found the address again", hasFound(same, 2))

	user.signal(syscall.SIGCONT)
	again.says("the interface begins anew with another address")
	user.halts() // its link does not come up while the other picks
	again.until("it begins anew", func(said string) bool { return strings.Count(said, "net ready") == 2 })
	user.signal(syscall.SIGCONT)
	said := again.said.String()
	require.Contains(t, said, "the interface begins anew with another address")
	_, said, _ = strings.Cut(said, "begins anew")
	require.NotContains(t, said, same.String()+"/16")
	again.until("it has found the other", hasFound(same, 1))
	picks.run("ping", "-n", "-q", "-c", "1", "-w", "20", same.String())
	b.ends(user)
}
