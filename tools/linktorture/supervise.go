//go:build linux && (amd64 || arm64)

package linktorture

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric/ucx"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/tools/internal/scratch"
)

// Addresses of engines a and b, and of strangers. All are of one device, so packets between them go
// over the loopback device.
var addresses = [3]string{"10.78.0.1", "10.78.0.2", "10.78.0.9"}

// ucxAddress is where engine a listens for UCX.
const ucxAddress = "127.0.0.1:7471"

const (
	// stepLimit is how long a process may take to start.
	stepLimit = 30 * time.Second
	// mostFaults is how many faults are kept, unless a later one is worse.
	mostFaults = 20
)

// A supervisor runs the plan. Its methods run on one goroutine.
type supervisor struct {
	s       spec
	dir     string
	remove  func() // removes dir
	events  chan event
	all     map[*process]bool
	ready   map[*process]bool
	kindOf  map[*process]Kind
	victims []nicless.Descriptor
	clients [2]*process // the client of the RoCE link, and the client of the pool
	pids    pids
	witness *verdict.Witness
	loads   struct{ engines, clients verdict.Load }
	result  Result
}

// supervise runs in the new namespaces.
func supervise(w *wire, s spec, gone <-chan struct{}) error {
	v := &supervisor{
		s: s, events: make(chan event, 256), all: map[*process]bool{}, ready: map[*process]bool{},
		kindOf: map[*process]Kind{},
		result: Result{Seed: s.Seed, Hostile: map[string]uint64{}, Findings: []string{},
			Faults: []*verdict.Fault{}},
	}
	v.witness = verdict.NewWitnessOf(turns, func() []int { return v.pids.of(roleEngine) },
		func() []int { return v.pids.of(roleClient) })
	defer v.witness.Close()
	began := time.Now()
	err := v.run(gone)
	if err == nil {
		err = v.look()
	}
	if errors.Is(err, errFault) {
		err = nil
	}
	v.measureLoad()
	v.end()
	if err != nil && verdict.Worst(v.result.Faults).Corruption() {
		v.note(verdict.New(verdict.Failed, "the run goes on to its end", "%v", err)) // findings are reported all the same
		err = nil
	}
	v.conclude()
	if v.remove != nil {
		v.remove()
	}
	v.result.Seconds = time.Since(began).Seconds()
	r := report{Result: &v.result}
	if err != nil {
		r.Error = err.Error()
	}
	w.send(r)
	return nil
}

func (v *supervisor) run(gone <-chan struct{}) (err error) {
	v.dir, v.remove, err = scratch.Make(os.TempDir())
	if err != nil {
		return err
	}
	if err := network(); err != nil {
		return err
	}
	if err := v.startCorrect(gone); err != nil {
		return err
	}
	plan := NewPlan(v.s.Seed, v.s.Duration)
	v.result.Schedule = fmt.Sprintf("%016x", plan.Hash())
	for _, steps := range plan.Slots {
		v.result.Planned += len(steps)
	}
	return v.attack(&plan, gone)
}

// network sets up the loopback device, and one with the addresses.
func network() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set up the loopback device: %w", err)
	}
	var link netlink.Link = &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "torture"}}
	if err := netlink.LinkAdd(link); err != nil { // the kernel may have no such devices
		link = &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "torture"}, PeerName: "torture-peer"}
		if err := netlink.LinkAdd(link); err != nil {
			return fmt.Errorf("make a network device: %w", err)
		}
	}
	for _, a := range addresses {
		addr, err := netlink.ParseAddr(a + "/24")
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("give a network device the address %s: %w", a, err)
		}
	}
	return netlink.LinkSetUp(link)
}

// startCorrect starts engines and correct clients, and waits until data moves.
func (v *supervisor) startCorrect(gone <-chan struct{}) error {
	node := func(n int) string { return fmt.Sprintf("pool:%s,size=16M,nodes=3,node=%d", v.pool(), n) }
	links := [][]string{{node(0), "roce:" + addresses[0]}, {"roce:" + addresses[1]}, {node(1)}}
	if ucx.HasProgram() == nil {
		v.result.UCX = true
		links[0] = append(links[0], "ucx:listen="+ucxAddress+",tls=tcp+self,devices=lo")
	}
	for i, l := range links {
		if err := v.started(spec{Role: roleEngine, Socket: v.socket(i), Links: l}, "engine "+"abc"[i:i+1],
			gone); err != nil {
			return err
		}
	}
	for i, name := range []string{"the client over RoCE", "the client over the pool"} {
		engines := v.pids.of(roleEngine)
		s := spec{Role: roleClient, Seed: v.s.Seed + uint64(i),
			Sockets: [2]string{v.socket(0), v.socket(1 + i)}, Engines: []int{engines[0], engines[1+i]}}
		if err := v.started(s, name, gone); err != nil {
			return err
		}
	}
	return nil
}

