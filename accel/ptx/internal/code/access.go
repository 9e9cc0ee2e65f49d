package code

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nicless/nicless/accel/ptx/internal/alu"
)

// Space is a state space.
type Space uint8

// The state spaces. Generic addresses are those of the process; global and constant memory have the same
// addresses.
const (
	Generic Space = iota
	Global
	Constant
	Shared
	Frame // local memory of a lane, and parameters of functions
	Param // of the kernel
)

func (s Space) String() string {
	return [...]string{"generic", "global", "const", "shared", "local", "param"}[s]
}

// Order is the order of an access among others.
type Order uint8

// The orders. Volatile accesses are relaxed ones of the system.
const (
	Weak Order = iota
	Relaxed
	Acquire
	Release
	AcquireRelease
	Sequential
)

func (o Order) String() string {
	return [...]string{"weak", "relaxed", "acquire", "release", "acq_rel", "sc"}[o]
}

// Scope says for which threads an order is.
type Scope uint8

// The scopes: the block, the cluster of blocks, the device and everything.
const (
	Block Scope = iota
	Cluster
	Device
	System
)

func (s Scope) String() string { return [...]string{"cta", "cluster", "gpu", "sys"}[s] }

// An Access says how memory is reached.
type Access struct {
	Space  Space
	Order  Order
	Scope  Scope
	Size   int  // bytes of an element: 1, 2, 4, 8 or 16
	Count  int  // elements: 1, 2, 4 or 8
	Signed bool // a Load extends elements with their sign to the widths of their registers
	Atom   Atom
	Type   alu.Type

	// Of an Atom of floating-point numbers: what it makes of the old value and its operand, and, if Flushed
	// is not nil, what it makes of them in memory that is not shared.
	Float, Flushed func(old, b, _ uint64) uint64
}

// Bytes returns the size of all elements.
func (a *Access) Bytes() int { return a.Size * a.Count }

// Atom is the operation of an atomic access.
type Atom uint8

// The atomic operations.
const (
	Exchange Atom = iota
	CompareAndSwap
	FetchAdd
	FetchMin
	FetchMax
	FetchAnd
	FetchOr
	FetchXor
	FetchInc // v >= b ? 0 : v+1
	FetchDec // v == 0 || v > b ? b : v-1
)

var atoms = map[string]Atom{
	"exch": Exchange, "cas": CompareAndSwap, "add": FetchAdd, "min": FetchMin, "max": FetchMax,
	"and": FetchAnd, "or": FetchOr, "xor": FetchXor, "inc": FetchInc, "dec": FetchDec,
}

// modifiers are those of an opcode that have not been understood yet.
type modifiers struct{ left []string }

// take takes a modifier wherever it is.
func (m *modifiers) take(name string) bool {
	i := slices.Index(m.left, name)
	if i < 0 {
		return false
	}
	m.left = slices.Delete(slices.Clone(m.left), i, i+1)
	return true
}

// oneOf takes the first of some modifiers that is there, and returns it, or "".
func (m *modifiers) oneOf(names ...string) string {
	for _, name := range names {
		if m.take(name) {
			return name
		}
	}
	return ""
}

// drop drops modifiers that change no result: hints for caches.
func (m *modifiers) drop() {
	m.left = slices.DeleteFunc(slices.Clone(m.left), func(s string) bool {
		return strings.HasPrefix(s, "L1::") || strings.HasPrefix(s, "L2::") || slices.Contains(hints, s)
	})
}

var hints = []string{"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified", "level::eviction_priority"}

var spaces = map[string]Space{
	"global": Global, "const": Constant, "shared": Shared, "shared::cta": Shared, "shared::cluster": Shared,
	"local": Frame, "param": Param, "param::entry": Param, "param::func": Frame,
}

// space takes the modifier of a space.
func (m *modifiers) space() (Space, bool) {
	for name, s := range spaces {
		if m.take(name) {
			return s, true
		}
	}
	return Generic, false
}

var orders = map[string]Order{
	"weak": Weak, "relaxed": Relaxed, "acquire": Acquire, "release": Release, "acq_rel": AcquireRelease,
	"sc": Sequential,
}

// scopes have the names of membar, too.
var scopes = map[string]Scope{"cta": Block, "cluster": Cluster, "gpu": Device, "gl": Device, "sys": System}

// order takes the modifiers of an order and a scope. usual is the order if none is named.
func (m *modifiers) order(usual Order) (Order, Scope, error) {
	volatile := m.take("volatile")
	m.take("mmio")
	order, named := usual, false
	for name, o := range orders {
		if m.take(name) {
			if named {
				return 0, 0, fmt.Errorf("two orders")
			}
			order, named = o, true
		}
	}
	scope, scoped := Device, false
	for name, s := range scopes {
		if m.take(name) {
			if scoped {
				return 0, 0, fmt.Errorf("two scopes")
			}
			scope, scoped = s, true
		}
	}
	switch {
	case volatile && (named || scoped):
		return 0, 0, fmt.Errorf("volatile has no other order and no scope")
	case volatile:
		return Relaxed, System, nil
	case named && order != Weak && !scoped:
		return 0, 0, fmt.Errorf("%v needs a scope", order)
	case scoped && order == Weak:
		return 0, 0, fmt.Errorf("weak has no scope")
	}
	return order, scope, nil
}
