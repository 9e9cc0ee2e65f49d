package syntax

import "math"

// operators are the binary operators of constant expressions with what they bind. A greater number binds
// tighter.
var operators = map[string]int{
	"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
	"<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}

// expression returns the value of a constant expression.
func (p *parser) expression() Constant {
	if !p.deeper() {
		return Constant{}
	}
	defer p.shallower()
	c := p.binary(1)
	if !p.accept("?") {
		return c
	}
	yes := p.expression()
	p.expect(":")
	no := p.expression()
	if c.Bits != 0 {
		return yes
	}
	return no
}

// binary returns the value of an expression whose operators bind at least as tight as a number says.
func (p *parser) binary(least int) Constant {
	if !p.deeper() {
		return Constant{}
	}
	defer p.shallower()
	a := p.unary()
	for {
		t := p.tok
		binds := operators[t.text]
		if t.kind != mark || binds < least {
			return a
		}
		p.advance()
		a = p.apply(t, a, p.binary(binds+1))
	}
}

func (p *parser) unary() Constant {
	if !p.deeper() {
		return Constant{}
	}
	defer p.shallower()
	t := p.tok
	switch {
	case p.accept("-"):
		return negated(p.unary())
	case p.accept("+"):
		return p.unary()
	case p.accept("~"):
		c := p.integer(t, p.unary())
		c.Bits = ^c.Bits
		return c
	case p.accept("!"):
		return boolean(p.integer(t, p.unary()).Bits == 0)
	case p.accept("("):
		return p.parenthesis()
	case t.kind == word && t.text == "WARP_SZ":
		p.advance()
		return Constant{Unsigned, 32}
	case t.kind == number:
		p.advance()
		c, err := constant(t)
		if err != nil {
			p.fail(t.at, "%s", err.(*Error).Why)
		}
		return c
	}
	p.fail(t.at, "a constant is expected, not %s", t)
	return Constant{}
}

// parenthesis returns the value of what follows an opening parenthesis: an expression, or a cast.
func (p *parser) parenthesis() Constant {
	for text, kind := range map[string]ConstantType{"s64": Signed, "u64": Unsigned} {
		if p.acceptDirective(text) {
			p.expect(")")
			t := p.tok
			c := p.integer(t, p.unary())
			c.Type = kind
			return c
		}
	}
	c := p.expression()
	p.expect(")")
	return c
}

// integer returns the operand of an operator for integers.
func (p *parser) integer(operator token, c Constant) Constant {
	if c.Type != Signed && c.Type != Unsigned {
		p.fail(operator.at, "%s needs integers", operator)
	}
	return c
}

func negated(c Constant) Constant {
	switch c.Type {
	case Single:
		c.Bits ^= 1 << 31
	case Double:
		c.Bits ^= 1 << 63
	default:
		c.Bits = -c.Bits
	}
	return c
}

func boolean(is bool) Constant {
	if is {
		return Constant{Signed, 1}
	}
	return Constant{Signed, 0}
}

// apply returns the value of a binary operator. Integers have 64 bits; if one operand is unsigned, both are.
func (p *parser) apply(operator token, a, b Constant) Constant {
	if a.Type == Double && b.Type == Double {
		return p.applyDouble(operator, math.Float64frombits(a.Bits), math.Float64frombits(b.Bits))
	}
	p.integer(operator, a)
	p.integer(operator, b)
	if p.err != nil {
		return Constant{}
	}
	unsigned := a.Type == Unsigned || b.Type == Unsigned
	c := Constant{Type: Signed}
	if unsigned {
		c.Type = Unsigned
	}
	less := int64(a.Bits) < int64(b.Bits)
	if unsigned {
		less = a.Bits < b.Bits
	}
	switch operator.text {
	case "||":
		return boolean(a.Bits != 0 || b.Bits != 0)
	case "&&":
		return boolean(a.Bits != 0 && b.Bits != 0)
	case "==":
		return boolean(a.Bits == b.Bits)
	case "!=":
		return boolean(a.Bits != b.Bits)
	case "<":
		return boolean(less)
	case ">=":
		return boolean(!less)
	case ">":
		return boolean(!less && a.Bits != b.Bits)
	case "<=":
		return boolean(less || a.Bits == b.Bits)
	case "|":
		c.Bits = a.Bits | b.Bits
	case "^":
		c.Bits = a.Bits ^ b.Bits
	case "&":
		c.Bits = a.Bits & b.Bits
	case "+":
		c.Bits = a.Bits + b.Bits
	case "-":
		c.Bits = a.Bits - b.Bits
	case "*":
		c.Bits = a.Bits * b.Bits
	case "<<":
		c = Constant{a.Type, a.Bits << min(b.Bits, 64)}
	case ">>":
		c = Constant{a.Type, a.Bits >> min(b.Bits, 64)}
		if a.Type == Signed {
			c.Bits = uint64(int64(a.Bits) >> min(b.Bits, 63))
		}
	default: // / and %
		c.Bits = p.divide(operator, a.Bits, b.Bits, unsigned)
	}
	return c
}

func (p *parser) divide(operator token, a, b uint64, unsigned bool) uint64 {
	rest := operator.text == "%"
	switch {
	case b == 0:
		p.fail(operator.at, "a constant is divided by 0")
		return 0
	case unsigned && rest:
		return a % b
	case unsigned:
		return a / b
	case rest:
		return uint64(int64(a) % int64(b))
	}
	return uint64(int64(a) / int64(b))
}

func (p *parser) applyDouble(operator token, a, b float64) Constant {
	switch operator.text {
	case "+":
		a += b
	case "-":
		a -= b
	case "*":
		a *= b
	case "/":
		a /= b
	case "==":
		return boolean(a == b)
	case "!=":
		return boolean(a != b)
	case "<":
		return boolean(a < b)
	case "<=":
		return boolean(a <= b)
	case ">":
		return boolean(a > b)
	case ">=":
		return boolean(a >= b)
	default:
		p.fail(operator.at, "%s needs integers", operator)
	}
	return Constant{Double, math.Float64bits(a)}
}
