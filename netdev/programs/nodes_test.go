//go:build linux && (amd64 || arm64)

package programs

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nicless/nicless/internal/netns"
	"github.com/nicless/nicless/internal/proctest"
)

// A node is a host: a network namespace.
type node struct {
	t      *testing.T
	number int
	pid    int    // of a process in it
	socket string // of the engine of its interface; "": that is inside the interface's process
	picks  bool   // its interface picks its addresses
	name   string // --host of its interface, if that picks
}

// newNodes makes nodes in a user namespace of their own. They have no network but lo.
func newNodes(t *testing.T, n int) (all []*node) {
	t.Helper()
	proctest.Need(t, netns.Programs...)
	if err := netns.Check(); err != nil {
		proctest.Missing(t, "%v", err)
	}
	hold := []string{"sh", "-c", "ip link set lo up && echo up. && exec sleep infinity"}
	for i := range n {
		argv := netns.First(hold...)
		if i > 0 {
			argv = netns.Next(all[0].pid, hold...)
		}
		p := start(t, argv...)
		p.says("up.")
		all = append(all, &node{t: t, number: i, pid: p.cmd.Process.Pid})
	}
	return all
}

// argv is the command line under which a program runs in the node.
func (n *node) argv(argv ...string) []string { return netns.In(n.pid, argv...) }

// start starts a program in the node. Its process is the program's.
func (n *node) start(argv ...string) *process {
	n.t.Helper()
	return start(n.t, n.argv(argv...)...)
}

// run runs a program in the node and returns its output.
func (n *node) run(argv ...string) string {
	n.t.Helper()
	return n.start(argv...).succeeds()
}

// with is the node for another test.
func with(t *testing.T, nodes []*node) []*node {
	nodes = slices.Clone(nodes)
	for i, n := range nodes {
		other := *n
		other.t = t
		nodes[i] = &other
	}
	return nodes
}

// address is an address of the node on the network that the test makes.
func (n *node) address() string { return fmt.Sprintf("192.168.8.%d", 100+n.number) }

func (n *node) address6() string { return fmt.Sprintf("fd08::%d", 100+n.number) }

// prefixes are the addresses with the length of the network's prefix.
func (n *node) prefixes() []string { return []string{n.address() + "/24", n.address6() + "/64"} }
