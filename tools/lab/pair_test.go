package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	vm "github.com/nicless/nicless/internal/lab"
	"github.com/nicless/nicless/internal/lab/finder"
	"github.com/nicless/nicless/internal/proctest"
)

// kinds are the kinds of memory: there is a folder with scripts for each.
var kinds = []string{finder.PCIe, finder.CXL}

// A pair is two machines that share memory.
type pair struct {
	t     *testing.T // now
	whole *testing.T // at whose end everything ends
	kind  string
	made  made
	set   []string // variables for the scripts
	pool  string   // the file

	nodes [2]*place
}

// options are those of all links. Few nodes and short rings take less time. A machine on a busy host may
// stand still for some seconds and is not dead; node 0 may be that much later than the others.
const options = "size=64M,nodes=4,data=256K,dead=5s,wait=5m"

// life is when a machine switches itself off, in seconds: as long as the whole package may take (-timeout
// 40m, twice what a busy machine with two cores needs). It ends machines whose host has gone, and no test.
const life = 40 * 60

// newPair starts both machines.
func newPair(t *testing.T, kind string, m made, set ...string) *pair {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "nicless-lab")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &pair{t: t, whole: t, kind: kind, made: m, pool: filepath.Join(dir, "pool"), set: append([]string{"LAB_POOL=" + filepath.Join(dir, "pool")}, set...)}
	began := time.Now()
	p.boots(0, 1)
	t.Logf("both machines are up after %v", time.Since(began).Round(time.Second/10))
	return p
}

// boots starts the machines of nodes, and waits until they are ready.
func (p *pair) boots(nodes ...int) {
	p.t.Helper()
	var errs [2]error
	var consoles []proctest.Job
	var started atomic.Int32
	for _, i := range nodes {
		console := &proctest.Output{}
		consoles = append(consoles, proctest.Job{Name: fmt.Sprintf("console of node %d", i), Output: console})
		go func() {
			p.nodes[i], errs[i] = p.boot(i, console)
			started.Add(1)
		}()
	}
	proctest.Until(p.t, "the machines are ready", func() bool { return int(started.Load()) == len(nodes) }, consoles...)
	for _, i := range nodes {
		require.NoError(p.t, errs[i], "node %d", i)
	}
}

// boot starts the machine of a node.
func (p *pair) boot(node int, console *proctest.Output) (*place, error) {
	p.whole.Cleanup(func() {
		if p.whole.Failed() {
			p.whole.Logf("console of node %d:\n%s", node, console)
			if n := p.nodes[node]; n != nil && n.engine != nil {
				p.whole.Logf("log of its engine:\n%s", n.engine.said.String())
			}
		}
	})
	m, err := vm.Start(p.whole.Context(), vm.Config{
		Script: fmt.Sprintf("vms/%s/node%d.sh", p.kind, node+1), Set: p.set,
		Kernel: p.made.kernel, Initrd: p.made.initrd, Seconds: life, Console: console,
	})
	if err != nil {
		return nil, fmt.Errorf("%w; it said:\n%s", err, console)
	}
	p.whole.Cleanup(m.Close)
	at := &place{t: p.t, whole: p.whole, name: fmt.Sprintf("node %d", node), machine: m, socket: "/run/engine.sock",
		address: fmt.Sprintf("192.168.8.%d", 100+node)}
	env, err := m.Run("sh", "-c", "echo $LAB_LINK $LAB_POOL $LAB_ADDRESS")
	if err != nil {
		return nil, err
	}
	var path, address string
	if _, err := fmt.Sscan(env, &at.link, &path, &address); err != nil || address != at.address+"/24" {
		return nil, fmt.Errorf("the machine's environment is %q: %v", env, err)
	}
	at.link += "," + options
	at.slots = fmt.Sprintf("%s,node=%d,nodes=4,offset=%d,size=%d", path, node, slotsAt, slotsSize)
	if p.kind == finder.CXL {
		at.slots += ",coherence=none"
	}
	return at, nil
}

// Where slots for packets are in the pool's memory: behind the pool of the engines.
const slotsAt, slotsSize = 64 << 20, 32 << 20

// startEngines starts an engine in each machine, and returns when they are linked.
func (p *pair) startEngines() {
	p.t.Helper()
	began := time.Now()
	for _, n := range p.nodes {
		n.startEngine()
	}
	for i, n := range p.nodes {
		n.engine.says(fmt.Sprintf("(node seen|link up).* node=%d", 1-i))
	}
	p.t.Logf("both engines are linked after %v", time.Since(began).Round(time.Second/10))
}

// startNets makes a network of the two machines.
func (p *pair) startNets(flags func(n *place) []string) (stop func()) {
	p.t.Helper()
	var nets []*program
	for _, n := range p.nodes {
		nets = append(nets, n.startNet(flags(n)...))
	}
	for _, r := range nets {
		r.says("peer (found|up)")
	}
	return func() {
		for _, r := range nets {
			r.kill()
		}
	}
}

// third starts an engine on this host, as node 2 of the same pool.
func (p *pair) third() *place {
	p.t.Helper()
	h := host(p.t, fmt.Sprintf("pool:%s,node=2,offset=%d,%s", p.pool, p.offset(), options))
	h.startEngine()
	for i := range p.nodes {
		h.engine.says(fmt.Sprintf("(node seen|link up).* node=%d", i))
	}
	return h
}

// offset returns where the memory that the machines see begins in the file.
func (p *pair) offset() uint64 {
	if p.kind == finder.CXL && p.made.newer.Kernel.Image == "" {
		return finder.InfoSize
	}
	return 0
}

// meetings counts posters that have met: each two have a name of their own.
var meetings atomic.Uint64

// connect starts two posters that know each other. flags are those of the one that asks.
func connect(asks, answers *place, flags ...string) (ask, answer *program) {
	asks.t.Helper()
	name := fmt.Sprint(meetings.Add(1))
	answer = answers.start("poster", "answer", "--engine", answers.socket, "--name", name)
	ask = asks.start(append([]string{"poster", "ask", "--engine", asks.socket, "--name", name}, flags...)...)
	ask.says("(?m)^connected$")
	return ask, answer
}

// exchange lets posters exchange data, and checks that both are content.
func exchange(asks, answers *place, rounds int) {
	asks.t.Helper()
	ask, answer := connect(asks, answers, "--rounds", fmt.Sprint(rounds))
	said := ask.succeeds()
	require.Contains(asks.t, said, "all as they should be")
	require.Contains(asks.t, answer.succeeds(), "all as they should be")
	asks.t.Logf("%s asks %s: %s", asks.name, answers.name, lastLine(said))
}

// use makes t the test in whose name all places fail.
func (p *pair) use(t *testing.T) {
	p.t = t
	for _, n := range p.nodes {
		n.t = t
	}
}

// lastLine returns the last line of what a program has printed.
func lastLine(said string) string {
	said = strings.TrimSpace(said)
	return said[strings.LastIndex(said, "\n")+1:]
}
