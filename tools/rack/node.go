//go:build linux && (amd64 || arm64)

package rack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/unixsock"
)

// The memory of a node has three areas, each with a slot for each neighbour: what it sends, what the
// neighbour writes, and what the neighbour sends.
const (
	slotSize  = 3000
	following = 8 // neighbours after a node, and as many before it
)

// An area is a part of a node's memory.
type area int

const (
	source area = iota
	target
	inbox
	areas
)

// A node is the client of an engine.
type node struct {
	number int
	most   int // neighbours
	*engine
	ctx   *nicless.Context
	pd    *nicless.PD
	mr    *nicless.MR
	peers []*end
}

// An end is a node's queue pair with a neighbour.
type end struct {
	n    *node
	to   *node
	slot int // in the areas of n
	back *end
	cq   *nicless.CQ
	qp   *nicless.QP
	own  nicless.Descriptor
	d    nicless.Descriptor // of the other end

	connected bool
}

// open connects to the engine, and registers memory.
func (n *node) open() (err error) {
	n.peers = nil
	n.ctx, err = n.dial()
	if err != nil {
		return err
	}
	n.pd, err = n.ctx.AllocPD()
	if err != nil {
		return err
	}
	n.mr, err = n.pd.RegisterMemory(int(areas)*n.most*slotSize, nicless.FullAccess)
	return err
}

// close ends the connection to the engine, and the engine.
func (n *node) close() {
	if n.ctx != nil { // the engine has served
		_ = n.ctx.Close()
	}
	n.stop()
}

// at is where a slot of an area begins in the node's memory.
func (n *node) at(a area, slot int) int { return (int(a)*n.most + slot) * slotSize }

// newEnd makes a queue pair for a neighbour.
func (n *node) newEnd(to *node) (e *end, err error) {
	e = &end{n: n, to: to, slot: n.freeSlot()}
	e.cq, err = n.ctx.CreateCQ(nicless.CQConfig{Entries: 16})
	if err != nil {
		return nil, err
	}
	e.qp, err = n.pd.CreateQP(nicless.QPConfig{SendCQ: e.cq, MaxSendWR: 8, MaxRecvWR: 8})
	if err != nil {
		return nil, err
	}
	e.own = e.qp.Descriptor(n.mr.Remote("all"))
	n.peers = append(n.peers, e)
	return e, nil
}

// freeSlot returns a slot that no queue pair has.
func (n *node) freeSlot() int {
	taken := make([]bool, n.most)
	for _, e := range n.peers {
		taken[e.slot] = true
	}
	for i := range taken {
		if !taken[i] {
			return i
		}
	}
	panic("a node has more neighbours than slots")
}

// link makes the queue pairs between two nodes. They are not connected yet.
func link(a, b *node) error {
	x, err := a.newEnd(b)
	if err != nil {
		return err
	}
	y, err := b.newEnd(a)
	if err != nil {
		return err
	}
	join(x, y)
	return nil
}

// join makes two queue pairs the ends of one connection.
func join(x, y *end) {
	x.back, y.back = y, x
	x.d, y.d = y.own, x.own
}

// connect connects all queue pairs of a node that are not connected.
func (n *node) connect() error {
	for _, e := range n.peers {
		if e.connected {
			continue
		}
		if err := e.connect(); err != nil {
			return err
		}
		e.connected = true
	}
	return nil
}

// timeout is the code of 1.07 s. With this time for each try, a machine that is busy with other things gets
// 29 s in which an engine has to answer.
const timeout = 18

// connect connects the queue pair, as soon as the engine knows the other one.
func (e *end) connect() error {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := e.qp.Connect(e.d, nicless.Connection{Timeout: timeout})
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%v does not connect after %v: %w; what the engine says of its peers: %s", e, patience, err, e.n.report())
		}
	}
}

// mostReported is how many peers a report has.
const mostReported = 20

// report returns what the engine says of its peers that are not there, and of those that are.
func (n *node) report() (text string) {
	reported := 0
	var list []links.Report
	if err := unixsock.Query(n.socket+nicless.LinksSuffix, patience, &list); err != nil {
		return err.Error()
	}
	for _, l := range list {
		for _, p := range l.Peers {
			reported++
			if reported > mostReported {
				return text + " and more"
			}
			if p.Up {
				text += fmt.Sprintf(" %s %016x;", p.Name, p.GUID)
			} else {
				text += fmt.Sprintf(" %s %016x down: %s;", p.Name, p.GUID, p.Why)
			}
		}
	}
	return text
}

// String names the queue pair.
func (e *end) String() string { return fmt.Sprintf("queue pair of %s with %s", e.n.name, e.to.name) }

// close closes the queue pair, and takes it out of the node's list.
func (e *end) close() error {
	var left []*end
	for _, p := range e.n.peers {
		if p != e {
			left = append(left, p)
		}
	}
	e.n.peers = left
	return errors.Join(e.qp.Close(), e.cq.Close())
}

// take waits for n completions, which must be good.
func (e *end) take(n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var list [4]nicless.Completion
	for n > 0 {
		got, err := e.cq.Wait(ctx, list[:n])
		if err != nil {
			return fmt.Errorf("%v: %d completions are missing: %w", e, n, err)
		}
		for i := range list[:got] {
			if err := list[i].Err(); err != nil {
				return fmt.Errorf("%v: %w; what the engine says of its peers: %s", e, err, e.n.report())
			}
		}
		n -= got
	}
	return nil
}
