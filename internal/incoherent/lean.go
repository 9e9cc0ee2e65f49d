package incoherent

import "slices"

// A Span is some bytes of a memory, whole pages.
type Span struct{ At, Size int }

// poison is what lean sides have in their caches in place of lines of others that they must not rely on.
const poison = 0xdb

// A kept is a line that was in the caches of a lean side when another one entered.
type kept struct {
	i     int
	bytes [line]byte
}

// Enter begins the work of a lean side. All lines of others are poisoned. A side that is at work meanwhile
// has what it had, as soon as this one has left.
func (s *Side) Enter() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if n := len(s.m.working); n > 0 {
		outer := s.m.working[n-1]
		outer.kept = outer.kept[:0]
		for _, i := range outer.recent {
			if !outer.owns(i) {
				outer.kept = append(outer.kept, kept{i, [line]byte(outer.line(i))})
			}
		}
		outer.poison()
	}
	s.m.working = append(s.m.working, s)
}

// Leave ends the work of the lean side that has entered last. All lines of others are poisoned that it has
// invalidated: if it reads one of them again without another Invalidate, it sees bytes that nobody has
// written.
func (s *Side) Leave() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.poison()
	s.recent = s.recent[:0]
	n := len(s.m.working) - 1
	s.m.working = s.m.working[:n]
	if n > 0 {
		outer := s.m.working[n-1]
		for k := range outer.kept {
			copy(outer.line(outer.kept[k].i), outer.kept[k].bytes[:])
		}
	}
}

// poison poisons the lines of others that the side has invalidated of late.
func (s *Side) poison() {
	for _, i := range s.recent {
		if !s.owns(i) {
			copy(s.line(i), poisoned[:])
		}
	}
}

var poisoned = [line]byte(slices.Repeat([]byte{poison}, line))

// owns reports whether a lean side writes a line.
func (s *Side) owns(i int) bool {
	for _, o := range s.spans {
		if at := i * line; at >= o.At && at < o.At+o.Size {
			return true
		}
	}
	return false
}

// evictRecent is evict of a lean side: lines that it has used of late are written back or fetched again.
func (s *Side) evictRecent() {
	n := len(s.recent)
	if n == 0 {
		return
	}
	for range s.Evict.IntN(4) {
		i := s.recent[s.Evict.IntN(n)]
		if !s.owns(i) {
			copy(s.line(i), s.m.mem[i*line:])
		} else if s.m.owner[i] != 0 { // otherwise perhaps it has changes that were not written back
			s.writeBack(i)
		}
	}
}
