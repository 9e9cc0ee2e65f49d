package code

import (
	"strconv"
	"strings"

	"github.com/nicless/nicless/accel/ptx/internal/alu"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// A register is a name for values. A value of 128 bits is in two slots, the second of which follows the
// first.
type register struct {
	typ  alu.Type
	slot int32 // or the predicate
}

// A memory is a variable of a frame, or a parameter of a kernel.
type memory struct {
	space  Space
	offset int64
	size   int64
}

// A label is a place in a function. at is the number of the instruction that follows it, once it is known.
type label struct{ at int32 }

// A group is registers with a common beginning of their names and numbers at their end.
type group struct {
	typ   alu.Type
	count int
	made  map[int]*register
}

// A scope has the names of a block.
type scope struct {
	outer  *scope
	names  map[string]any // *register, *memory, *label, *Variable, *syntax.Prototype, *syntax.Table
	groups map[string]*group
}

func newScope(outer *scope) *scope {
	return &scope{outer: outer, names: map[string]any{}, groups: map[string]*group{}}
}

// find returns what a name means, or nil.
func (l *lowering) find(name string) any {
	prefix := strings.TrimRight(name, "0123456789")
	n, err := strconv.Atoi(name[len(prefix):])
	numbered := err == nil && strconv.Itoa(n) == name[len(prefix):]
	for s := l.scope; s != nil; s = s.outer {
		if e, ok := s.names[name]; ok {
			return e
		}
		if g := s.groups[prefix]; g != nil && numbered && n < g.count {
			r := g.made[n]
			if r == nil {
				r = l.newRegister(g.typ)
				g.made[n] = r
			}
			return r
		}
	}
	return l.module.names[name]
}

// declare gives a name a meaning in the block.
func (l *lowering) declare(at syntax.Position, name string, e any) {
	if _, ok := l.scope.names[name]; ok {
		l.fail(at, "%s is declared twice in this block", name)
		return
	}
	l.scope.names[name] = e
}

// newRegister makes slots for a value.
func (l *lowering) newRegister(t alu.Type) *register {
	r := &register{typ: t}
	switch {
	case t.Kind == alu.Pred:
		r.slot = int32(l.predicates)
		l.predicates++
	default:
		r.slot = int32(l.slots)
		l.slots++
		if t.Width == 128 {
			l.slots++
		}
	}
	return r
}

// temporary returns a slot for a value that only a few instructions use.
func (l *lowering) temporary() int32 {
	l.slots++
	return int32(l.slots - 1)
}

// temporaryPredicate is the same for a predicate.
func (l *lowering) temporaryPredicate() int16 {
	l.predicates++
	return int16(l.predicates - 1)
}
