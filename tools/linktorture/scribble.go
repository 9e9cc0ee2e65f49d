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

// openPool maps the pool. The scribbler writes only where its node may write: into its part of the pool.
// Each node of a pool can also write in the name of others, and a pool does not prevent that.
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
	s := &scribbler{mem: mem, m: m}
	rings := m.Rings(scribbled)
	rings.Size = min(rings.Size, 64<<10) // those that it says it has
	s.parts = []pool.Part{
		m.Life(scribbled), m.Description(scribbled), m.Board(scribbled), m.Names(scribbled),
		m.Table(scribbled), rings,
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
	const phase = 256 // writes: more than a second, in which slow nodes see a life and agree on a session
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

// Words of a node's first line and of its pairs, and what is in them; see package pool.
const (
	heartbeat, epoch, changes, described = 0, 8, 32, 48
	mine, yours, peer, size              = 0, 8, 24, 32

	ringSlots, ringData = 64, 48 << 10 // of the rings that the scribbler says it has
)

// pair is where the scribbler's pair with a node is: the first ones of its table.
func (s *scribbler) pair(node int) uint64 {
	return s.m.Table(scribbled).Offset + uint64(node)*pool.PairSize
}

// join writes the part of a node that lives, offers rings to all others, and takes every offer of a
// session. The scribbler describes itself with a copy of node 1's description.
func (s *scribbler) join(anew bool, life uint64) {
	own := s.m.Life(scribbled)
	if anew {
		s.copy(own, s.m.Life(1))
		s.copy(s.m.Description(scribbled), s.m.Description(1))
		s.put(own.Offset+epoch, life&^(1<<32-1)|1<<32)
	}
	for node := range uint64(scribbled) {
		at := s.pair(int(node))
		s.put(at+size, ringData)
		s.put(at+peer, (node+1)<<48|6<<40|node*(ringSlots*128+ringData)/4096) // 2^6 slots
		if theirs, ok := s.m.Pair(s.mem, int(node), scribbled); ok {
			s.put(at+yours, s.get(theirs.Offset+mine))
		}
		s.put(at+mine, s.get(own.Offset+epoch)+1)
	}
	s.put(s.m.Names(scribbled).Offset, 1<<scribbled-1) // or nobody searches the table
	for _, word := range []uint64{changes, described, heartbeat} {
		s.put(own.Offset+word, s.get(own.Offset+word)+1)
	}
}

func (s *scribbler) copy(to, from pool.Part) {
	for i := uint64(0); i+8 <= to.Size; i += 8 {
		s.put(to.Offset+i, s.get(from.Offset+i))
	}
}

// spoil writes a slot that is taken for the next packet, with lengths that cannot be.
func (s *scribbler) spoil(slot int) {
	const slotSize = 128
	for node := range scribbled {
		theirs, ok := s.m.Pair(s.mem, node, scribbled)
		if !ok {
			continue
		}
		next := s.get(pool.Consumed(theirs).Offset) // the number of the packet that the node expects
		at := s.m.Rings(scribbled).Offset + uint64(node)*(ringSlots*slotSize+ringData)
		for i := range uint64(slot + 1) {
			s.put(at+(next+i)%ringSlots*slotSize, (next+i+1)<<32|0xff<<16)
		}
	}
}
