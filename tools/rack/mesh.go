//go:build linux && (amd64 || arm64)

package rack

import (
	"fmt"
	"runtime"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/unixsock"
)

// mesh connects each node with each other, and measures that. No other step can follow.
func (r *rack) mesh() error {
	before, err := sum(r.nodes)
	if err != nil {
		return err
	}
	phase := func(name string, do func() error) error {
		began := time.Now()
		if err := do(); err != nil {
			return err
		}
		took := time.Since(began)
		now, err := sum(r.nodes)
		if err != nil {
			return err
		}
		queues := 2 * r.pairs()
		each := time.Duration((now.seconds - before.seconds) / float64(max(queues, 1)) * float64(time.Second))
		before = now
		r.Log("%s: %v, of which the engines used %v for each of %d queue pairs", name,
			took.Round(time.Millisecond), each.Round(time.Microsecond), queues)
		return nil
	}
	for _, p := range []struct {
		name string
		do   func() error
	}{
		{"queue pairs are made", r.linkAll},
		{"all are connected", func() error { return each(r.nodes, (*node).connect) }},
		{"the first WRITE of each is complete", func() error { return each(r.nodes, (*node).firstWrites) }},
	} {
		if err := phase(p.name, p.do); err != nil {
			return err
		}
	}
	if err := r.countPackets(); err != nil {
		return err
	}
	_, err = r.exchange(r.nodes, all, "data between all")
	return err
}

// linkAll makes the queue pairs of all pairs of nodes, those of as many nodes at one time as there are cores:
// each of more nodes would find a core taken by the engines of the others.
func (r *rack) linkAll() error {
	turns := make(chan struct{}, runtime.NumCPU())
	err := each(r.nodes, func(n *node) error {
		turns <- struct{}{}
		defer func() { <-turns }()
		for _, to := range r.nodes {
			if to == n {
				continue
			}
			if _, err := n.newEnd(to); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, a := range r.nodes {
		for j, b := range r.nodes[:i] {
			join(a.peers[j], b.peers[i-1]) // no node has a queue pair with itself
		}
	}
	return nil
}

// firstWrites writes to all neighbours, and waits until all have acknowledged that.
func (n *node) firstWrites() error {
	for _, e := range n.peers {
		m, err := e.d.Find("all")
		if err != nil {
			return err
		}
		err = e.qp.PostSend(&nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled,
			SGE:        []nicless.SGE{n.mr.SGE(n.at(source, e.slot), slotSize)},
			RemoteAddr: m.Addr + uint64(e.to.at(target, e.back.slot)), RKey: m.RKey})
		if err != nil {
			return err
		}
	}
	for _, e := range n.peers {
		if err := e.take(1); err != nil {
			return err
		}
	}
	return nil
}

// countPackets logs what the engines have sent.
func (r *rack) countPackets() error {
	var sent, resent, timeouts uint64
	for _, n := range r.nodes {
		var list []links.Report
		if err := unixsock.Query(n.socket+nicless.LinksSuffix, patience, &list); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		for _, l := range list {
			for _, p := range l.Peers {
				sent, resent = sent+p.Stats.Sent, resent+p.Stats.Resent
				timeouts += p.Stats.Timeouts
			}
		}
	}
	queues := float64(2 * r.pairs())
	r.Log("packets for each queue pair: %.2f, of which %.3f were sent again; %d timeouts", float64(sent)/queues,
		float64(resent)/queues, timeouts)
	return nil
}
