//go:build linux && (amd64 || arm64)

package eventsocket

import (
	"container/list"

	"github.com/nicless/nicless/internal/control"
)

// Late are events about a client's objects and ports that wait for room, in order. Of one kind and object at
// most one waits, as one event queue entry of mlx5 may stand for several causes: the client looks at the
// object when it reads it. So they are bounded by the client's objects, if those of an object that is gone
// are dropped. A queue pair can have five, of about 200 bytes each.
type Late struct {
	order list.List // of Event
	at    map[Event]*list.Element
}

// An Event is one kind of event of one object.
type Event struct {
	Kind   control.EventKind
	Number uint32
}

// Len returns how many events wait.
func (l *Late) Len() int { return l.order.Len() }

// First returns the event that is to be sent first. There is one.
func (l *Late) First() Event { return l.order.Front().Value.(Event) }

// Add adds an event, unless it waits already. It then comes last: of a port that goes down, up and down
// again, the client is to learn the last state at last.
func (l *Late) Add(ev Event) {
	if at := l.at[ev]; at != nil {
		l.order.MoveToBack(at)
		return
	}
	if l.at == nil {
		l.at = make(map[Event]*list.Element)
	}
	l.at[ev] = l.order.PushBack(ev)
}

// Remove removes an event, if it waits.
func (l *Late) Remove(ev Event) {
	if at := l.at[ev]; at != nil {
		l.order.Remove(at)
		delete(l.at, ev)
	}
	if l.Len() == 0 {
		*l = Late{} // a map never shrinks
	}
}
