package machine

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/nicless/nicless/accel/ptx/internal/code"
	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// A linking is a program whose addresses are being found.
type linking struct {
	program  *Program
	names    map[string]any // the definitions that other modules see: *code.Variable or *code.Function
	address  map[any]uint64
	bytes    map[*code.Variable][]byte
	function map[*code.Function]*function
}

// Link makes a program of modules: it finds the definitions of names that others declare, and gives
// variables and functions their addresses. A function that nobody defines is an error of the kernels that
// call it.
func Link(modules []*code.Module, mem Memory) (*Program, error) {
	p := &Program{kernels: map[string]*Kernel{}, variables: map[string]Symbol{}}
	l := &linking{
		program: p, names: map[string]any{}, address: map[any]uint64{},
		bytes: map[*code.Variable][]byte{}, function: map[*code.Function]*function{},
	}
	for _, m := range modules {
		if err := l.define(m); err != nil {
			return nil, err
		}
	}
	if err := l.layout(modules, mem); err != nil {
		return nil, err
	}
	for _, m := range modules {
		for _, f := range m.Functions {
			l.begin(m, f)
		}
	}
	for _, f := range p.functions {
		if err := l.finish(f); err != nil && f.Err == nil {
			f.Err = err
		}
		if f.Kernel {
			p.kernels[f.Name] = &Kernel{function: f, prog: p}
		}
	}
	graph := callGraph{p, map[*function]int64{}}
	for _, f := range p.functions {
		if k := p.kernels[f.Name]; k != nil && k.function == f {
			k.calls = graph.calls(f)
		}
	}
	for _, m := range modules {
		if err := l.initialize(m); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// strength says which of two definitions of a name is taken.
func strength(l syntax.Linkage) int {
	switch l {
	case syntax.Visible:
		return 2
	case syntax.Weak, syntax.Common:
		return 1
	}
	return 0
}

// define notes what a module defines for others.
func (l *linking) define(m *code.Module) error {
	strengths := func(e any) int {
		switch e := e.(type) {
		case *code.Variable:
			return strength(e.Linkage)
		case *code.Function:
			return strength(e.Linkage)
		}
		return 0
	}
	note := func(name string, e any) error {
		s := strengths(e)
		old := strengths(l.names[name])
		if s == 2 && old == 2 {
			return fmt.Errorf("%s is defined by two modules", name)
		}
		if s > old {
			l.names[name] = e
		}
		return nil
	}
	for _, v := range m.Variables {
		if v.Linkage != syntax.Extern {
			if err := note(v.Name, v); err != nil {
				return err
			}
		}
	}
	for _, f := range m.Functions {
		if !f.Declared {
			if err := note(f.Name, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// definition returns the variable that is meant by one, which may be declared only, or be weak.
func (l *linking) definition(v *code.Variable) *code.Variable {
	own := v.Linkage == syntax.Local || v.Linkage == syntax.Visible
	if d, ok := l.names[v.Name].(*code.Variable); ok && !own {
		return d
	}
	return v
}

// layout gives variables their places.
func (l *linking) layout(modules []*code.Module, mem Memory) error {
	var dynamic []*code.Variable
	for _, m := range modules {
		for _, v := range m.Variables {
			switch {
			case v.Space == code.Shared && v.Size == 0:
				dynamic = append(dynamic, v)
			case l.definition(v) != v || v.Linkage == syntax.Extern:
			case v.Space == code.Shared:
				p := l.program
				p.shared = (p.shared + v.Align - 1) &^ (v.Align - 1)
				l.address[v] = uint64(p.shared)
				p.shared += v.Size
			default:
				address, b, err := mem.Allocate(max(v.Size, 1), v.Align)
				if err != nil {
					return fmt.Errorf("%s: %w", v.Name, err)
				}
				l.address[v], l.bytes[v] = address, b
				copy(b, v.Bytes)
				l.program.variables[v.Name] = Symbol{address, v.Size}
				if v.Space == code.Constant {
					l.program.constants = append(l.program.constants, extent{address, uint64(v.Size)})
				}
			}
		}
	}
	slices.SortFunc(l.program.constants, func(a, b extent) int { return cmp.Compare(a.first, b.first) })
	align := int64(16)
	for _, v := range dynamic {
		align = max(align, v.Align)
	}
	l.program.shared = (l.program.shared + align - 1) &^ (align - 1)
	for _, v := range dynamic {
		l.address[v] = uint64(l.program.shared) // the launch adds bytes there
	}
	return nil
}

// addressOf returns the address of a variable or a function.
func (l *linking) addressOf(symbol any) (uint64, error) {
	switch s := symbol.(type) {
	case *code.Variable:
		if a, ok := l.address[l.definition(s)]; ok {
			return a, nil
		}
		return 0, fmt.Errorf("%s is not defined", s.Name)
	case *code.Function:
		return l.address[l.resolve(s).Function], nil
	}
	return 0, fmt.Errorf("an address of nothing")
}

// initialize writes addresses into initial values.
func (l *linking) initialize(m *code.Module) error {
	for _, v := range m.Variables {
		for _, f := range v.Fixups {
			a, err := l.addressOf(f.Symbol)
			if err != nil {
				return fmt.Errorf("the initial value of %s: %w", v.Name, err)
			}
			if b, ok := l.bytes[v]; ok {
				var word [8]byte
				binary.LittleEndian.PutUint64(word[:], (a+f.Add)>>f.Shift)
				copy(b[f.Offset:f.Offset+int64(f.Width)], word[:])
			}
		}
	}
	return nil
}

// begin appends a function of a module.
func (l *linking) begin(m *code.Module, f *code.Function) {
	p := l.program
	n := &function{Function: f, sources: m.Sources, begin: int32(len(p.insts))}
	if f.Declared {
		n.builtin = builtins[f.Name]
	}
	l.function[f] = n
	l.address[f] = functionBase + uint64(len(p.functions))*functionStep
	p.functions = append(p.functions, n)
	p.insts = append(p.insts, f.Insts...)
	p.where = append(p.where, f.Where...)
	n.end = int32(len(p.insts))
}

// resolve returns the function that is meant by one, which may be declared only, or be weak.
func (l *linking) resolve(f *code.Function) *function {
	if d, ok := l.names[f.Name].(*code.Function); ok && (f.Declared || f.Linkage == syntax.Weak) {
		return l.function[d]
	}
	return l.function[f]
}
