package syntax

import "fmt"

// kind is the kind of a token.
type kind uint8

const (
	end       kind = iota
	word           // add.u32, %r1, $L__BB0_1, %tid.x
	directive      // .reg, .shared::cta; the text is without the dot
	number
	quoted // the text is without the quotes
	mark   // one character, or two of << >> <= >= == != && ||
)

// A token is a piece of the text.
type token struct {
	kind kind
	text string
	at   Position
}

func (t token) String() string {
	switch t.kind {
	case end:
		return "the end of the text"
	case directive:
		return "." + shorten(t.text)
	case quoted:
		return `"` + shorten(t.text) + `"`
	}
	return shorten(t.text)
}

// shorten keeps messages readable.
func shorten(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%s... (%d bytes)", s[:most], len(s))
	}
	return s
}

// A lexer splits a text into tokens.
type lexer struct {
	text string
	at   int // of the next byte
	line int32
	head int // where the line begins
}

func (l *lexer) position() Position {
	return Position{l.line, int32(l.at-l.head) + 1}
}

func isLetter(c byte) bool {
	lower := c | 0x20
	return ('a' <= lower && lower <= 'z') || c == '_' || c == '$'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// peek returns the byte at a distance from the next one, and 0 behind the end.
func (l *lexer) peek(ahead int) byte {
	if l.at+ahead < len(l.text) {
		return l.text[l.at+ahead]
	}
	return 0
}

// skip skips blanks, comments and lines of the preprocessor.
func (l *lexer) skip() error {
	for l.at < len(l.text) {
		c := l.text[l.at]
		switch {
		case c == '\n':
			l.at++
			l.line++
			l.head = l.at
		case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
			l.at++
		case c == '/' && l.peek(1) == '/', c == '#' && l.at == l.head:
			for l.at < len(l.text) && l.text[l.at] != '\n' {
				l.at++
			}
		case c == '/' && l.peek(1) == '*':
			if err := l.comment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

func (l *lexer) comment() error {
	begin := l.position()
	for l.at += 2; ; l.at++ {
		switch {
		case l.at >= len(l.text):
			return &Error{begin, "the comment does not end"}
		case l.text[l.at] == '\n':
			l.line++
			l.head = l.at + 1
		case l.text[l.at] == '*' && l.peek(1) == '/':
			l.at += 2
			return nil
		}
	}
}

// next returns the next token.
func (l *lexer) next() (token, error) {
	if err := l.skip(); err != nil {
		return token{}, err
	}
	t := token{at: l.position()}
	if l.at == len(l.text) {
		return t, nil
	}
	begin := l.at
	c := l.text[l.at]
	switch {
	case isLetter(c), c == '%' && isLetter(l.peek(1)): // otherwise % is an operator
		t.kind = word
		l.at++
		l.name(true)
	case c == '.' && (isLetter(l.peek(1)) || isDigit(l.peek(1))):
		t.kind = directive
		l.at++
		begin++
		l.name(false)
	case isDigit(c):
		t.kind = number
		l.number()
	case c == '"':
		return l.quote(t)
	default:
		t.kind = mark
		if c < ' ' || c > '~' {
			return t, &Error{t.at, fmt.Sprintf("byte 0x%02x does not belong into PTX", c)}
		}
		l.at++
		switch l.text[begin:min(begin+2, len(l.text))] {
		case "<<", ">>", "<=", ">=", "==", "!=", "&&", "||":
			l.at++
		}
	}
	t.text = l.text[begin:l.at]
	return t, nil
}

// name goes to the end of a name. With dots, the name may have parts, as opcodes and special registers have.
func (l *lexer) name(dots bool) {
	for l.at < len(l.text) {
		c := l.text[l.at]
		switch {
		case isLetter(c) || isDigit(c):
			l.at++
		case c == ':' && l.peek(1) == ':' && (isLetter(l.peek(2)) || isDigit(l.peek(2))):
			l.at += 2
		case c == '.' && dots && (isLetter(l.peek(1)) || isDigit(l.peek(1))):
			l.at++
		default:
			return
		}
	}
}

// number goes to the end of a number. A sign belongs to it in an exponent only.
func (l *lexer) number() {
	hex := l.peek(0) == '0' && isLetter(l.peek(1))
	for l.at < len(l.text) {
		c := l.text[l.at]
		exponent := !hex && c|0x20 == 'e' && (l.peek(1) == '+' || l.peek(1) == '-') && isDigit(l.peek(2))
		switch {
		case exponent:
			l.at += 2
		case isLetter(c) && c != '$', isDigit(c), c == '.' && !hex && isDigit(l.peek(1)):
			l.at++
		default:
			return
		}
	}
}

func (l *lexer) quote(t token) (token, error) {
	t.kind = quoted
	l.at++
	for begin := l.at; ; l.at++ {
		switch {
		case l.at >= len(l.text) || l.text[l.at] == '\n':
			return t, &Error{t.at, "the string does not end on its line"}
		case l.text[l.at] == '\\' && l.peek(1) != '\n':
			l.at++
		case l.text[l.at] == '"':
			t.text = l.text[begin:l.at]
			l.at++
			return t, nil
		}
	}
}
