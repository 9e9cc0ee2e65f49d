package incoherent

// poison is what a lean side has in its caches in place of lines that it must not rely on.
const poison = 0xdb

// Poison makes all lines of other sides wrong that a lean side has invalidated since the last call: a program
// that reads one of them again without another Invalidate sees bytes that nobody has written.
func (s *Side) Poison() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	for _, i := range s.recent {
		if o := s.m.owner[i]; o == s.name || o == "" {
			continue // perhaps it has changes that were not written back
		}
		b := s.line(i)
		for j := range b {
			b[j] = poison
		}
	}
	s.recent = s.recent[:0]
}

// evictRecent is evict of a lean side: lines that it has used of late are written back or fetched again.
func (s *Side) evictRecent() {
	n := len(s.recent)
	if n == 0 {
		return
	}
	for range s.Evict.IntN(4) {
		i := s.recent[s.Evict.IntN(n)]
		switch s.m.owner[i] {
		case s.name:
			s.writeBack(i)
		case "": // perhaps it has changes that were not written back
		default:
			copy(s.line(i), s.m.mem[i*line:])
		}
	}
}
