//go:build linux && (amd64 || arm64)

package rack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/unixsock"
)

// patience is how long any step of one node may take. A machine that is busy with other things is not at
// fault.
const patience = 2 * time.Minute

// A Config says how large the rack is.
type Config struct {
	Engines int           // 3 at least
	Dir     string        // for sockets: a path of at most 80 bytes
	Pool    string        // file of the pool, which is not there yet; "": the engines use RoCE
	Size    string        // of the pool, as --link has it
	Mesh    bool          // connect all with all, in place of the steps after the start
	Program string        // nicless, whose engines are used; "": this program, with EngineArgument
	Rounds  int           // of data in each step
	Idle    time.Duration // how long each measurement takes
	Every   time.Duration // how often each node writes in the step kill, to one neighbour after the other
	Phase   time.Duration // how long each measurement of that step takes
	Quiet   time.Duration // how long the pool gets until rings are given back; 0: not at all
	Log     func(format string, arguments ...any)
}

// nodes returns how many nodes the pool is for: more than there are engines, because an engine that was
// killed comes back as another node at first, and each of the others keeps the rings of the dead one for a
// while.
func (c *Config) nodes() int { return c.Engines + c.Engines/3 + 8 }

// A rack is what Run works with.
type rack struct {
	Config
	network *network // of the engines that use RoCE; nil: they use a pool
	nodes   []*node
	round   int
}

// all says that all nodes take part.
func all(*node) bool { return true }

// Run does all steps. An error says what was wrong.
func Run(c Config) error {
	r := &rack{Config: c}
	defer func() {
		for _, n := range r.nodes {
			n.close()
		}
		if r.network != nil {
			r.network.close()
		}
	}()
	type step struct {
		name string
		do   func() error
	}
	steps := []step{
		{"start", r.start}, {"all", r.connect}, {"idle", r.idle}, {"new", r.grow}, {"kill", r.kill},
	}
	if r.Mesh {
		steps = []step{{"start", r.start}, {"mesh", r.mesh}}
	}
	for _, step := range steps {
		began := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("rack: %s: %w", step.name, err)
		}
		r.Log("%s: %v", step.name, time.Since(began).Round(time.Millisecond))
		for _, n := range r.nodes {
			if err := n.alive(); err != nil {
				return fmt.Errorf("rack: %s: %w", step.name, err)
			}
		}
	}
	return nil
}

// add makes a node, and starts its engine.
func (r *rack) add() (*node, error) {
	i := len(r.nodes)
	e := &engine{name: fmt.Sprintf("engine %d", i), socket: filepath.Join(r.Dir, fmt.Sprintf("e%d", i))}
	if r.network != nil {
		e.host, e.link = r.network.hosts[i], fmt.Sprintf("roce:%v", address(i))
	} else {
		e.link = fmt.Sprintf("pool:%s,size=%s,nodes=%d", r.Pool, r.Size, r.Config.nodes())
	}
	n := &node{number: i, most: 2*following + 1, engine: e} // a new engine is a neighbour, too
	if r.Mesh {
		n.most = r.Engines - 1
	}
	r.nodes = append(r.nodes, n)
	return n, n.engine.start(&r.Config)
}

func (r *rack) start() (err error) {
	if r.Pool == "" {
		r.network, err = newNetwork(r.Engines + 1) // one is for a new engine
		if err != nil {
			return err
		}
	}
	for range r.Engines {
		if _, err := r.add(); err != nil {
			return err
		}
	}
	return each(r.nodes, (*node).open)
}

