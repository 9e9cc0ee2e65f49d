//go:build linux && (amd64 || arm64)

package linktorture

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/fabric/pool"
	"github.com/nicless/nicless/internal/shm"
)

// scribbled is the node of the pool that the scribbler is. Nodes 0 and 1 are engines.
const scribbled = 2

// A scribbler has the pool's file mapped.
type scribbler struct {
	mem   []byte
	m     pool.Map
	parts []pool.Part
	polls int // how often it has written
}

// openPool maps the pool. The scribbler writes only where its node may write: its block, its board, its half
// of the rings. Each node of a pool can also write in the name of others, and a pool does not prevent that.
func (h *hostile) openPool() (*scribbler, error) {
	f, err := os.OpenFile(h.s.Pool, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	m, err := pool.ReadMap(mem)
	if err != nil {
		return nil, err
	}
	if m.Nodes() <= scribbled {
		return nil, errors.New("the pool has no node for the scribbler")
	}
	s := &scribbler{mem: mem, m: m, parts: []pool.Part{m.Block(scribbled), m.Board(scribbled)}}
	for node := range m.Nodes() {
		if node != scribbled {
			own := m.Ring(scribbled, node)
			consumed := m.Consumed(scribbled, node)
			after := consumed.Offset + 2*consumed.Size // the count has two lines
			s.parts = append(s.parts, m.Consumed(node, scribbled),
				pool.Part{Offset: after, Size: own.Offset + own.Size - after})
		}
	}
	return s, nil
}

func (s *scribbler) put(at, value uint64) { shm.BE64At(s.mem, at).Publish(value) }
func (s *scribbler) get(at uint64) uint64 { return shm.BE64At(s.mem, at).Observe() }

// scribble is a node that joins, as far as the others see, and writes wrong words: into its rings only
// for a while, then everywhere.
func (h *hostile) scribble() (err error) {
	if h.pool == nil {
		h.pool, err = h.openPool()
		if err != nil {
			return err
		}
	}
	s := h.pool
	const phase = 64 // writes
	s.polls++
	switch s.polls / phase % 2 {
	case 0:
		s.join(s.polls%phase == 1, h.r.Uint64())
		if s.polls%phase > phase/2 {
			s.spoil(h.r.IntN(64))
		}
	default:
		for range 16 {
			p := s.parts[h.r.IntN(len(s.parts))]
			s.put(p.Offset+h.r.Uint64N(p.Size/8)*8, h.r.Uint64()>>h.r.IntN(64))
		}
	}
	h.count.Hostile++
	time.Sleep(5 * time.Millisecond)
	return nil
}

// join writes the block of a node that lives, and takes every offer of a session. The scribbler
// describes itself with a copy of node 1's description.
func (s *scribbler) join(anew bool, life uint64) {
	const heartbeat, epoch, mine, yours = 0, 8, 0, 8 // the words of a block and of a line, see package pool
	own := s.m.Block(scribbled)
	if anew {
		from := s.m.Block(1)
		for i := uint64(0); i < own.Size; i += 8 {
			s.put(own.Offset+i, s.get(from.Offset+i))
		}
		s.put(own.Offset+epoch, life&^(1<<32-1)|1<<32)
	}
	for node := range scribbled {
		line := s.m.Line(scribbled, node).Offset
		s.put(line+mine, s.get(own.Offset+epoch)+1)
		s.put(line+yours, s.get(s.m.Line(node, scribbled).Offset+mine))
	}
	s.put(own.Offset+heartbeat, s.get(own.Offset+heartbeat)+1)
}

// spoil writes a slot that is taken for the next packet, with lengths that cannot be.
func (s *scribbler) spoil(slot int) {
	const slots, slotSize = 256, 128 // of a ring: where they begin, and their size
	for node := range scribbled {
		for i := range uint64(slot + 1) {
			s.put(s.m.Ring(scribbled, node).Offset+slots+i*slotSize, (i+1)<<32|0xff<<16)
		}
	}
}
