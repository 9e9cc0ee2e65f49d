//go:build linux && (amd64 || arm64)

package survey

import (
	"fmt"

	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/state"
)

// A place is a ring of a queue, between two steps.
type place struct {
	size, entry        uint64 // entries; bytes of an entry
	producer, consumer uint64
	copy               func(to []byte, index uint64) // copies the entry with an index below size
}

// ring gives entries of a ring.
func (s *survey) ring() error {
	request := s.request.Ring
	if request.Count < 1 || request.Count > state.MostEntries {
		return s.refuse("%d entries of a ring; 1 to %d are possible", request.Count, state.MostEntries)
	}
	var ring *state.Ring
	var why string
	s.r.DoWith(mailbox.NoWork, func() {
		p, refused := s.find(request)
		if refused != "" {
			why = refused
			return
		}
		ring = s.read(request, p)
		if ring == nil {
			why = fmt.Sprintf("the program has taken pages of the ring of queue %#06x away", request.Queue)
		}
	})
	if why != "" {
		return s.refuse("%s", why)
	}
	return s.give(&state.Line{Ring: ring})
}

func (s *survey) refuse(format string, args ...any) error {
	return s.give(&state.Line{Refused: fmt.Sprintf(format, args...)})
}

// read reads entries. It returns nil if the memory has lost its pages.
func (s *survey) read(request *state.RingRequest, p *place) *state.Ring {
	count := min(uint64(request.Count), p.size)
	r := &state.Ring{Queue: request.Queue, Of: request.Of, Size: uint32(p.size), Entry: uint32(p.entry),
		First: request.First, Producer: p.producer, Consumer: p.consumer, Bytes: make([]byte, count*p.entry)}
	if request.Last {
		r.First = p.consumer - min(p.consumer, count/2)
	}
	whole := readable(func() {
		for i := range count {
			p.copy(r.Bytes[i*p.entry:][:p.entry], (r.First+i)%p.size)
		}
	})
	if !whole {
		return nil
	}
	return r
}

// find finds a ring, or says why the reader cannot have it. A queue of another user is like one that does not
// exist.
func (s *survey) find(request *state.RingRequest) (p *place, refused string) {
	if request.Of == state.CQRing {
		q := s.r.CQs[request.Queue]
		if q == nil || !Sees(s.uid, q.Client) {
			return nil, fmt.Sprintf("there is no CQ %#06x that this user may see", request.Queue)
		}
		return entries(q), ""
	}
	q := s.r.QPs[request.Queue]
	if q == nil || !Sees(s.uid, q.Client) {
		return nil, fmt.Sprintf("there is no QP %#06x that this user may see", request.Queue)
	}
	switch {
	case request.Of == state.SendRing && q.SQ.Record != nil:
		return blocks(q), ""
	case request.Of == state.ReceiveRing && q.RQ.Ring != nil:
		return receives(q), ""
	case request.Of == state.SendRing || request.Of == state.ReceiveRing:
		return nil, fmt.Sprintf("QP %#06x has no %s ring of its own", request.Queue, request.Of)
	}
	return nil, fmt.Sprintf("ring %.40q; %q, %q and %q are possible", string(request.Of), state.SendRing, state.ReceiveRing,
		state.CQRing)
}

func blocks(q *object.QP) *place {
	p := &place{size: q.SQ.Mask + 1, entry: 64, consumer: q.SQ.Done, producer: q.SQ.Done}
	readable(func() { p.producer += uint64(announced(q)) })
	p.copy = func(to []byte, index uint64) { copy(to, q.SQ.Blocks.At(index)[:]) }
	return p
}

func receives(q *object.QP) *place {
	p := &place{size: q.RQ.Mask + 1, entry: 1 << q.RQ.Stride, consumer: q.RQ.Done, producer: q.RQ.Done}
	readable(func() { p.producer += uint64(q.Posted()) })
	p.copy = func(to []byte, index uint64) { copy(to, q.RQ.Ring[index<<q.RQ.Stride:]) }
	return p
}

func entries(q *object.CQ) *place {
	p := &place{size: 1 << q.Log, entry: 1 << q.LogCQE, consumer: q.Next, producer: q.Next}
	if !q.Collapsed {
		readable(func() { p.consumer -= q.ObserveUnread() })
	}
	p.copy = func(to []byte, index uint64) { copy(to, q.Buf[index<<q.LogCQE:]) }
	return p
}
