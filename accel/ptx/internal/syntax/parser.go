package syntax

import (
	"fmt"
	"strconv"
)

// MaxText is the most bytes of a module's text. The largest that is known, a device library of NVSHMEM, has
// 9 MB.
const MaxText = 256 << 20

// maxDepth is how deep blocks, initial values and expressions may nest. Compilers nest blocks 2 deep.
const maxDepth = 100

// A parser turns tokens into a tree. After the first error it sees only the end of the text, so that every
// loop that looks for the end ends.
type parser struct {
	lexer
	tok     token // the next one
	err     error
	depth   int
	opcodes map[string]*Opcode
	source  Source
}

// Parse returns the module that a text describes. NULs at its end are ignored: fat binaries have them.
func Parse(text string) (*Module, error) {
	if len(text) > MaxText {
		return nil, &Error{Position{1, 1}, fmt.Sprintf("the text has %d bytes; at most %d are read", len(text), MaxText)}
	}
	for len(text) > 0 && text[len(text)-1] == 0 {
		text = text[:len(text)-1]
	}
	p := &parser{lexer: lexer{text: text, line: 1}, opcodes: map[string]*Opcode{}}
	p.advance()
	m := p.module()
	if p.err != nil {
		return nil, p.err
	}
	return m, nil
}

// advance goes to the next token.
func (p *parser) advance() {
	if p.err != nil {
		return
	}
	tok, err := p.next()
	if err != nil {
		p.err, tok = err, token{at: tok.at}
	}
	p.tok = tok
}

// fail notes an error, unless there is one.
func (p *parser) fail(at Position, format string, args ...any) {
	if p.err == nil {
		p.err = &Error{at, fmt.Sprintf(format, args...)}
	}
	p.tok = token{at: p.tok.at}
}

// is reports whether the next token is a mark.
func (p *parser) is(text string) bool { return p.tok.kind == mark && p.tok.text == text }

// accept skips a mark if it is next.
func (p *parser) accept(text string) bool {
	if !p.is(text) {
		return false
	}
	p.advance()
	return true
}

// expect skips a mark, which must be next.
func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.fail(p.tok.at, "%s is expected, not %s", text, p.tok)
	}
}

// take skips a token of a kind, which must be next, and returns its text.
func (p *parser) take(k kind, what string) string {
	if p.tok.kind != k {
		p.fail(p.tok.at, "%s is expected, not %s", what, p.tok)
		return ""
	}
	text := p.tok.text
	p.advance()
	return text
}

// acceptDirective skips a directive if it is next.
func (p *parser) acceptDirective(text string) bool {
	if p.tok.kind != directive || p.tok.text != text {
		return false
	}
	p.advance()
	return true
}

// identifier returns the name that is next.
func (p *parser) identifier() string { return p.take(word, "a name") }

// count returns the integer that is next, which must be in 0..most.
func (p *parser) count(most int64) int {
	t := p.tok
	text := p.take(number, "a number")
	n, err := strconv.ParseInt(text, 10, 64)
	if p.err == nil && (err != nil || n < 0 || n > most) {
		p.fail(t.at, "%s is not in 0..%d", t, most)
	}
	if p.err != nil {
		return 0
	}
	return int(n)
}

// deeper reports whether what begins here may nest in what is open. The caller calls shallower at its end.
func (p *parser) deeper() bool {
	p.depth++
	if p.depth > maxDepth {
		p.fail(p.tok.at, "this nests more than %d deep", maxDepth)
		return false
	}
	return true
}

func (p *parser) shallower() { p.depth-- }
