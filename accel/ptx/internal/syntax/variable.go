package syntax

import "slices"

// spaces are the state spaces of variables.
var spaces = []string{
	"reg", "global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "tex",
}

// maxRegisters is the most registers of one name0, name1, ... A function of NVSHMEM has 22,000.
const maxRegisters = 1 << 20

// variables reads the variables of a space whose directive, t, has been read, to the semicolon.
func (p *parser) variables(t token, l Linkage) (all []*Variable) {
	first := p.variable(t, l)
	all = append(all, first)
	for p.accept(",") {
		next := *first
		next.Sizes, next.Initial, next.Count = nil, nil, -1
		p.named(&next)
		all = append(all, &next)
	}
	p.expect(";")
	return all
}

// parameters reads variables between parentheses.
func (p *parser) parameters() (all []*Variable) {
	p.expect("(")
	if p.accept(")") {
		return nil
	}
	for {
		t := p.tok
		if space := p.take(directive, "a parameter"); p.err == nil && space != "param" && space != "reg" {
			p.fail(t.at, "a parameter is .param or .reg, not %s", t)
		}
		all = append(all, p.variable(t, Local))
		if p.err != nil || !p.accept(",") {
			p.expect(")")
			return all
		}
	}
}

// variable reads a variable whose space, t, has been read.
func (p *parser) variable(t token, l Linkage) *Variable {
	v := &Variable{At: t.at, Linkage: l, Space: t.text, Vector: 1, Count: -1}
	for p.tok.kind == directive {
		p.property(v)
	}
	if p.err == nil && v.Type == "" {
		p.fail(p.tok.at, "the type of a variable is expected, not %s", p.tok)
	}
	p.named(v)
	return v
}

// property reads a directive between the space of a variable and its name.
func (p *parser) property(v *Variable) {
	t := p.tok
	p.advance()
	switch t.text {
	case "align":
		v.Align = p.count(1 << 20)
		if p.err == nil && v.Align&(v.Align-1) != 0 {
			p.fail(t.at, "an alignment is a power of two, not %d", v.Align)
		}
	case "attribute":
		v.Managed = p.attribute() || v.Managed
	case "v2":
		v.Vector = 2
	case "v4":
		v.Vector = 4
	case "v8":
		v.Vector = 8
	case "ptr":
		v.Pointer = true
	default:
		if v.Pointer && slices.Contains(spaces, t.text) { // where the parameter points to
			return
		}
		if v.Type != "" {
			p.fail(t.at, "a variable has one type, not both .%s and %s", v.Type, t)
		}
		v.Type = t.text
	}
}

// attribute reads what follows .attribute, and reports whether it is managed.
func (p *parser) attribute() (managed bool) {
	p.expect("(")
	for p.tok.kind == directive {
		managed = p.tok.text == "managed" || managed
		p.advance()
		if p.accept("(") { // unified(UUID1, UUID2)
			for p.tok.kind == number || p.is(",") {
				p.advance()
			}
			p.expect(")")
		}
		p.accept(",")
	}
	p.expect(")")
	return managed
}

// named reads the name of a variable and what follows it.
func (p *parser) named(v *Variable) {
	v.At = p.tok.at
	v.Name = p.identifier()
	if p.accept("<") {
		v.Count = p.count(maxRegisters)
		p.expect(">")
	}
	for p.accept("[") {
		if !p.deeper() {
			return
		}
		defer p.shallower()
		size, t := int64(-1), p.tok
		if !p.is("]") {
			if size = int64(p.integer(t, p.expression()).Bits); p.err == nil && size < 0 {
				p.fail(t.at, "an array has no %d elements", size)
			}
		}
		v.Sizes = append(v.Sizes, size)
		p.expect("]")
	}
	if p.accept("=") {
		initial := p.initial()
		v.Initial = &initial
	}
}

// initial reads an initial value.
func (p *parser) initial() Initial {
	i := Initial{At: p.tok.at}
	if !p.deeper() {
		return i
	}
	defer p.shallower()
	if p.accept("{") {
		i.IsList = true
		for p.err == nil && !p.is("}") {
			i.List = append(i.List, p.initial())
			if !p.accept(",") {
				break
			}
		}
		p.expect("}")
		return i
	}
	p.initialValue(&i)
	return i
}

// initialValue reads a constant, an address, or a byte of an address: MASK(ADDRESS).
func (p *parser) initialValue(i *Initial) {
	if p.tok.kind != word || p.tok.text == "WARP_SZ" {
		i.Value = p.expression()
		if i.Value.Bits == 0 || !p.accept("(") {
			return
		}
		i.Mask, i.Value = i.Value.Bits, Constant{}
		p.address(i)
		p.expect(")")
		return
	}
	p.address(i)
}

// address reads SYMBOL, generic(SYMBOL), and either of them with a constant added.
func (p *parser) address(i *Initial) {
	i.Symbol = p.identifier()
	if i.Symbol == "generic" && p.accept("(") {
		i.Generic = true
		i.Symbol = p.identifier()
		p.expect(")")
	}
	if p.is("+") || p.is("-") {
		t := p.tok
		i.Value = p.integer(t, p.expression())
	}
}
