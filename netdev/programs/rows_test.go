//go:build linux && (amd64 || arm64)

package programs

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/internal/proctest"
	"github.com/nicless/nicless/internal/share"
)

// Packets of two nodes travel between interfaces of nicless, over every kind of engine.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	for i, p := range places {
		for j, mtu := range []int{65520, 1500} {
			if !share.Has(i, j) {
				continue
			}
			if !*whole && (p.slots != (p.engines == "one") || p.engines == "linked" || mtu == 1500) {
				continue // one engine with slots, and engines inside without
			}
			t.Run(fmt.Sprintf("%s, MTU %d", p.name, mtu), func(t *testing.T) {
				t.Parallel()
				talkAll(newBed(t, p, newNodes(t, 2), "--mtu", strconv.Itoa(mtu)).nodes)
			})
		}
	}
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		long(t)
		share.Only(t, 0)
		talkAll(newBed(t, places[1], newNodes(t, 2), "--plain", "--mtu", "9000").nodes)
	})
	t.Run("UCX with keys", func(t *testing.T) {
		t.Parallel()
		share.Only(t, 1)
		buildUCX(t)
		talkAll(newBed(t, place{engines: "linked", ucx: true}, newNodes(t, 2), "--mtu", "9000").nodes)
	})
	t.Run("coherence=none", func(t *testing.T) {
		t.Parallel()
		long(t)
		share.Only(t, 2)
		b := newEngines(t, place{engines: "inside"}, newNodes(t, 2))
		for _, n := range b.nodes {
			b.up(n, "--slots", fmt.Sprintf("%s/slots,node=%d,coherence=none", b.memory, n.number))
		}
		b.joined()
		talkAll(b.nodes)
	})
}

// buildUCX builds the program that carries packets over UCX, beside the command.
func buildUCX(t *testing.T) {
	t.Helper()
	if found, _ := filepath.Glob("/usr/lib/*-linux-gnu/libucp.so.0"); found == nil {
		proctest.Missing(t, "NOT TESTED: libucp.so.0 is not installed (Debian: apt install libucx0)")
	}
	said, err := exec.Command("make", "-s", "-C", repository+"/fabric/ucx/carrier", "OUT="+filepath.Join(filepath.Dir(command), "nicless-ucx")).CombinedOutput()
	require.NoError(t, err, "%s", said)
}

// The same without nicless: what the tests ask for is right.
func TestTwoNodesOfTheKernel(t *testing.T) {
	t.Parallel()
	for i, mtu := range []int{1500, 65520} {
		t.Run(fmt.Sprintf("direct, MTU %d", mtu), func(t *testing.T) {
			t.Parallel()
			if mtu != 1500 {
				long(t)
			}
			share.Only(t, i)
			nodes := newNodes(t, 2)
			direct(t, nodes, mtu)
			talkAll(nodes)
		})
	}
	t.Run("cable", func(t *testing.T) {
		t.Parallel()
		long(t)
		share.Only(t, 2)
		nodes := newNodes(t, 2)
		cable(nodes, 1500)
		talkAll(nodes)
	})
}

// 1 GiB arrives as it was sent: by a common engine, and by linked ones, with and without shared slots.
func TestGigabyte(t *testing.T) {
	t.Parallel()
	long(t)
	for i, p := range places {
		if p.engines == "inside" || !share.Has(i) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			nodes := newBed(t, p, newNodes(t, 2)).nodes
			talk{nodes[0], nodes[1], nodes[1].address()}.copies(1 << 30)
		})
	}
}

