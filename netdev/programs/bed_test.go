//go:build linux && (amd64 || arm64)

package programs

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nicless/nicless/fabric/auth"
	"github.com/stretchr/testify/require"
)

// A place says which engines carry the packets.
type place struct {
	name string
	// "one": an engine for all; "linked": one for each, linked by a pool; "inside": these engines are in the
	// interfaces' processes.
	engines string
	slots   bool   // memory in which packets travel without being copied by the engine
	ucx     bool   // UCX links the engines, with keys, in place of a pool; node 0 is the host of all
	core    string // all processes of nicless share this core; "": they have all cores
}

// pinned is the command line of a process of nicless.
func (p place) pinned(argv ...string) []string {
	if p.core != "" {
		argv = append([]string{"taskset", "--cpu-list", p.core}, argv...)
	}
	return argv
}

var places = []place{
	{name: "one engine", engines: "one"},
	{name: "one engine, slots", engines: "one", slots: true},
	{name: "linked engines", engines: "linked"},
	{name: "linked engines, slots", engines: "linked", slots: true},
	{name: "engines inside", engines: "inside"},
	{name: "engines inside, slots", engines: "inside", slots: true},
}

// A bed has an interface of nicless in each node.
type bed struct {
	place
	t       *testing.T
	nodes   []*node
	memory  string // directory of what nodes share
	sockets string // directory of the engines' sockets
	engines []*process
	ups     []*up
	dead    bool // an engine was killed
}

// An up is the process of an interface.
type up struct {
	*process
	node  *node
	ended bool // by the test
}

// newBed starts engines and interfaces, and waits until every interface has every other for a peer.
func newBed(t *testing.T, p place, nodes []*node, flags ...string) *bed {
	t.Helper()
	b := newEngines(t, p, nodes)
	for _, n := range b.nodes {
		b.up(n, flags...)
	}
	b.joined()
	return b
}

// newEngines starts the engines that are processes of their own.
func newEngines(t *testing.T, p place, nodes []*node) *bed {
	t.Helper()
	b := &bed{place: p, t: t, nodes: with(t, nodes), memory: temporary(t, "/dev/shm"), sockets: temporary(t, "")}
	b.ups = make([]*up, len(nodes))
	if p.engines == "inside" {
		return b
	}
	for i, n := range b.nodes {
		n.socket = b.socket(n)
		argv := []string{command, "engine", "--socket", b.socket(n)}
		if p.engines == "linked" {
			argv = append(argv, "--link", b.link(n))
			if p.ucx {
				n = b.nodes[0]
			}
		} else if i > 0 {
			continue // that of node 0 is for all
		}
		b.engines = append(b.engines, n.start(p.pinned(argv...)...))
	}
	for _, e := range b.engines {
		e.says("engine ready")
	}
	t.Cleanup(func() {
		for _, e := range b.engines {
			if !b.dead {
				b.ends(e)
			}
		}
	})
	return b
}

// socket is the path of a node's engine.
func (b *bed) socket(n *node) string {
	if b.place.engines == "one" {
		n = b.nodes[0]
	}
	return filepath.Join(b.sockets, strconv.Itoa(n.number))
}

func (b *bed) link(n *node) string {
	if b.place.ucx {
		key := filepath.Join(b.sockets, fmt.Sprint("key", n.number))
		_, err := auth.NewIdentity(key)
		require.NoError(b.t, err)
		return fmt.Sprintf("ucx:%s127.0.0.1:9999,tls=tcp+self,devices=lo,trust=first,encrypt,key=%s", map[bool]string{true: "listen="}[n.number == 0], key)
	}
	return fmt.Sprintf("pool:%s/pool,node=%d,nodes=%d", b.memory, n.number, max(2, len(b.nodes)))
}

// argv is the command line of a node's interface.
func (b *bed) argv(n *node, flags ...string) []string {
	argv := []string{command, "net", "up"}
	for _, p := range n.prefixes() {
		if !n.picks {
			argv = append(argv, "--addr", p)
		}
	}
	if b.place.engines == "inside" {
		argv = append(argv, "--link", b.link(n))
	} else {
		argv = append(argv, "--engine", b.socket(n))
	}
	if b.slots {
		argv = append(argv, "--slots", fmt.Sprintf("%s/slots,node=%d", b.memory, n.number))
	}
	return b.pinned(append(argv, flags...)...)
}

// up starts the interface of a node. In the end it has to end with status 0 when it is asked to.
func (b *bed) up(n *node, flags ...string) *up {
	b.t.Helper()
	u := &up{process: n.start(b.argv(n, flags...)...), node: n}
	b.ups[n.number] = u
	b.t.Cleanup(func() {
		if !u.ended {
			b.ends(u.process)
		}
	})
	return u
}

// ends asks a process to end, and requires that it does.
func (b *bed) ends(p *process) {
	b.t.Helper()
	p.signal(syscall.SIGTERM)
	said := p.succeeds()
	require.NotContains(b.t, said, "panic")
	require.NotContains(b.t, said, "level=ERROR")
}

// joined waits until every interface has a session with every other: the first packet opens it.
func (b *bed) joined() {
	b.t.Helper()
	for _, u := range b.ups {
		u.says("net ready")
		for _, other := range b.nodes {
			if other.number != u.node.number {
				u.hears("peer found", other, 1)
			}
		}
	}
	for _, u := range b.ups {
		for _, other := range b.nodes[:u.node.number] {
			u.node.run("ping", "-n", "-q", "-c", "1", "-w", "20", other.address())
		}
	}
	for _, u := range b.ups {
		for _, other := range b.nodes {
			if other.number != u.node.number {
				u.hears("peer up", other, 1)
			}
		}
	}
	if !b.slots {
		return
	}
	for _, u := range b.ups {
		for _, other := range b.nodes {
			if other.number != u.node.number {
				require.Contains(b.t, u.told("peer up", other)[0], "slots=true")
			}
		}
	}
}

// told returns the lines of the log about a peer.
func (u *up) told(what string, of *node) (list []string) {
	for l := range strings.Lines(u.said.String()) {
		if strings.Contains(l, `"`+what+`"`) && strings.Contains(l, of.address()) && strings.HasSuffix(l, "\n") {
			list = append(list, l)
		}
	}
	return list
}

// hears waits until the log has that many lines of one kind about a peer.
func (u *up) hears(what string, of *node, times int) {
	u.t.Helper()
	u.until(fmt.Sprintf("%s %s, %d times", what, of.address(), times), func(string) bool { return len(u.told(what, of)) >= times })
}
