//go:build linux && (amd64 || arm64)

package verbs

import (
	"slices"
	"sync"

	"github.com/nicless/nicless/internal/nic"
)

// A process subscribes to datagrams of other hosts and engines by making an address handle that
// leads there, or with rdma_cm: each names an address of the process's own. Datagrams that come
// over links to other addresses, or to processes without a subscription, are strangers to the
// engine. So a program that has only local peers is not reached from the network when another
// program opens a port.

// subscriptions guards the subscriptions of all processes. It is held while the engine is
// updated, so that the engine's last update is the newest.
type subscriptions struct{ sync.Mutex }

// A subscriber is a process: it counts the objects that need each source.
type subscriber struct {
	s        *Server
	counts   map[nic.Source]int
	contexts []*uctx // which the process has opened or adopted
	ended    bool    // the process has gone; its objects may be in use by others
}

// subscribe counts one more object that needs datagrams at an address, until drop is called.
func (sub *subscriber) subscribe(from nic.Source) (drop func()) {
	sub.add(from, 1)
	return func() { sub.add(from, -1) }
}

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
	sub.leave()
}

// serve makes a context one of the process's.
func (sub *subscriber) serve(x *uctx) {
	sub.s.subscriptions.Lock()
	defer sub.s.subscriptions.Unlock()
	if x.released || slices.Contains(x.subscribers, sub) {
		return
	}
	x.subscribers = append(x.subscribers, sub)
	sub.contexts = append(sub.contexts, x)
	x.sendSources()
}

// end is called when the process has gone. An object that others may still use, such as a listener that a
// child has got, counts until it ends.
func (sub *subscriber) end() {
	sub.s.subscriptions.Lock()
	defer sub.s.subscriptions.Unlock()
	sub.ended = true
	sub.leave()
}

func (sub *subscriber) leave() {
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
	_ = x.client.SetSources(list) // which are not too many
}
