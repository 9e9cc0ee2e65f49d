//go:build linux && (amd64 || arm64)

package rack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/netns"
)

// A Path is two hosts, and a relay between them which carries all their packets. Each host has an engine with
// RoCE.
type Path struct {
	relay *holder
	hosts [2]*holder
	nodes [2]*node
	ends  [2]*end
	size  int // bytes that can be carried
	queue int // most work requests at a time
}

// NewPath makes a path which can carry size bytes, and does what w says from the first packet on. c has Dir
// and Log. It must be closed, also after an error.
func NewPath(c Config, w Way, size int) (p *Path, err error) {
	p = &Path{size: size, queue: 64}
	if err = netns.Check(); err != nil {
		return p, err
	}
	p.relay, err = newHolder(netns.First(os.Args[0], RelayArgument))
	if err != nil {
		return p, err
	}
	if _, err = p.Set(w); err != nil {
		return p, err
	}
	for i := range p.hosts {
		if err = p.addHost(i); err != nil {
			return p, err
		}
		p.nodes[i] = &node{number: i, most: 1, engine: &engine{
			name: fmt.Sprintf("engine %d", i), socket: filepath.Join(c.Dir, fmt.Sprintf("p%d", i)),
			host: p.hosts[i], link: fmt.Sprintf("roce:%v", address(i)),
		}}
		if err = p.nodes[i].start(&c); err != nil {
			return p, err
		}
	}
	for i := range p.nodes {
		if err = p.open(i); err != nil {
			return p, err
		}
	}
	return p, p.connect()
}

// addHost makes a host with one of the relay's devices.
func (p *Path) addHost(i int) (err error) {
	relay := p.relay.cmd.Process.Pid
	p.hosts[i], err = newHolder(netns.Next(relay, hold...))
	if err != nil {
		return err
	}
	move := fmt.Sprintf("link set %s netns %d\n", ends[i], p.hosts[i].cmd.Process.Pid)
	if err := p.relay.ip(move); err != nil {
		return err
	}
	// The queue of the device is long, so that only the relay drops packets.
	return p.hosts[i].ip(fmt.Sprintf("link set %s addrgenmode none mtu %d txqueuelen %d up\n"+
		"address add %v/%d dev %s\n", ends[i], mostBytes, waiting, address(i), prefix.Bits(), ends[i]))
}

// open connects to an engine, and makes a queue pair.
func (p *Path) open(i int) (err error) {
	n := p.nodes[i]
	n.ctx, err = n.dial()
	if err != nil {
		return err
	}
	n.pd, err = n.ctx.AllocPD()
	if err != nil {
		return err
	}
	n.mr, err = n.pd.RegisterMemory(p.size, nicless.FullAccess)
	if err != nil {
		return err
	}
	e := &end{n: n}
	p.ends[i] = e
	e.cq, err = n.ctx.CreateCQ(nicless.CQConfig{Entries: 2 * p.queue})
	if err != nil {
		return err
	}
	e.qp, err = n.pd.CreateQP(nicless.QPConfig{SendCQ: e.cq, MaxSendWR: p.queue})
	return err
}

// connect connects the queue pairs.
func (p *Path) connect() error {
	for i, e := range p.ends {
		other := p.ends[1-i]
		e.to = other.n
		e.d = other.qp.Descriptor(other.n.mr.Remote("all"))
		if err := e.connect(); err != nil {
			return err
		}
	}
	return nil
}

// Set lets the relay do something else to packets. It returns what it has carried since the last call, from
// the first host to the second, and back.
func (p *Path) Set(w Way) (carried [2]Carried, err error) {
	if err := json.NewEncoder(p.relay.input).Encode(w); err != nil {
		return carried, err
	}
	line, err := p.relay.output.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &carried)
	}
	return carried, err
}

// RDMA moves size bytes from the first host to the second: by WRITEs of the first, or by READs of the
// second. Each has at most each bytes. It compares the bytes, and returns how long the move took.
func (p *Path) RDMA(op nicless.Op, size, each int) (took time.Duration, err error) {
	from, to := p.nodes[0].mr.Bytes()[:size], p.nodes[1].mr.Bytes()[:size]
	_, _ = rand.NewChaCha8(dataSeed).Read(from)
	clear(to)
	e := p.ends[0]
	if op == nicless.Read {
		e = p.ends[1]
	}
	m, err := e.d.Find("all")
	if err != nil {
		return 0, err
	}
	began := time.Now()
	waits := 0
	for off := 0; off < size; off += each {
		if waits == p.queue {
			if err := e.take(1); err != nil {
				return 0, err
			}
			waits--
		}
		err := e.qp.PostSend(&nicless.SendWR{Op: op, Flags: nicless.Signaled,
			SGE:        []nicless.SGE{e.n.mr.SGE(off, min(each, size-off))},
			RemoteAddr: m.Addr + uint64(off), RKey: m.RKey})
		if err != nil {
			return 0, err
		}
		waits++
	}
	for ; waits > 0; waits-- {
		if err := e.take(1); err != nil {
			return 0, err
		}
	}
	took = time.Since(began)
	if !bytes.Equal(from, to) {
		return took, fmt.Errorf("%v of %d bytes: the bytes are wrong", op, size)
	}
	return took, nil
}

// TCP moves size bytes in the same direction by TCP with a congestion control. It compares the bytes, and
// returns how long the move took.
func (p *Path) TCP(control string, size int) (took time.Duration, err error) {
	to, bytes := address(1).String(), fmt.Sprint(size)
	receiver, err := newHolder(p.hosts[1].argv(os.Args[0], TCPArgument, to, bytes))
	if err != nil {
		return 0, err
	}
	sender, err := newHolder(p.hosts[0].argv(os.Args[0], TCPArgument, to, bytes, control))
	receiver.close()
	if err != nil {
		return 0, fmt.Errorf("%w; the receiver: %s", err, &receiver.errors)
	}
	defer sender.close()
	return time.ParseDuration(strings.TrimSpace(sender.first))
}

// Close ends the engines and the hosts.
func (p *Path) Close() {
	for _, n := range p.nodes {
		if n != nil {
			n.close()
		}
	}
	for _, h := range p.hosts {
		if h != nil {
			h.close()
		}
	}
	if p.relay != nil {
		p.relay.close()
	}
}
