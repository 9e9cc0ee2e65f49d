package code

import (
	"fmt"

	"github.com/nicless/nicless/accel/ptx/internal/syntax"
)

// Build returns the code of a module. A function whose instructions are not known has an Err; an error is
// returned if the module itself is wrong.
func Build(s *syntax.Module) (*Module, error) {
	if s.AddressSize != 64 {
		return nil, fmt.Errorf("addresses have %d bits; only 64 are supported", s.AddressSize)
	}
	m := &Module{
		Major: s.Major, Minor: s.Minor, Target: s.Targets[0], Sources: s.Sources, names: map[string]any{},
	}
	for _, v := range s.Variables {
		g, err := m.variable(v, nil)
		if err == nil {
			err = m.declare(v.At, v.Name, g)
		}
		if err != nil {
			return nil, err
		}
	}
	bodies := map[*Function]*syntax.Function{}
	for _, f := range s.Functions {
		if err := m.function(f, bodies); err != nil {
			return nil, err
		}
	}
	for _, a := range s.Aliases {
		f, ok := m.names[a.Of].(*Function)
		if !ok {
			return nil, &Error{At: a.At, Why: fmt.Sprintf("%s is no function", a.Of)}
		}
		if old, ok := m.names[a.Name].(*Function); ok && !old.Declared {
			return nil, &Error{At: a.At, Why: fmt.Sprintf("%s is defined twice", a.Name)}
		}
		m.names[a.Name] = f
	}
	if err := m.initialize(s); err != nil {
		return nil, err
	}
	for _, f := range m.Functions {
		if b := bodies[f]; b != nil {
			m.lower(f, b)
		}
	}
	return m, nil
}

// declare gives a name a meaning in the module. A declaration may be repeated.
func (m *Module) declare(at syntax.Position, name string, e any) error {
	switch old := m.names[name].(type) {
	case nil:
	case *Variable:
		if v, ok := e.(*Variable); !ok || old.Linkage != syntax.Extern && v.Linkage != syntax.Extern {
			return &Error{At: at, Why: fmt.Sprintf("%s is declared twice", name)}
		}
		if old.Linkage != syntax.Extern {
			return nil
		}
	default:
		return &Error{At: at, Why: fmt.Sprintf("%s is declared twice", name)}
	}
	m.names[name] = e
	return nil
}

// variable returns a variable of the module, which may be declared in a function.
func (m *Module) variable(v *syntax.Variable, owner *Function) (*Variable, error) {
	size, align, _, err := layout(v)
	if err != nil {
		return nil, err
	}
	space := spaces[v.Space]
	open := len(v.Sizes) > 0 && v.Sizes[0] < 0
	if size == 0 && v.Linkage != syntax.Extern && v.Initial == nil && open {
		return nil, &Error{At: v.At, Why: fmt.Sprintf("%s does not say how many elements it has", v.Name)}
	}
	if v.Space == "tex" {
		return nil, &Error{At: v.At, Why: fmt.Sprintf("%s: textures are not supported", v.Name)}
	}
	g := &Variable{
		At: v.At, Name: v.Name, Linkage: v.Linkage, Space: space, Size: size, Align: align,
		Managed: v.Managed, Owner: owner,
	}
	m.Variables = append(m.Variables, g)
	return g, nil
}

// function declares a function, and remembers its body.
func (m *Module) function(s *syntax.Function, bodies map[*Function]*syntax.Function) error {
	f := &Function{
		At: s.At, Name: s.Name, Linkage: s.Linkage, Kernel: s.Entry, NoReturn: s.NoReturn, Limits: s.Limits,
		Align: 1, Declared: s.Body == nil,
	}
	switch old := m.names[s.Name].(type) {
	case nil:
		m.names[s.Name] = f
		m.Functions = append(m.Functions, f)
	case *Function:
		if !old.Declared && !f.Declared {
			return &Error{At: s.At, Why: fmt.Sprintf("%s is defined twice", s.Name)}
		}
		if f.Declared {
			return nil
		}
		*old = *f
		f = old
	default:
		return &Error{At: s.At, Why: fmt.Sprintf("%s is declared twice", s.Name)}
	}
	if s.Body != nil {
		bodies[f] = s
	}
	return nil
}

// lower turns the body of a function into instructions.
func (m *Module) lower(f *Function, s *syntax.Function) {
	l := &lowering{module: m, fn: f, consts: map[Const]int32{}, scope: newScope(nil), guard: None}
	f.Params, f.ParamBytes = l.formals(s.Params, f.Kernel)
	f.Results, _ = l.formals(s.Results, false)
	l.block(s.Body)
	end := &syntax.Opcode{Text: "ret", Base: "ret"}
	l.in, l.guard = &syntax.Instruction{At: s.At, Op: end}, None
	l.ret()
	for _, x := range l.fixups {
		if x.to.at < 0 {
			l.fail(s.At, "a label has no place")
			break
		}
		i := &f.Insts[x.inst]
		if x.target < 0 {
			i.Imm = int64(x.to.at)
		} else {
			i.More.Targets[x.target] = x.to.at
		}
	}
	f.Slots, f.Predicates = l.slots, l.predicates
	if l.err == nil {
		l.err = allocate(f)
	}
	if l.err != nil {
		f.Err = fmt.Errorf("%s: %w", f.Name, l.err)
		f.Insts, f.Where, f.Consts = nil, nil, nil
	}
}

// formals gives parameters their places.
func (l *lowering) formals(all []*syntax.Variable, kernel bool) (formals []Formal, bytes int64) {
	for _, v := range all {
		size, align, _, err := layout(v)
		if err != nil {
			l.fail(v.At, "%s", err.(*Error).Why)
			return nil, 0
		}
		f := Formal{Name: v.Name, Size: size, Align: align, Slot: -1}
		switch {
		case v.Space == "reg":
			l.registers(v)
			r, ok := l.scope.names[v.Name].(*register)
			if !ok || r.typ.Width > 64 {
				l.fail(v.At, "%s: a parameter is one register of at most 64 bits", v.Name)
				return nil, 0
			}
			f.Slot = r.slot
		case kernel:
			f.Offset = up(bytes, align)
			if bytes = f.Offset + size; bytes > maxBytes {
				l.fail(v.At, "the parameters have more than %d bytes", int64(maxBytes))
				return nil, 0
			}
			l.declare(v.At, v.Name, &memory{Param, f.Offset, size})
		default:
			mem := l.frame(size, align)
			f.Offset = mem.offset
			l.declare(v.At, v.Name, mem)
		}
		formals = append(formals, f)
	}
	return formals, bytes
}
