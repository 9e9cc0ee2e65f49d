//go:build linux && (amd64 || arm64)

package programs

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/share"
)

// TestLife kills and stops interfaces and engines.
func TestLife(t *testing.T) {
	t.Parallel()
	for i, p := range places {
		if !*whole && p.name != "one engine, slots" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			for j, end := range []struct {
				name string
				of   func(*bed)
			}{{"killed", killed}, {"stopped", stopped}, {"ended", ended}, {"engine killed", engineKilled}} {
				if !share.Has(i, j) || (!*whole && end.name != "killed") || (p.engines == "inside" && end.name == "engine killed") {
					continue
				}
				t.Run(end.name, func(t *testing.T) { t.Parallel(); end.of(newBed(t, p, newNodes(t, 3))) })
			}
		})
	}
}

// An interface is killed while it copies, and comes back. The others see both, and go on.
func killed(b *bed) {
	t := b.t
	a, victim, c := b.nodes[0], b.nodes[1], b.nodes[2]
	lost := talk{a, victim, victim.address()}
	_, copying := lost.copying(1 << 40)
	copying.says("connected")
	u := b.ups[1]
	u.ended = true
	u.signal(syscall.SIGKILL)
	require.Error(t, u.wait())
	for _, other := range []int{0, 2} {
		b.ups[other].hears("peer down", victim, 1)
	}
	talk{a, c, c.address()}.copies(4 << 20)
	talk{a, c, c.address6()}.pings(20)

	b.up(victim).says("net ready")
	for _, other := range []int{0, 2} {
		b.ups[other].hears("peer found", victim, 2)
		b.ups[1].hears("peer found", b.nodes[other], 1)
	}
	for _, k := range talks(a, victim) {
		k.pings(20)
		k.copies(1 << 20)
	}
	talk{victim, c, c.address()}.copies(1 << 20)
}

// An interface is stopped, so that whatever is sent to it stays with its peers. They can exchange data all
// the same. When it continues, so do transfers that were begun.
func stopped(b *bed) {
	a, victim, c := b.nodes[0], b.nodes[1], b.nodes[2]
	k := talk{a, victim, victim.address()}
	server, client := k.copying(256 << 20)
	client.says("connected")
	b.ups[1].halts()
	lost := a.start("ping", "-n", "-q", "-i", "0.002", "-s", "60000", "-w", "4", victim.address6())
	for _, k := range []talk{{a, c, c.address()}, {c, a, a.address6()}} {
		k.copies(4 << 20)
		k.pings(20)
	}
	require.NotContains(b.t, lost.fails(), " 0 packets transmitted")
	talk{a, c, c.address()}.copies(1 << 20)
	require.NotContains(b.t, client.said.String(), "copied", "the copy was begun, and has not ended")

	b.ups[1].signal(syscall.SIGCONT)
	k.copied(server, client)
	k.pings(20)
	talk{victim, c, c.address6()}.copies(1 << 20)
}

// An interface ends when it is asked to. Its node has no interface then, the peers know why, and programs
// get an error at once.
func ended(b *bed) {
	t := b.t
	a, gone := b.nodes[0], b.nodes[1]
	require.Contains(t, gone.run("ip", "link"), "nicless0n")
	b.ups[1].ended = true
	b.ends(b.ups[1].process)
	require.NotContains(t, gone.run("ip", "link"), "nicless0n")
	b.ups[0].hears("peer down", gone, 1)
	for _, k := range talks(a, gone) {
		require.Contains(t, a.start("ping", "-n", "-c", "3", "-i", "0.1", "-W", "1", k.address).fails(), "nreachable")
	}
}

// Without its engine an interface ends, and says why.
func engineKilled(b *bed) {
	t := b.t
	b.dead = true
	for _, e := range b.engines {
		e.signal(syscall.SIGKILL)
	}
	for _, u := range b.ups {
		u.ended = true
		require.Contains(t, u.fails(), "engine")
		require.NotContains(t, u.node.run("ip", "link"), "nicless0n")
	}
}

// An address that an interface gets later is announced, and reached like its first.
func TestAddressComesLater(t *testing.T) {
	t.Parallel()
	for i, p := range places {
		if (!*whole && p.name != "engines inside") || !share.Has(i) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			const later = "10.9.9.9"
			b := newBed(t, p, newNodes(t, 2))
			from, to := b.nodes[0], b.nodes[1]
			to.start("ip", "address", "add", later+"/32", "dev", "nicless0n").succeeds()
			from.start("ip", "route", "add", later+"/32", "dev", "nicless0n").succeeds()
			b.ups[0].hears("peer up", to, 2)
			b.ups[1].hears("peer up", from, 2)
			talk{from, to, later}.pings(20)
			to.start("ip", "address", "del", later+"/32", "dev", "nicless0n").succeeds()
			b.ups[0].hears("peer up", to, 3)
			b.ups[1].hears("peer up", from, 3)
			talk{from, to, to.address()}.pings(20)
		})
	}
}
