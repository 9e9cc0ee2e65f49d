package syntax

import "strings"

// block reads statements between braces.
func (p *parser) block() *Block {
	b := &Block{}
	if !p.deeper() {
		return b
	}
	defer p.shallower()
	p.expect("{")
	for p.err == nil && !p.is("}") && p.tok.kind != end {
		b.Statements = p.statement(b.Statements)
	}
	p.expect("}")
	return b
}

// statement reads a statement and appends it, if something is left of it.
func (p *parser) statement(to []Statement) []Statement {
	t := p.tok
	switch {
	case p.is("{"):
		return append(to, p.block())
	case p.accept(";"):
		return to
	case t.kind == directive:
		p.advance()
		return p.bodyDirective(to, t)
	case p.accept("@"):
		i := &Instruction{At: t.at}
		i.Negated = p.accept("!")
		i.Guard = p.identifier()
		p.instruction(i)
		return append(to, i)
	case t.kind == word:
		p.advance()
		if p.accept(":") {
			return p.labelled(to, t)
		}
		i := &Instruction{At: t.at}
		p.opcode(i, t)
		return append(to, i)
	}
	p.fail(t.at, "a statement is expected, not %s", t)
	return to
}

func (p *parser) bodyDirective(to []Statement, t token) []Statement {
	switch t.text {
	case "reg", "local", "shared", "shared::cta", "param", "global", "const":
		for _, v := range p.variables(t, Local) {
			to = append(to, v)
		}
	case "extern":
		t = p.tok
		p.take(directive, "a variable")
		for _, v := range p.variables(t, Extern) {
			to = append(to, v)
		}
	case "loc":
		p.location()
	case "pragma":
		p.pragma()
	case "section":
		p.section()
	default:
		p.fail(t.at, "directive %s is not known in a function", t)
	}
	return to
}

// location reads what follows .loc. Of code that was inlined, its place in the inlined function counts.
func (p *parser) location() {
	const most = 1<<31 - 1
	s := Source{File: p.count(most)}
	s.Line = p.count(most)
	p.count(most) // the column
	for p.accept(",") {
		switch name := p.identifier(); name {
		case "function_name":
			p.identifier()
			if p.accept("+") {
				p.count(most)
			}
		case "inlined_at":
			p.count(most)
			p.count(most)
			p.count(most)
		default:
			p.fail(p.tok.at, "%s is not known in .loc", name)
		}
	}
	p.source = s
}

// labelled reads what a label names, if it is no instruction.
func (p *parser) labelled(to []Statement, label token) []Statement {
	t := p.tok
	switch {
	case p.acceptDirective("callprototype"):
		f := &Prototype{At: label.at, Name: label.text}
		if p.is("(") {
			f.Results = p.parameters()
		}
		p.identifier() // _
		if p.is("(") {
			f.Params = p.parameters()
		}
		f.NoReturn = p.acceptDirective("noreturn")
		for p.tok.kind == directive { // abi_preserve
			p.advance()
			p.count(1 << 20)
		}
		p.expect(";")
		return append(to, f)
	case p.acceptDirective("branchtargets"), p.acceptDirective("calltargets"):
		l := &Table{At: label.at, Name: label.text, Calls: t.text == "calltargets"}
		l.Names = append(l.Names, p.identifier())
		for p.accept(",") {
			l.Names = append(l.Names, p.identifier())
		}
		p.expect(";")
		return append(to, l)
	}
	return append(to, &Label{At: label.at, Name: label.text})
}

// instruction reads an opcode and its operands.
func (p *parser) instruction(i *Instruction) {
	t := p.tok
	p.take(word, "an instruction")
	p.opcode(i, t)
}

// opcode reads the operands of an instruction whose opcode, t, has been read.
func (p *parser) opcode(i *Instruction, t token) {
	if p.err != nil {
		return
	}
	op := p.opcodes[t.text]
	if op == nil {
		parts := strings.Split(t.text, ".")
		op = &Opcode{Text: t.text, Base: parts[0], Mods: parts[1:]}
		p.opcodes[t.text] = op
	}
	i.Op, i.Source = op, p.source
	if p.accept(";") {
		return
	}
	for {
		i.Operands = append(i.Operands, p.operand(op.Base == "call"))
		if p.err != nil || !p.accept(",") {
			break
		}
	}
	p.expect(";")
}
