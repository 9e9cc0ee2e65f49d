package ptx

import "github.com/nicless/nicless/accel/ptx/internal/machine"

// A Space is the memory of the process that the kernels of a GPU reach. The zero value is empty. Its methods
// are safe for concurrent use, also while kernels run.
type Space struct{ reached machine.Space }

// Errors of a Space.
var (
	ErrOverlaps   = machine.ErrOverlaps   // Add: a part of the memory can be reached already
	ErrNotReached = machine.ErrNotReached // Remove: nothing begins there
	ErrNoMemory   = machine.ErrNoMemory   // Add: no memory can be there
)

// Add lets kernels reach n bytes at an address, of which none may be reachable already.
func (s *Space) Add(address, n uint64) error { return s.reached.Add(address, n) }

// Remove ends what Add has begun with the same address. A kernel that runs may reach the memory for a moment
// longer, so the memory may be unmapped when no kernel runs.
func (s *Space) Remove(address uint64) error { return s.reached.Remove(address) }

// Has reports whether kernels reach n bytes at an address.
func (s *Space) Has(address, n uint64) bool { return s.reached.Has(address, n) }

// AddressOf returns the address by which kernels know memory that is not Go's.
func AddressOf(b []byte) uint64 { return machine.AddressOf(b) }
