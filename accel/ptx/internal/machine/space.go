package machine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// An extent is memory of the process: size bytes from first on.
type extent struct{ first, size uint64 }

// has reports whether all of n bytes are in the extent; n is not 0.
func (e extent) has(address, n uint64) bool {
	off := address - e.first
	return off < e.size && e.size-off >= n
}

// A Space is the memory that kernels reach besides their own: what a program has allocated for them or
// registered. The zero value is empty. Its methods are safe for concurrent use, also while kernels run.
type Space struct {
	mu   sync.Mutex // of those who change the list
	list atomic.Pointer[[]extent]
}

// Errors of a Space.
var (
	ErrOverlaps   = errors.New("a part of it can be reached already")
	ErrNotReached = errors.New("no memory that kernels reach begins there")
	ErrNoMemory   = errors.New("no memory can be there")
)

// Add lets kernels reach n bytes, of which none may be reachable already.
func (s *Space) Add(address, n uint64) error {
	if address < firstAddress || n == 0 || n > functionBase || address > functionBase-n {
		return fmt.Errorf("%d bytes at 0x%x: %w", n, address, ErrNoMemory)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.all()
	at := after(old, address)
	before := at > 0 && old[at-1].first+old[at-1].size > address
	behind := at < len(old) && old[at].first < address+n
	if before || behind {
		return fmt.Errorf("%d bytes at 0x%x: %w", n, address, ErrOverlaps)
	}
	list := slices.Insert(slices.Clone(old), at, extent{address, n})
	s.list.Store(&list)
	return nil
}

// Remove ends what Add has begun with the same address. Kernels that run may reach the memory for a moment
// longer.
func (s *Space) Remove(address uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.all()
	at := after(old, address)
	if at == 0 || old[at-1].first != address {
		return fmt.Errorf("0x%x: %w", address, ErrNotReached)
	}
	list := slices.Delete(slices.Clone(old), at-1, at)
	s.list.Store(&list)
	return nil
}

// Has reports whether kernels reach n bytes.
func (s *Space) Has(address, n uint64) bool { return s.find(address).has(address, n) }

func (s *Space) all() []extent {
	if p := s.list.Load(); p != nil {
		return *p
	}
	return nil
}

// after returns how many extents of a list begin at an address or before it.
func after(list []extent, address uint64) int {
	n, _ := slices.BinarySearchFunc(list, address, func(e extent, address uint64) int {
		if e.first <= address {
			return -1
		}
		return 1
	})
	return n
}

// find returns the last extent that begins at an address or before it.
func (s *Space) find(address uint64) extent {
	list := s.all()
	if at := after(list, address); at > 0 {
		return list[at-1]
	}
	return extent{}
}
