package incoherent

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless/internal/shm"
)

// Lean returns a side that has memory only for the pages in own, which are those that it writes. All lean
// sides share the memory for the lines of others: Enter and Leave are called before and after a side reads
// them. So a thousand sides, each of which reads what all the others write, fit into a computer. A lean side
// does not find changes that are invalidated before they were written back, and records no sites.
func (m *Memory) Lean(name string, own ...Span) (_ *Side, err error) {
	if m.common == nil {
		m.common, err = shm.CreateSparse("lines of others", len(m.mem))
		if err != nil {
			return nil, err
		}
	}
	size := 0
	for _, o := range own {
		size += o.Size
	}
	s := &Side{m: m, name: name, spans: own}
	s.own, err = shm.CreateSparse(name, size)
	if err != nil {
		return nil, err
	}
	var parts [][]byte
	at, mine := 0, s.own.Bytes()
	for _, o := range append(own[:len(own):len(own)], Span{At: m.common.Size()}) {
		if o.At < at {
			return nil, errors.Join(fmt.Errorf("pages from %d on, after those up to %d", o.At, at), s.own.Close())
		}
		if o.At > at {
			parts = append(parts, m.common.Bytes()[at:o.At])
		}
		if o.Size > 0 {
			parts, mine = append(parts, mine[:o.Size]), mine[o.Size:]
		}
		at = o.At + o.Size
	}
	s.region, err = shm.Join(parts...)
	if err != nil {
		return nil, errors.Join(err, s.own.Close())
	}
	return s, nil
}

// Restart makes a lean side the same host after a restart, with nothing in its caches.
func (s *Side) Restart() error {
	s.recent = nil
	return s.own.Discard()
}

// Close gives the memory of a lean side back, which must not be used any more.
func (s *Side) Close() error { return errors.Join(s.region.Close(), s.own.Close()) }

// Close gives the memory back that lean sides share.
func (m *Memory) Close() error {
	if m.common == nil {
		return nil
	}
	return m.common.Close()
}
