//go:build linux && (amd64 || arm64)

package programs

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/nicless/nicless/internal/proctest"
)

// A column of the table: what carries packets between two nodes.
type column struct {
	name  string
	nodes []*node
	to    string // address, if it is not the second node's
	gbits []float64
	us    []float64 // round trip
}

func (c *column) talk() talk {
	k := talk{c.nodes[0], c.nodes[1], c.nodes[1].address()}
	if c.to != "" {
		k = talk{c.nodes[0], c.nodes[0], c.to}
	}
	return k
}

// TestSpeed prints how fast TCP and ping are over the kernel's own interfaces, over two TUNs that
// one thread joins, and over nicless. All are measured in turns, and compared by the ratios within a
// turn, because other work on the machine changes the numbers. No number fails the test.
//
//	go test ./netdev/programs -run TestSpeed -speed -v
func TestSpeed(t *testing.T) {
	if !*speed {
		t.Skip("measures with -speed")
	}
	proctest.Need(t, "iperf3", "ping")
	var all []*column
	add := func(name, to string, open func(nodes []*node)) {
		c := &column{name: name, nodes: newNodes(t, 2), to: to}
		open(c.nodes)
		all = append(all, c)
	}
	add("loopback", "127.0.0.1", func([]*node) {})
	for _, mtu := range []int{65520, 1500} {
		add(fmt.Sprintf("veth, MTU %d", mtu), "", func(nodes []*node) { cable(nodes, mtu) })
		add(fmt.Sprintf("TUN direct, MTU %d", mtu), "", func(nodes []*node) { direct(t, nodes, mtu) })
		for _, p := range places {
			if p.engines == "linked" {
				continue
			}
			add(fmt.Sprintf("nicless, %s, MTU %d", p.name, mtu), "", func(nodes []*node) { newBed(t, p, nodes, "--mtu", strconv.Itoa(mtu)) })
		}
	}
	for range *rounds {
		for _, c := range all {
			c.us = append(c.us, c.talk().roundTrip(200))
			c.gbits = append(c.gbits, c.talk().iperf(2))
		}
	}
	t.Logf("%d cores, medians of %d rounds; TCP of iperf3, 2 s, one connection; ratios are medians of those within a round", runtime.NumCPU(), *rounds)
	loopback := all[0]
	group := (len(all) - 1) / 2
	for i, c := range all {
		of := 1 + max(0, i-1)/group*group // the group's veth, and behind it the direct TUNs
		t.Logf("%-40s %6.1f Gbit/s: %.2f of loopback, %.2f of veth, %.2f of TUN direct; ping %5.0f us: %.2f of TUN direct", c.name, median(c.gbits),
			ratio(c.gbits, loopback.gbits), ratio(c.gbits, all[of].gbits), ratio(c.gbits, all[of+1].gbits), median(c.us), ratio(c.us, all[of+1].us))
	}
	t.Logf("asked: at MTU 65520 at least 0.35 of loopback, at MTU 1500 at least 0.35 of veth, ping at most 1.50 of TUN direct")
}

// ratio returns the median of the ratios of two columns, round by round.
func ratio(a, b []float64) float64 {
	var all []float64
	for i := range a {
		all = append(all, a[i]/b[i])
	}
	return median(all)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
