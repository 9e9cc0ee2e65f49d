package incoherent

import "github.com/nicless/nicless/internal/shm"

// Lean returns a side that takes memory only for the pages that it has touched, so that a thousand of them
// fit into a computer. Lines that it has never invalidated are zero. It does not find changes that are
// invalidated before they were written back, and sites are not recorded. Close gives its memory back.
func (m *Memory) Lean(name string) (*Side, error) {
	r, err := shm.CreateSparse(name, len(m.mem))
	if err != nil {
		return nil, err
	}
	return &Side{m: m, name: name, region: r}, nil
}

// Close gives the memory of a lean side back, which must not be used any more.
func (s *Side) Close() error { return s.region.Close() }
