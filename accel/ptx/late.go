package ptx

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/nicless/nicless/accel/ptx/internal/machine"
	"github.com/nicless/nicless/accel/ptx/internal/order"
)

// A Late is memory that others see late what lanes have stored: in any order that the memory model of PTX
// allows, as a seed decides. Kernels that share data share one. It finds fences that are missing.
type Late struct {
	memory *order.Memory
	mu     sync.Mutex
	codes  []placed // by place
}

// A placed is a kernel whose instructions have places from first on.
type placed struct {
	kernel *Kernel
	first  int
}

// NewLate returns a memory for a seed.
func NewLate(seed uint64) *Late { return &Late{memory: machine.NewOrder(seed)} }

// place returns the place of the first instruction of a kernel.
func (l *Late) place(k *Kernel) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := 0
	for _, c := range l.codes {
		if c.kernel == k {
			return c.first
		}
		next = c.first + c.kernel.kernel.Places()
	}
	l.codes = append(l.codes, placed{k, next})
	return next
}

// A Place is an instruction of a kernel.
type Place struct {
	Kernel     string
	Line       int    // in the PTX
	Source     string // the file from which the PTX was compiled, or nothing
	SourceLine int
}

func (p Place) String() string {
	if p.Source == "" {
		return fmt.Sprintf("%s, PTX line %d", p.Kernel, p.Line)
	}
	return fmt.Sprintf("%s, %s:%d (PTX line %d)", p.Kernel, p.Source, p.SourceLine, p.Line)
}

// An Overtaking is two stores of a lane in the order of the kernel, which the device and the host have seen
// in the other one. That is a fault if they rely on the order.
type Overtaking struct {
	First, Second Place
	Address       uint64 // of a first store
	By            uint64 // the address of the second one
	Varies        bool   // the second one has gone to other addresses, too
	Seen          string // who had seen the first one then: "the lane", "the block" or "the GPU"
}

func (o Overtaking) String() string {
	return fmt.Sprintf("the system has seen the store of %v before that of %v, to address 0x%x, which only %s had seen: "+
		"between them there is no fence.acq_rel.sys, and the second one is no st.release.sys", o.Second, o.First, o.Address, o.Seen)
}

// Overtakings returns what the system has seen in another order than a lane has stored it, so far.
func (l *Late) Overtakings() []Overtaking {
	var all []Overtaking
	for p, at := range l.memory.Late() {
		all = append(all, Overtaking{
			First: l.find(p.First), Second: l.find(p.Second),
			Address: at.First, By: at.Second, Varies: at.Varies,
			Seen: [...]string{"the lane", "the block", "the GPU", "the system"}[p.Level],
		})
	}
	slices.SortFunc(all, func(a, b Overtaking) int {
		return cmp.Or(
			cmp.Compare(a.Second.Kernel, b.Second.Kernel), cmp.Compare(a.Second.Line, b.Second.Line),
			cmp.Compare(a.First.Line, b.First.Line), cmp.Compare(a.Seen, b.Seen))
	})
	return all
}

// find returns the instruction with a place.
func (l *Late) find(place int) Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range slices.Backward(l.codes) {
		if place >= c.first {
			line, source, sourceLine := c.kernel.kernel.Place(place - c.first)
			return Place{c.kernel.Name(), line, source, sourceLine}
		}
	}
	return Place{}
}