// neighbours calls f for each pair of nodes that talk with each other, once.
func (r *rack) neighbours(f func(a, b *node) error) error {
	n := len(r.nodes)
	for i, a := range r.nodes {
		for d := 1; d <= min(following, (n-1)/2); d++ {
			if err := f(a, r.nodes[(i+d)%n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// connect connects all neighbours, and lets them exchange data.
func (r *rack) connect() error {
	began := time.Now()
	if err := r.neighbours(link); err != nil {
		return err
	}
	if err := each(r.nodes, (*node).connect); err != nil {
		return err
	}
	r.Log("%d pairs of queue pairs are connected after %v", r.pairs(), time.Since(began).Round(time.Millisecond))
	_, err := r.exchange(r.nodes, all, "data between all")
	return err
}

func (r *rack) pairs() (n int) {
	for _, a := range r.nodes {
		n += len(a.peers)
	}
	return n / 2
}

// exchange lets nodes exchange data, and returns the longest time that one of them has waited for its data.
// what is what the log calls it; "": the log says nothing.
func (r *rack) exchange(
	nodes []*node, with func(*node) bool, what string,
) (longest time.Duration, err error) {
	began := time.Now()
	for range r.Rounds {
		r.round++
		took, err := round(nodes, with, r.round)
		if err != nil {
			return longest, err
		}
		longest = max(longest, took)
	}
	if what != "" {
		r.Log("%s: %d rounds in %v, the longest wait of a node %v", what, r.Rounds,
			time.Since(began).Round(time.Millisecond), longest.Round(time.Millisecond))
	}
	return longest, nil
}

// idle measures what the engines take.
func (r *rack) idle() error {
	if r.Quiet > 0 {
		time.Sleep(r.Quiet)
	}
	u, err := measure(r.nodes, r.Idle)
	if err != nil {
		return err
	}
	r.Log("idle, with %d pairs of queue pairs: %v", r.pairs(), u)
	if err := r.writeFirst(); err != nil {
		return err
	}
	if r.Quiet == 0 {
		return nil
	}
	if err := r.disconnect(r.nodes); err != nil {
		return err
	}
	time.Sleep(r.Quiet)
	if u, err = measure(r.nodes, r.Idle); err != nil {
		return err
	}
	r.Log("idle, without queue pairs: %v", u)
	if s, err := os.Stat(r.Pool); err == nil { // RoCE has no pool
		r.Log("the pool has %d MiB", s.Size()>>20)
	}
	if err := r.neighbours(link); err != nil {
		return err
	}
	if err := each(r.nodes, (*node).connect); err != nil {
		return err
	}
	_, err = r.exchange(r.nodes, all, "data between all again")
	return err
}

// disconnect closes all queue pairs of nodes, and those at their other ends.
func (r *rack) disconnect(nodes []*node) error {
	for _, n := range nodes {
		for _, e := range slices.Clone(n.peers) {
			if err := errors.Join(e.close(), e.back.close()); err != nil {
				return err
			}
		}
	}
	return nil
}

// grow starts one engine more. Over a pool, it waits until all others know it; RoCE announces nothing.
func (r *rack) grow() error {
	old := slices.Clone(r.nodes)
	n, err := r.add()
	if err != nil {
		return err
	}
	if err := n.open(); err != nil {
		return err
	}
	if r.network == nil {
		if err := r.awaitKnown(n, old); err != nil {
			return err
		}
	}
	if err := link(old[0], n); err != nil {
		return err
	}
	both := []*node{old[0], n}
	if err := each(both, (*node).connect); err != nil {
		return err
	}
	_, err = r.exchange(both, func(n *node) bool { return slices.Contains(both, n) }, "data with it")
	return err
}

// awaitKnown waits until the old nodes know a new one.
func (r *rack) awaitKnown(n *node, old []*node) error {
	ready := time.Now()
	deadline := ready.Add(patience)
	last := ready
	for _, o := range old {
		since, knows := o.knows(n.ctx.Device())
		for ; !knows; since, knows = o.knows(n.ctx.Device()) {
			if time.Now().After(deadline) {
				return fmt.Errorf("%s does not know %s after %v", o.name, n.name, patience)
			}
			time.Sleep(time.Millisecond)
		}
		if since.After(last) {
			last = since
		}
	}
	r.Log("all know a new engine %v after it serves, by their own reports, which took until %v after it",
		last.Sub(ready).Round(time.Millisecond), time.Since(ready).Round(time.Millisecond))
	r.Log("it serves %v after the start of its process", ready.Sub(n.began).Round(time.Millisecond))
	return nil
}

// knows reports whether a node's engine can reach an engine, and since when.
func (n *node) knows(device uint64) (since time.Time, knows bool) {
	var list []links.Report
	if unixsock.Query(n.socket+nicless.LinksSuffix, patience, &list) != nil {
		return since, false
	}
	for _, l := range list {
		for _, p := range l.Peers {
			if p.GUID == device && p.Up {
				return p.Since, true
			}
		}
	}
	return since, false
}

// kill kills each fourth engine while the others write at a steady rate, lets it come back, and lets all
// exchange data.
func (r *rack) kill() error {
	last := r.nodes[len(r.nodes)-1] // the new one, which has one neighbour
	if err := r.disconnect([]*node{last}); err != nil {
		return err
	}
	dies := func(n *node) bool { return n.number%4 == 1 }
	lives := func(n *node) bool { return !dies(n) && n != last }
	var dead, left []*node
	for _, n := range r.nodes[:len(r.nodes)-1] {
		if dies(n) {
			dead = append(dead, n)
		} else {
			left = append(left, n)
		}
	}
	before, err := r.pace(left, lives, func() error { return nil })
	if err != nil {
		return err
	}
	r.Log("%d nodes write each %v before the kill: %v", len(left), r.Every, before)
	report := func(what string, w *Waits, err error) error {
		if err == nil {
			r.Log("%s: %s: %v", what, w.over(before), w)
		}
		return err
	}
	w, err := r.pace(left, lives, func() error { return killAll(dead, left, dies) })
	if err := report(fmt.Sprintf("%d are killed", len(dead)), w, err); err != nil {
		return err
	}
	w, err = r.pace(left, lives, func() error { return r.comeBack(dead, left, dies) })
	if err := report("they come back", w, err); err != nil {
		return err
	}
	w, err = r.pace(left, lives, func() error { return nil })
	if err := report("after the return", w, err); err != nil {
		return err
	}
	_, err = r.exchange(r.nodes[:len(r.nodes)-1], all, "data between all, after the return")
	return err
}

// killAll kills engines while queue pairs of others with them have work under way.
func killAll(dead, left []*node, dies func(*node) bool) error {
	for _, n := range left {
		for _, e := range n.among(dies) {
			if err := e.post(0); err != nil {
				return err
			}
		}
	}
	for _, n := range dead {
		n.engine.kill()
	}
	for _, n := range dead {
		<-n.ended
	}
	return nil
}

// comeBack starts the dead engines again, and connects anew what was connected with them.
func (r *rack) comeBack(dead, left []*node, dies func(*node) bool) error {
	for _, n := range dead {
		_ = n.ctx.Close()
		if err := n.engine.start(&r.Config); err != nil {
			return err
		}
	}
	if err := each(dead, (*node).open); err != nil {
		return err
	}
	for _, n := range left {
		for _, e := range n.among(dies) {
			if err := e.close(); err != nil {
				return err
			}
		}
	}
	n := len(r.nodes) - 1
	r.nodes, dead = r.nodes[:n], r.nodes[n:] // the new one stays as it is
	defer func() { r.nodes = append(r.nodes, dead...) }()
	err := r.neighbours(func(a, b *node) error {
		if dies(a) || dies(b) {
			return link(a, b)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return each(r.nodes, (*node).connect)
}