// talkAll has two nodes exchange packets of every kind. The nodes should be new: a flood leaves datagrams of
// which fragments were lost, and for up to a minute they take room that other fragments would need.
func talkAll(nodes []*node) {
	nodes[0].t.Helper()
	for _, k := range talks(nodes[0], nodes[1]) {
		k.pings(50)
		size, all := 4<<20, []any{0, 1, 2, 3, 7, 8, 64, 1447, 1448, "1450-1454", "1470-1474", 9000, 32768, 65487, 65488, "65491-65494", 65507}
		if *whole {
			size, all = *volume<<20, []any{"0-3100", "4000-4200", "8900-9100", "16300-16500", "32700-32900", "65300-65507"}
		}
		k.copies(size)
		talk{nodes[1], nodes[0], nodes[0].address()}.copies(size)
		k.asks("udp", all...)
		k.asks("raw", 0, 1, 2, 3, 4, 5, 6, 7, 8, 100, 1480, 65475)
		k.floods(2000, 1000)
		k.floods(200, 65000)
		if *whole {
			k.iperf(1)
			k.iperf(1, "--reverse")
			k.iperf(1, "--udp", "--bitrate", "200M", "--length", "1400")
		}
	}
	// Both directions at once.
	forth, back := talk{nodes[0], nodes[1], nodes[1].address()}, talk{nodes[1], nodes[0], nodes[0].address6()}
	s1, c1 := forth.copying(8 << 20)
	s2, c2 := back.copying(8 << 20)
	forth.copied(s1, c1)
	back.copied(s2, c2)
}

// Engine and interfaces share one core, as in a small virtual machine.
func TestOneCore(t *testing.T) {
	long(t)
	proctest.Need(t, "taskset")
	var cores unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &cores))
	first := 0
	for !cores.IsSet(first) {
		first++
	}
	for _, p := range share.Of([]place{places[1], places[4]}) {
		p.core = strconv.Itoa(first)
		t.Run(p.name, func(t *testing.T) {
			nodes := newBed(t, p, newNodes(t, 2)).nodes
			for _, k := range talks(nodes[0], nodes[1]) {
				t.Logf("ping: %.0f us", k.roundTrip(100))
				k.pings(50)
				k.copies(4 << 20)
				k.asks("udp", 0, 1, 1000, 9000, 65507)
			}
		})
	}
}

// UDP datagrams of every size come back, one after the other. Those that are longer than the MTU travel in
// fragments. Packets without a header behind that of IP are shorter than any datagram.
func TestEverySize(t *testing.T) {
	t.Parallel()
	long(t)
	for i, p := range []place{places[1], places[4]} {
		if !share.Has(i) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			nodes := newBed(t, p, newNodes(t, 2)).nodes
			k := talks(nodes[0], nodes[1])[i]
			k.asks("raw", "0-40")
			k.asks("udp", "0-65507")
		})
	}
}

// iperf runs iperf3 for some seconds and returns Gbit/s, as the receiver counts.
func (k talk) iperf(seconds int, flags ...string) float64 {
	k.from.t.Helper()
	proctest.Need(k.from.t, "iperf3")
	server := k.to.start("iperf3", "--server", "--one-off", "--forceflush", "--bind", k.address)
	server.says("Server listening")
	argv := append([]string{"iperf3", "--json", "--time", strconv.Itoa(seconds), "--client", k.address}, flags...)
	client := k.from.start(argv...)
	together(server, client)
	said := client.succeeds()
	server.succeeds()
	var r struct {
		End struct {
			Received struct {
				Bits float64 `json:"bits_per_second"`
			} `json:"sum_received"`
			Sum struct {
				Bits    float64 `json:"bits_per_second"`
				Packets int
				Lost    int `json:"lost_packets"`
			}
		}
	}
	require.NoError(k.from.t, json.Unmarshal([]byte(said), &r), said)
	bits := r.End.Received.Bits
	if bits == 0 { // UDP
		bits = r.End.Sum.Bits
		require.Less(k.from.t, r.End.Sum.Lost, r.End.Sum.Packets, said)
	}
	require.Positive(k.from.t, bits, said)
	return bits / 1e9
}

// Three nodes all talk at once.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	nodes := newNodes(t, 3)
	for i, p := range places {
		if (!*whole && p.name != "one engine, slots") || !share.Has(i) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			b := newBed(t, p, nodes)
			size := 2 << 20
			if *whole {
				size = *volume << 20 / 4
			}
			var checks []func()
			for _, from := range b.nodes {
				for _, to := range b.nodes {
					if from == to {
						continue
					}
					for _, k := range talks(from, to) {
						server, client := k.copying(size)
						ping := k.pinging("0.01")
						checks = append(checks, func() { k.copied(server, client) }, func() { k.pinged(ping, 20) })
					}
				}
			}
			for _, check := range checks {
				check()
			}
		})
	}
}