func (v *supervisor) socket(engine int) string {
	return filepath.Join(v.dir, "engine-"+"abc"[engine:engine+1])
}
func (v *supervisor) pool() string { return filepath.Join(v.dir, "pool") }

func (v *supervisor) start(s spec, name string) (*process, error) {
	p, err := launch(v.s.Argv, s, name, &syscall.SysProcAttr{}, v.events)
	if err == nil {
		v.all[p] = true
		v.pids.add(s.Role, p.cmd.Process.Pid)
	}
	return p, err
}

// pids are the process ids of what was started, by role.
type pids struct {
	mu   sync.Mutex
	list map[string][]int
}

func (p *pids) add(role string, pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list == nil {
		p.list = make(map[string][]int)
	}
	p.list[role] = append(p.list[role], pid)
}

func (p *pids) remove(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for role := range p.list {
		p.list[role] = slices.DeleteFunc(p.list[role], func(is int) bool { return is == pid })
	}
}

func (p *pids) of(role string) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list[role])
}

// measureLoad adds up how much of their cores the engines and the correct clients had.
func (v *supervisor) measureLoad() {
	v.loads.engines.Look(v.pids.of(roleEngine))
	v.loads.clients.Look(v.pids.of(roleClient))
}

// conclude adds the faults that only the whole run shows, and the verdict.
func (v *supervisor) conclude() {
	v.result.EngineShare, v.result.ClientShare = v.loads.engines.Share(), v.loads.clients.Share()
	for who, l := range map[string]*verdict.Load{"the engines": &v.loads.engines,
		"the correct clients": &v.loads.clients} {
		if f := l.Check(who); f != nil {
			v.result.Faults = append(v.result.Faults, f)
		}
	}
	v.result.decide()
}

// started starts a process and waits until it is ready.
func (v *supervisor) started(s spec, name string, gone <-chan struct{}) error {
	p, err := v.start(s, name)
	if err != nil {
		return err
	}
	if s.Role == roleClient {
		for i := range v.clients {
			if v.clients[i] == nil {
				v.clients[i] = p
				break
			}
		}
	}
	m := v.witness.Begin()
	defer v.witness.Rest()
	for !v.ready[p] {
		if !v.all[p] {
			return fmt.Errorf("%s does not start: %v: %s", name, v.result.Faults, &p.stderr)
		}
		if verdict.Now()-m.At > stepLimit {
			v.late(m, name, "it is ready", "it is not: %s", &p.stderr)
			return errFault
		}
		if err := v.wait(100*time.Millisecond, gone); err != nil {
			return err
		}
	}
	return nil
}

// attack carries out the steps of all slots.
func (v *supervisor) attack(plan *Plan, gone <-chan struct{}) error {
	var slot [slots]struct {
		p    *process
		next int
		end  time.Time
	}
	looked := time.Now()
	for {
		left := false
		for i := range slot {
			s := &slot[i]
			if s.p != nil && time.Now().Before(s.end) {
				left = true
				continue
			}
			if s.p != nil {
				s.p.ending = true
				_ = s.p.in.Close()
				s.p = nil
			}
			if s.next == len(plan.Slots[i]) {
				continue
			}
			left = true
			step := plan.Slots[i][s.next]
			h := spec{Role: roleHostile, Kind: step.Kind, Seed: step.Seed, Victims: v.victims, Pool: v.pool()}
			if v.result.UCX {
				h.UCX = ucxAddress
			}
			p, err := v.start(h, fmt.Sprintf("the %v with seed %#x", step.Kind, step.Seed))
			if err != nil {
				return err
			}
			v.kindOf[p] = step.Kind
			s.p, s.end, s.next = p, time.Now().Add(step.Length), s.next+1
			v.result.Attacks++
		}
		if !left {
			return nil
		}
		if err := v.wait(20*time.Millisecond, gone); err != nil {
			return err
		}
		if time.Since(looked) > time.Second {
			looked = time.Now()
			v.measureLoad()
		}
	}
}

// A linkPeer is what the links of an engine report of a peer.
type linkPeer struct {
	Name   string
	Faults uint64
	Stats  nic.PortStats
}

