package syntax

import (
	"strconv"
	"strings"
)

// module reads all of the text.
func (p *parser) module() *Module {
	m := &Module{Sources: map[int]string{}, AddressSize: 32}
	p.version(m)
	for p.err == nil && p.tok.kind != end {
		p.moduleItem(m)
	}
	if p.err == nil && len(m.Targets) == 0 {
		p.fail(p.tok.at, "the module names no .target")
	}
	return m
}

// The major versions that are known. CUDA 9, which had the first one, is the oldest whose kernels have memory
// orders and warps whose lanes make progress by themselves.
const oldest, newest = 6, 9

// version reads the first directive, which must be .version.
func (p *parser) version(m *Module) {
	t := p.tok
	if !p.acceptDirective("version") {
		p.fail(t.at, ".version is expected at the beginning of PTX, not %s", t)
		return
	}
	t = p.tok
	major, minor, _ := strings.Cut(p.take(number, "a version"), ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	if p.err == nil && (errA != nil || errB != nil || a > 99 || b > 99) {
		p.fail(t.at, "%s is no version, such as 7.8", t)
	}
	if p.err == nil && (a < oldest || a > newest) {
		p.fail(t.at, "version %d.%d; known are %d.0 to %d.x", a, b, oldest, newest)
	}
	m.Major, m.Minor = a, b
}

// moduleItem reads a directive, a variable or a function.
func (p *parser) moduleItem(m *Module) {
	t := p.tok
	switch name := p.take(directive, "a directive"); name {
	case "target":
		m.Targets = append(m.Targets, p.identifier())
		if !isGPU(m.Targets[0]) {
			p.fail(t.at, "%s is no target, such as sm_80", m.Targets[0])
		}
		for p.accept(",") {
			m.Targets = append(m.Targets, p.identifier())
		}
	case "address_size":
		m.AddressSize = p.count(64)
		if p.err == nil && m.AddressSize != 32 && m.AddressSize != 64 {
			p.fail(t.at, "an address has 32 or 64 bits, not %d", m.AddressSize)
		}
	case "file":
		file := p.count(1 << 30)
		m.Sources[file] = p.take(quoted, "the name of a file")
		for p.accept(",") {
			p.take(number, "a number")
		}
	case "section":
		p.section()
	case "pragma":
		p.pragma()
	case "alias":
		a := Alias{At: t.at, Name: p.identifier()}
		p.expect(",")
		a.Of = p.identifier()
		p.expect(";")
		m.Aliases = append(m.Aliases, a)
	case "extern":
		p.linked(m, Extern)
	case "visible":
		p.linked(m, Visible)
	case "weak":
		p.linked(m, Weak)
	case "common":
		p.linked(m, Common)
	default:
		p.defined(m, t, Local)
	}
}

// linked reads what follows a linkage.
func (p *parser) linked(m *Module, l Linkage) {
	t := p.tok
	p.take(directive, "a variable or function")
	p.defined(m, t, l)
}

// defined reads a variable or a function whose first directive is t.
func (p *parser) defined(m *Module, t token, l Linkage) {
	if p.err != nil {
		return
	}
	switch t.text {
	case "entry", "func":
		m.Functions = append(m.Functions, p.function(t, l))
	case "global", "const", "shared", "tex":
		m.Variables = append(m.Variables, p.variables(t, l)...)
	default:
		p.fail(t.at, "directive %s is not known here", t)
	}
}

// section skips a section, which debuggers read.
func (p *parser) section() {
	if p.tok.kind != directive && p.tok.kind != word {
		p.fail(p.tok.at, "the name of a section is expected, not %s", p.tok)
	}
	p.advance()
	p.expect("{")
	for p.tok.kind != end && !p.is("}") {
		p.advance()
	}
	p.expect("}")
}

// pragma skips advice to the compiler.
func (p *parser) pragma() {
	p.take(quoted, "a string")
	for p.accept(",") {
		p.take(quoted, "a string")
	}
	p.expect(";")
}

// function reads a function whose first directive, entry or func, is t.
func (p *parser) function(t token, l Linkage) *Function {
	f := &Function{At: t.at, Linkage: l, Entry: t.text == "entry", Limits: map[string][3]int64{}}
	for p.acceptDirective("attribute") {
		p.attribute()
	}
	if p.is("(") {
		f.Results = p.parameters()
	}
	f.Name = p.identifier()
	if p.is("(") {
		f.Params = p.parameters()
	}
	for p.tok.kind == directive {
		p.limit(f)
	}
	if p.accept(";") {
		return f
	}
	p.source = Source{}
	f.Body = p.block()
	return f
}

// limit reads a directive between a function's parameters and its body.
func (p *parser) limit(f *Function) {
	t := p.tok
	p.advance()
	switch t.text {
	case "noreturn":
		f.NoReturn = true
	case "pragma":
		p.pragma()
	case "explicitcluster", "blocksareclusters":
		f.Limits[t.text] = [3]int64{1, 1, 1}
	case "maxntid", "reqntid", "reqnctapercluster", "minnctapersm", "maxnctapersm", "maxnreg",
		"maxclusterrank", "abi_preserve", "abi_preserve_control":
		numbers := [3]int64{1, 1, 1}
		for i := range numbers {
			numbers[i] = int64(p.count(1 << 31))
			if !p.accept(",") {
				break
			}
		}
		f.Limits[t.text] = numbers
	default:
		p.fail(t.at, "directive %s is not known at a function", t)
	}
}

// isGPU reports whether a target is a kind of GPU: sm_, two or three digits, and perhaps a letter.
func isGPU(target string) bool {
	number, ok := strings.CutPrefix(target, "sm_")
	number = strings.TrimRight(number, "af")
	n, err := strconv.Atoi(number)
	return ok && err == nil && n >= 10 && n <= 999
}
