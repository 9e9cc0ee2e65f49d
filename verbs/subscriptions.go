//go:build linux && (amd64 || arm64)

package verbs

import (
	"slices"
	"sync"

	"github.com/nicless/nicless/internal/nic"
)

// A process subscribes to datagrams of other hosts and engines: it makes an address handle that
// leads there, or uses rdma_cm. Each subscription names an address of the process. The engine
// delivers no datagrams that come over links to other addresses, or to a process without a
// subscription. So a program that has only local peers is not reached from the network when
// another program opens a port.

// subscriptions guards the subscriptions of all processes. It is locked while the engine is
// updated, so that the updates reach the engine in the order in which they were made.
type subscriptions struct{ sync.Mutex }

// A subscriber has the subscriptions of one process.
type subscriber struct {
	s        *Server
	counts   map[nic.Source]int // number of objects that need datagrams from each source
	contexts []*uctx            // contexts that the process has opened or adopted
	ended    bool               // the process has gone; other processes may still use its objects
}

// subscribe counts one more object that needs datagrams at an address, until drop is called.
func (sub *subscriber) subscribe(from nic.Source) (drop func()) {
	sub.add(from, 1)
	return func() { sub.add(from, -1) }
}

// add adds n to the count of a source, and updates the engine if the first object came or the last one went.
func (sub *subscriber) add(from nic.Source, n int) {
	sub.s.subscriptions.Lock()
	defer sub.s.subscriptions.Unlock()
	before := sub.counts[from]
	sub.counts[from] += n
	if sub.counts[from] == 0 {
		delete(sub.counts, from)
	}
	if before == 0 || before+n == 0 {
		for _, x := range sub.contexts {
			x.sendSources()
		}
	}
	sub.leaveIfDone()
}

// addContext notes that the process has opened or adopted a context.
func (sub *subscriber) addContext(x *uctx) {
	sub.s.subscriptions.Lock()
	defer sub.s.subscriptions.Unlock()
	if x.released || slices.Contains(x.subscribers, sub) {
		return
	}
	x.subscribers = append(x.subscribers, sub)
	sub.contexts = append(sub.contexts, x)
	x.sendSources()
}

// end is called when the process has gone. An object that other processes may still use, such as a listener
// that a child process has got, counts until it ends.
func (sub *subscriber) end() {
	sub.s.subscriptions.Lock()
	defer sub.s.subscriptions.Unlock()
	sub.ended = true
	sub.leaveIfDone()
}

// leaveIfDone takes the subscriber out of its contexts if its process has gone and no object needs datagrams.
func (sub *subscriber) leaveIfDone() {
	if !sub.ended || len(sub.counts) > 0 {
		return
	}
	for _, x := range sub.contexts {
		x.subscribers = slices.DeleteFunc(x.subscribers, func(b *subscriber) bool { return b == sub })
	}
	sub.contexts = nil
}

// unsubscribeAll ends the subscriptions of a context that ends.
func (x *uctx) unsubscribeAll() {
	x.s.subscriptions.Lock()
	defer x.s.subscriptions.Unlock()
	x.released = true
	for _, sub := range x.subscribers {
		sub.contexts = slices.DeleteFunc(sub.contexts, func(y *uctx) bool { return y == x })
	}
	x.subscribers = nil
}

// sendSources gives the engine the sources of the context.
func (x *uctx) sendSources() {
	var list []nic.Source
	for _, sub := range x.subscribers {
		for from := range sub.counts {
			if !slices.Contains(list, from) && len(list) < nic.MaxSources {
				list = append(list, from)
			}
		}
	}
	_ = x.client.SetSources(list) // fails only for more than nic.MaxSources
}
