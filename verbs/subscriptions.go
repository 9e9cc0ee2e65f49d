//go:build linux && (amd64 || arm64)

package verbs

import (
	"slices"
	"sync"

	"github.com/nicless/nicless/internal/nic"
)

// A process asks for datagrams of other hosts and engines by making an address handle that leads there, or
// with rdma_cm: each names an address of the process's own. Datagrams that come over links to other
// addresses, or to processes that have not asked, are strangers to the engine. So a program that has
// only local peers is not reached from the network when another program opens a port.

// asking guards what all processes ask for. It is held while the engine is told, so that what the engine is
// told last is the newest.
type asking struct{ sync.Mutex }

// An asker is a process: it counts the objects that ask for each source.
type asker struct {
	s        *Server
	counts   map[nic.Source]int
	contexts []*uctx // which the process has opened or adopted
	ended    bool    // the process has gone; its objects may be in use by others
}

// ask counts one more object that asks for datagrams at an address, until drop is called.
func (a *asker) ask(from nic.Source) (drop func()) {
	a.add(from, 1)
	return func() { a.add(from, -1) }
}

func (a *asker) add(from nic.Source, n int) {
	a.s.asking.Lock()
	defer a.s.asking.Unlock()
	before := a.counts[from]
	if a.counts[from] += n; a.counts[from] == 0 {
		delete(a.counts, from)
	}
	if before == 0 || before+n == 0 {
		for _, x := range a.contexts {
			x.tellSources()
		}
	}
	a.leave()
}

// serve makes a context one of the process's.
func (a *asker) serve(x *uctx) {
	a.s.asking.Lock()
	defer a.s.asking.Unlock()
	if x.forgotten || slices.Contains(x.askers, a) {
		return
	}
	x.askers = append(x.askers, a)
	a.contexts = append(a.contexts, x)
	x.tellSources()
}

// end is called when the process has gone. What others may still use, such as a listener that a child
// has got, counts until it ends.
func (a *asker) end() {
	a.s.asking.Lock()
	defer a.s.asking.Unlock()
	a.ended = true
	a.leave()
}

func (a *asker) leave() {
	if !a.ended || len(a.counts) > 0 {
		return
	}
	for _, x := range a.contexts {
		x.askers = slices.DeleteFunc(x.askers, func(b *asker) bool { return b == a })
	}
	a.contexts = nil
}

// forgetAskers is called when the context ends.
func (x *uctx) forgetAskers() {
	x.s.asking.Lock()
	defer x.s.asking.Unlock()
	x.forgotten = true
	for _, a := range x.askers {
		a.contexts = slices.DeleteFunc(a.contexts, func(y *uctx) bool { return y == x })
	}
	x.askers = nil
}

// tellSources tells the engine the sources of the context.
func (x *uctx) tellSources() {
	var list []nic.Source
	for _, a := range x.askers {
		for from := range a.counts {
			if !slices.Contains(list, from) && len(list) < nic.MaxSources {
				list = append(list, from)
			}
		}
	}
	_ = x.client.SetSources(list) // which are not too many
}