// linksOf queries the links of an engine: their peers, and how many packets have come from strangers.
func (v *supervisor) linksOf(engine int) (peers []linkPeer, strangers uint64, err error) {
	var links []struct {
		Peers     []linkPeer
		Strangers uint64
	}
	m := v.witness.Begin()
	err = unixsock.Query(v.socket(engine)+nicless.LinksSuffix, stepLimit, &links)
	v.witness.Rest()
	if err != nil {
		f := verdict.FromError(err, v.witness.Since(m))
		f.Who = "the supervisor, for the links of an engine"
		v.note(f)
		return nil, 0, errFault
	}
	for _, l := range links {
		peers = append(peers, l.Peers...)
		strangers += l.Strangers
	}
	return peers, strangers, nil
}

// look queries the counts of the engines of the RoCE link. Packets that a has received in the name of b, and
// that b has not sent, were forged. The clients go on meanwhile, so b is queried last.
func (v *supervisor) look() error {
	a, strangers, err := v.linksOf(0)
	if err != nil {
		return err
	}
	b, _, err := v.linksOf(1)
	if err != nil {
		return err
	}
	var received, sent uint64
	s := &v.result.Seen
	s.Strangers = strangers
	for _, p := range a {
		s.Faults += p.Faults
		if p.Name == addresses[1] {
			received = p.Stats.Received
		}
	}
	for _, p := range b {
		if p.Name == addresses[0] {
			sent = p.Stats.Sent
		}
	}
	s.Forged = received - min(received, sent)
	return nil
}

// wait handles events for a while.
func (v *supervisor) wait(d time.Duration, gone <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case e := <-v.events:
			v.handle(e)
		case <-t.C:
			return nil
		case <-gone:
			return net.ErrClosed
		}
	}
}

func (v *supervisor) handle(e event) {
	p, r := e.p, &e.report
	if e.exit != nil {
		delete(v.all, p)
		if !p.ending {
			f := verdict.New(verdict.Failed, "it runs until it is told to end", "it has ended: %v: %s", e.exit, &p.stderr)
			f.Who = p.name
			v.note(f)
		}
	}
	if r.Ready {
		v.ready[p] = true
	}
	if len(r.Victims) > 0 && p == v.clients[0] {
		v.victims = r.Victims
	}
	if r.Count != nil {
		p.count = *r.Count
	}
	if r.Fault != nil && !p.ending {
		r.Fault.Who = p.name
		v.note(r.Fault)
	}
	if r.Finding != "" && len(v.result.Findings) < mostFaults {
		v.result.Findings = append(v.result.Findings, fmt.Sprintf("%s: %s", p.name, r.Finding))
	}
	if k, ok := v.kindOf[p]; ok && e.exit != nil {
		v.result.Hostile[k.String()] += p.count.Hostile
	}
}

// errFault ends a run that cannot go on after a fault. The fault is in the result.
var errFault = errors.New("torture: fault")

func (v *supervisor) note(f *verdict.Fault) {
	if len(v.result.Faults) < mostFaults || f.Kind > verdict.Worst(v.result.Faults) {
		v.result.Faults = append(v.result.Faults, f)
	}
}

// late notes that something has not happened within stepLimit.
func (v *supervisor) late(m verdict.Mark, who, expected, format string, args ...any) {
	f := verdict.Late(verdict.NoAnswer, v.witness.Between(m, v.pids.of(roleEngine), v.pids.of(roleClient)),
		fmt.Sprintf("%s within %v", expected, stepLimit), format, args...)
	f.Who = who
	v.note(f)
}

// end ends all processes, clients before engines, and collects what they have done.
func (v *supervisor) end() {
	for _, of := range []func(*process) bool{
		func(p *process) bool { _, ok := v.kindOf[p]; return ok },
		func(p *process) bool { return p == v.clients[0] || p == v.clients[1] },
		func(*process) bool { return true },
	} {
		var list []*process
		for p := range v.all {
			if of(p) {
				list = append(list, p)
				_ = p.in.Close()
			}
		}
		for m := v.witness.Begin(); len(list) > 0; {
			p := list[0]
			if !v.all[p] {
				list = list[1:]
				continue
			}
			if verdict.Now()-m.At > stepLimit && !p.ending {
				v.late(m, p.name, "its end", "it runs on")
				p.ending = true
				_ = p.cmd.Process.Kill()
			}
			select {
			case e := <-v.events:
				if e.exit != nil {
					v.pids.remove(e.p.cmd.Process.Pid) // no process waits for it any more
				}
				if e.exit != nil && e.exit.Success() {
					e.p.ending = true
				}
				v.handle(e)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	for i, c := range []*Count{&v.result.RoCE, &v.result.Pool} {
		if v.clients[i] != nil {
			*c = v.clients[i].count
		}
	}
}
