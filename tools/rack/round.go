//go:build linux && (amd64 || arm64)

package rack

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nicless/nicless"
)

// pattern writes what one node sends to another in a round.
func pattern(b []byte, from, to, round int) {
	seed := [32]byte{byte(from), byte(from >> 8), byte(to), byte(to >> 8), byte(round), byte(round >> 8)}
	g := rand.NewChaCha8(seed)
	_, _ = g.Read(b)
}

// begin posts the receive of a round.
func (e *end) begin() error {
	piece := e.n.mr.SGE(e.n.at(inbox, e.slot), slotSize)
	return e.qp.PostRecv(&nicless.RecvWR{ID: 1, SGE: []nicless.SGE{piece}})
}

// post posts the write and the send of a round.
func (e *end) post(round int) error {
	m, err := e.d.Find("all")
	if err != nil {
		return err
	}
	at := e.n.at(source, e.slot)
	pattern(e.n.mr.Bytes()[at:at+slotSize], e.n.number, e.to.number, round)
	piece := []nicless.SGE{e.n.mr.SGE(at, slotSize)}
	err = e.qp.PostSend(&nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, SGE: piece,
		RemoteAddr: m.Addr + uint64(e.to.at(target, e.back.slot)), RKey: m.RKey})
	if err != nil {
		return err
	}
	return e.qp.PostSend(&nicless.SendWR{Op: nicless.Send, Flags: nicless.Signaled, SGE: piece})
}

// check compares what has come in a round, and clears it.
func (e *end) check(round int) error {
	want := make([]byte, slotSize)
	pattern(want, e.to.number, e.n.number, round)
	for _, a := range []area{target, inbox} {
		got := e.n.mr.Bytes()[e.n.at(a, e.slot):][:slotSize]
		if !bytes.Equal(got, want) {
			i := 0
			for got[i] == want[i] {
				i++
			}
			return fmt.Errorf("%v: round %d: byte %d of what came is %#02x, and has to be %#02x", e, round, i, got[i], want[i])
		}
		clear(got)
	}
	return nil
}

// writeFirst lets each second node write to the one that follows it, one after the other, while the engines
// of both sleep, and reports how long that took.
func (r *rack) writeFirst() error {
	var took []time.Duration
	for i := 0; i+1 < len(r.nodes); i += 2 {
		for _, e := range r.nodes[i].among(func(n *node) bool { return n == r.nodes[i+1] }) {
			m, err := e.d.Find("all")
			if err != nil {
				return err
			}
			began := time.Now()
			err = e.qp.PostSend(&nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled,
				SGE:        []nicless.SGE{e.n.mr.SGE(e.n.at(source, e.slot), 8)},
				RemoteAddr: m.Addr + uint64(e.to.at(target, e.back.slot)), RKey: m.RKey})
			if err == nil {
				err = e.take(1)
			}
			if err != nil {
				return err
			}
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	r.Log("the first WRITE between two idle engines: median %v, longest %v, n = %d",
		took[len(took)/2].Round(time.Microsecond), took[len(took)-1].Round(time.Microsecond), len(took))
	return nil
}

// each calls f for each node at one time, and returns the first error.
func each(nodes []*node, f func(*node) error) error {
	return forAll(len(nodes), func(i int) error { return f(nodes[i]) })
}

// among returns the node's queue pairs with some nodes.
func (n *node) among(with func(*node) bool) (list []*end) {
	for _, e := range n.peers {
		if with(e.to) {
			list = append(list, e)
		}
	}
	return list
}

// round exchanges data between nodes, and checks it. It returns how long the node that took longest has
// waited for its data.
func round(nodes []*node, with func(*node) bool, number int) (longest time.Duration, err error) {
	forEach := func(f func(*end) error) func(*node) error {
		return func(n *node) error {
			for _, e := range n.among(with) {
				if err := f(e); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if err := each(nodes, forEach((*end).begin)); err != nil {
		return 0, err
	}
	var mu sync.Mutex
	err = each(nodes, func(n *node) error {
		began := time.Now()
		err := forEach(func(e *end) error { return e.post(number) })(n)
		if err == nil {
			err = forEach(func(e *end) error { return e.take(3) })(n)
		}
		mu.Lock()
		defer mu.Unlock()
		longest = max(longest, time.Since(began))
		return err
	})
	if err != nil {
		return longest, err
	}
	return longest, each(nodes, forEach(func(e *end) error { return e.check(number) }))
}
