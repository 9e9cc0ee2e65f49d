// Package incoherent is memory as hosts see it that share it without coherent caches. It is a
// double for tests, so that a missing write-back or invalidation fails on any machine.
//
// Terms: a side is a host, or a node of a pool. A line is 64 bytes.
//
// Each side has bytes of its own, which stand for its caches. They begin with arbitrary
// contents. WriteBack copies lines from them to the memory, and Invalidate copies lines from the
// memory to them. So a side that does not invalidate reads what it had before, and what
// a side does not write back stays unknown to all others.
//
// Two things that would also work on some machines, or only sometimes, are faults: two sides that
// write one line, and the invalidation of a line with changes that were not written back.
//
// A lean side (lean.go) takes memory only for what it writes, and poisons what it has read.
package incoherent

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/nicless/nicless/internal/shm"
)

const line = 64

// Memory is what the sides share. Its methods are safe for concurrent use.
type Memory struct {
	mu     sync.Mutex
	mem    []byte
	owner  []int32 // index in names of the side that has written a line, for each line; 0: none
	names  []string
	faults []string
	sites  []string // calls of WriteBack and Invalidate in the order in which they were first seen
	seen   map[string]bool

	common  *shm.Region // where lean sides have the lines of others
	working []*Side     // the lean sides that have entered; the last one is at work

	// Helpers are files whose functions call WriteBack and Invalidate for their callers.
	Helpers []string
}

// A Side is the memory as one host sees it. Different goroutines may use different lines of it.
type Side struct {
	m      *Memory
	name   string
	id     int32 // index in Memory.names; 0: it has written nothing
	region *shm.Region
	clean  []byte // the host's bytes as they were when they were last the same as memory; nil: a lean side

	// Of a lean side:
	own    *shm.Region // its own memory, which is in region, too
	spans  []Span      // where that is
	recent []int       // lines that it has invalidated since it has entered
	kept   []kept      // what those were when another one has entered

	// Skip makes a call of WriteBack or Invalidate do nothing. site says which call it is.
	Skip func(site string) bool

	// Evict, if it is not nil, makes caches do what they may do at any time: it writes back and
	// drops lines at random, during calls of WriteBack and Invalidate. The side must then have
	// one goroutine.
	Evict *rand.Rand
}

// New returns memory of size bytes, whose contents are arbitrary and follow from seed.
func New(size int, seed uint64) *Memory {
	m := &Memory{mem: make([]byte, size), names: []string{""}, seen: map[string]bool{}}
	m.owner = make([]int32, (size+line-1)/line)
	fill(m.mem, seed)
	return m
}

func fill(b []byte, seed uint64) {
	var s [32]byte
	s[0], s[1] = byte(seed), byte(seed>>8)
	_, _ = rand.NewChaCha8(s).Read(b)
}

// Side returns a host that has mapped the memory and has something else in its caches. If there is
// a side of this name, the new one is the same host after a restart: it may write the same lines.
func (m *Memory) Side(name string, seed uint64) *Side {
	r, err := shm.Heap(len(m.mem))
	if err != nil {
		panic(err)
	}
	s := &Side{m: m, name: name, region: r}
	fill(s.Bytes(), seed)
	s.clean = bytes.Clone(s.Bytes())
	return s
}

// Bytes returns the memory as this host sees it.
func (s *Side) Bytes() []byte { return s.region.Bytes()[:len(s.m.mem)] }

// Offset returns where bytes of this side are in the memory.
func (s *Side) Offset(b []byte) (at uint64, ok bool) { return s.region.Offset(b) }

// Write changes the memory itself, as a host that writes wherever it likes.
func (m *Memory) Write(at int, b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	copy(m.mem[at:], b)
}

// Read copies bytes of the memory itself.
func (m *Memory) Read(at int, b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	copy(b, m.mem[at:])
}

// Reassign drops the record of which side has written which line, because the memory is divided anew.
func (m *Memory) Reassign() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.owner)
}

// Faults returns the faults so far.
func (m *Memory) Faults() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.faults...)
}

// Sites returns from where WriteBack and Invalidate were called so far.
func (m *Memory) Sites() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.sites...)
}

// WriteBack copies lines to the memory.
func (s *Side) WriteBack(b []byte) { s.each("write back", b, s.writeBack) }

// Invalidate makes this side see lines as they are in memory.
func (s *Side) Invalidate(b []byte) {
	s.each("invalidate", b, func(i int) {
		if at := i * line; s.clean != nil && !bytes.Equal(s.line(i), s.clean[at:][:line]) {
			s.m.fault("%s invalidates line %#x, which has changes that were not written back", s.name, at)
			s.writeBack(i)
		}
		s.fetch(i)
	})
}

// each calls f for every line that b touches.
func (s *Side) each(kind string, b []byte, f func(i int)) {
	var site string
	if s.clean != nil {
		site = kind + " " + s.m.caller()
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.clean != nil && !s.m.seen[site] {
		s.m.seen[site] = true
		s.m.sites = append(s.m.sites, site)
	}
	if len(b) == 0 || s.Skip != nil && s.Skip(site) {
		return
	}
	off, ok := s.region.Offset(b)
	if !ok {
		s.m.fault("%s: bytes that are not in its memory: %s", s.name, site)
		return
	}
	s.evict()
	for i := int(off) / line; i <= (int(off)+len(b)-1)/line; i++ {
		f(i)
	}
	s.evict()
}

func (s *Side) line(i int) []byte { return s.Bytes()[i*line:][:line] }

func (s *Side) fetch(i int) {
	copy(s.line(i), s.m.mem[i*line:])
	if s.clean == nil {
		s.recent = append(s.recent, i)
		return
	}
	copy(s.clean[i*line:][:line], s.line(i))
}

func (s *Side) writeBack(i int) {
	if s.id == 0 {
		s.id = s.m.idOf(s.name)
	}
	switch s.m.owner[i] {
	case 0:
		s.m.owner[i] = s.id
	case s.id:
	default:
		s.m.fault("line %#x is written by %s and by %s", i*line, s.m.names[s.m.owner[i]], s.name)
	}
	copy(s.m.mem[i*line:], s.line(i))
	if s.clean != nil {
		copy(s.clean[i*line:][:line], s.line(i))
	}
}

// evict drops some lines. A line with changes is written back first.
func (s *Side) evict() {
	if s.Evict == nil {
		return
	}
	if s.clean == nil {
		s.evictRecent()
		return
	}
	for range s.Evict.IntN(4) {
		i := s.Evict.IntN(len(s.m.mem) / line)
		if !bytes.Equal(s.line(i), s.clean[i*line:][:line]) {
			s.writeBack(i)
		} else {
			s.fetch(i)
		}
	}
}

// idOf returns the index of a name in names.
func (m *Memory) idOf(name string) int32 {
	i := slices.Index(m.names, name)
	if i < 0 {
		i = len(m.names)
		m.names = append(m.names, name)
	}
	return int32(i)
}

func (m *Memory) fault(format string, args ...any) {
	if len(m.faults) < 16 {
		m.faults = append(m.faults, fmt.Sprintf(format, args...))
	}
}

// caller returns the place of the code that has called WriteBack or Invalidate.
func (m *Memory) caller() string {
	for depth := 3; ; depth++ {
		_, file, line, ok := runtime.Caller(depth)
		if name := filepath.Base(file); !ok || !slices.Contains(m.Helpers, name) {
			return fmt.Sprintf("%s:%d", name, line)
		}
	}
}
