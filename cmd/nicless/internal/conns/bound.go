// Package conns bounds the connections of an HTTP server, so that clients that ask nothing keep nobody out.
//
// A connection is active while a request on it is answered, and idle otherwise: also a new one until the
// header of its first request has come, and one whose request was refused (Release). If there are too
// many, one more takes the place of the one that has been idle for the longest time. So clients such as
// browsers and Prometheus can keep connections for long, and many connections displace only idle ones.
// How long a request takes is for the server to bound.
package conns

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// A Bound is on the connections of one http.Server, whose ConnState is Note, and whose ConnContext is Context
// if it refuses requests. Its methods are safe for concurrent use.
type Bound struct {
	most int

	mu   sync.Mutex
	open map[net.Conn]uint64 // when it became idle, counted in such events; 0: it is active
	turn uint64
}

// NewBound returns a bound on the connections that are open at once. most is at least 1.
func NewBound(most int) *Bound {
	return &Bound{most: most, open: make(map[net.Conn]uint64)}
}

// Note takes the state of a connection. It closes a new one that finds no place, because all are active, and
// one that loses its place to a new one.
func (b *Bound) Note(c net.Conn, s http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, open := b.open[c]
	switch s {
	case http.StateNew:
		if len(b.open) >= b.most && !b.evict() {
			_ = c.Close()
			return
		}
		b.setIdle(c)
	case http.StateActive:
		if open {
			b.open[c] = 0
		}
	case http.StateIdle:
		if open {
			b.setIdle(c)
		}
	case http.StateClosed, http.StateHijacked:
		delete(b.open, c)
	}
}

// onBound is the key of a context's bounded connection.
type onBound struct{}

type bounded struct {
	b *Bound
	c net.Conn
}

// Context returns a context for the requests on a connection, with which they can release it.
func (b *Bound) Context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, onBound{}, bounded{b, c})
}

// Release makes the connection of a request idle before its answer, which may be cut off then: the server
// may wait long for the rest of a request that is refused. It does nothing if the context of the request is
// of no Bound.
func Release(ctx context.Context) {
	if r, ok := ctx.Value(onBound{}).(bounded); ok {
		r.b.Note(r.c, http.StateIdle)
	}
}

func (b *Bound) setIdle(c net.Conn) {
	b.turn++
	b.open[c] = b.turn
}

// evict closes the connection that has been idle for the longest time. It returns false if none is idle.
func (b *Bound) evict() bool {
	var oldest net.Conn
	for c, idle := range b.open {
		if idle != 0 && (oldest == nil || idle < b.open[oldest]) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	delete(b.open, oldest) // the server notes its end later
	_ = oldest.Close()
	return true
}
