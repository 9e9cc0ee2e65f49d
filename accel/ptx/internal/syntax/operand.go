package syntax

import "strings"

// operand reads an operand. In a call, parentheses contain arguments, and not an expression.
func (p *parser) operand(call bool) Operand {
	o := Operand{At: p.tok.at}
	if !p.deeper() {
		return o
	}
	defer p.shallower()
	switch {
	case p.accept("{"):
		o.Kind, o.List = List, p.operands("}")
	case call && p.accept("("):
		o.Kind, o.List = Group, p.operands(")")
	case p.accept("["):
		return p.bracket(o)
	case p.is("!"), p.tok.kind == word && p.tok.text != "WARP_SZ":
		return p.name(o)
	default:
		o.Kind, o.Value = Number, p.expression()
	}
	return o
}

// operands reads operands to a closing mark.
func (p *parser) operands(closing string) (all []Operand) {
	if p.accept(closing) {
		return nil
	}
	for {
		all = append(all, p.operand(false))
		if p.err != nil || !p.accept(",") {
			p.expect(closing)
			return all
		}
	}
}

// bracket reads an address: [NAME], [NAME+8], [1234], or [NAME, {COORDINATES}].
func (p *parser) bracket(o Operand) Operand {
	inner := p.operand(false)
	o.Kind, o.Name, o.Part, o.Value = Address, inner.Name, inner.Part, inner.Value
	if inner.Kind > Number || inner.Negated {
		p.fail(inner.At, "an address is a name or a number, not a %s", inner.Kind)
	}
	for p.accept(",") {
		o.List = append(o.List, p.operand(false))
	}
	p.expect("]")
	return o
}

// name reads a name and what may follow it: a constant that is added, or |NAME.
func (p *parser) name(o Operand) Operand {
	o.Negated = p.accept("!")
	p.plain(&o)
	switch {
	case p.accept("|"):
		second := Operand{At: p.tok.at}
		p.plain(&second)
		return Operand{At: o.At, Kind: Pair, List: []Operand{o, second}}
	case o.Kind == Name && (p.is("+") || p.is("-")):
		t := p.tok
		o.Value = p.integer(t, p.expression())
	}
	return o
}

// plain reads a name, with a part if it is that of a register.
func (p *parser) plain(o *Operand) {
	o.Name = p.identifier()
	switch {
	case o.Name == "_":
		o.Kind = Discard
	case strings.HasPrefix(o.Name, "%"):
		o.Name, o.Part, _ = strings.Cut(o.Name, ".")
	}
}
