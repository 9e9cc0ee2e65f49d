package rulefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/nicless/nicless/fault"
)

// mostErrors is how many errors of a file are kept: more than anybody reads.
const mostErrors = 50

// mostFound is after how many errors a file is not read on. An error of a name costs up to 0.2 ms, for the
// search of the nearest one, and aliases make 65536 of a few.
const mostFound = 1000

// An Error says what is wrong at a place in a file. Text that comes from the file is quoted in it.
type Error struct {
	File         string // as it was given to Read or Parse
	Line, Column int    // from 1; 0: the file as a whole
	Text         string
}

// Error returns the place and the text, as compilers print them: rules.yaml:4:7: text.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Text)
}

// Errors are all errors of a file, at least one, in the order of their places.
type Errors []*Error

// Error returns the errors, one in each line.
func (e Errors) Error() string {
	var lines []string
	for _, x := range e {
		lines = append(lines, x.Error())
	}
	return strings.Join(lines, "\n")
}

// Read reads the file at a path. Its error is that of the system, or Errors.
func Read(path string) (*fault.Rules, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, fault.MostText+1))
	if err != nil {
		return nil, err
	}
	return Parse(path, b)
}

// Parse reads the text of a file, at most fault.MostText bytes, and checks the rules. name stands for the
// file in errors, which are Errors.
func Parse(name string, b []byte) (rules *fault.Rules, err error) {
	d := &decoder{file: name}
	if len(b) > fault.MostText {
		d.errorf(nil, "more than the %d bytes that are possible", fault.MostText)
		return nil, d.errors()
	}
	// The parser is not ours, and the text is anybody's.
	defer func() {
		if recover() != nil {
			d.errorf(nil, "is not YAML")
			rules, err = nil, d.errors()
		}
	}()
	if err := shallow(b); err != nil {
		d.errorf(nil, "%v", err)
		return nil, d.errors()
	}
	file, err := parser.ParseBytes(b, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err)
		return nil, d.errors()
	}
	rules = d.document(file)
	if len(d.list) > 0 {
		return nil, d.errors()
	}
	return rules, nil
}

// mostDepth is how deep brackets may be nested. Rules need 5; the parser's time grows with the square.
const mostDepth = 32

// shallow returns an error if brackets are nested deeper than rules can be, counted without regard to quotes.
func shallow(b []byte) error {
	depth := 0
	for _, c := range b {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		}
		if depth > mostDepth {
			return fmt.Errorf("more than %d brackets are open at once", mostDepth)
		}
	}
	return nil
}

// syntax adds an error of the parser.
func (d *decoder) syntax(err error) {
	var at yaml.Error
	if errors.As(err, &at) {
		d.errorf(at.GetToken(), "%.200q", at.GetMessage())
		return
	}
	d.errorf(nil, "%.200q", err.Error())
}

// document returns the rules of a file.
func (d *decoder) document(file *ast.File) *fault.Rules {
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType ||
			doc.Body.Type() == ast.DirectiveType {
			continue
		}
		bodies = append(bodies, doc.Body)
	}
	switch len(bodies) {
	case 0:
		d.errorf(nil, "has no rules")
		return nil
	case 1:
	default:
		d.errorf(bodies[1].GetToken(), "a second document; a file has one")
		return nil
	}
	d.findAnchors(bodies[0])
	rules := new(fault.Rules)
	d.rules(bodies[0], rules)
	if len(d.list) == 0 {
		if err := rules.Check(); err != nil {
			d.errorf(bodies[0].GetToken(), "%v", strings.TrimPrefix(err.Error(), "fault: "))
		}
	}
	if text, err := json.Marshal(rules); len(d.list) == 0 && (err != nil || len(text) > fault.MostText) {
		d.errorf(nil, "the rules have %d bytes as JSON; at most %d are possible", len(text), fault.MostText)
	}
	return rules
}

// places says where the fields of a rule are.
type places struct {
	rule   *token.Token
	fields map[string]*token.Token // of the rule and of its match
}

// check adds what is wrong with a rule, at the field that each error names.
func (d *decoder) check(r *fault.Rule, at *places) {
	for _, err := range leaves(r.Check()) {
		d.errorf(at.find(err.Error()), "%v", err)
	}
}

// find returns the place of the field that an error names: in "refuse: call ..." that of call, else that of
// the first word that is a field.
func (at *places) find(text string) *token.Token {
	if m := innerField.FindStringSubmatch(text); m != nil && at.fields[m[1]] != nil {
		return at.fields[m[1]]
	}
	for _, word := range words.FindAllString(text, -1) {
		if t := at.fields[word]; t != nil && word != "name" && word != "match" {
			return t
		}
	}
	return at.rule
}

var (
	innerField = regexp.MustCompile(`^[a-z-]+: ([a-z-]+)`)
	words      = regexp.MustCompile(`[a-z-]+`)
)

// leaves returns the errors that were joined.
func leaves(err error) (all []error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, leaves(e)...)
		}
		return all
	}
	if err != nil {
		all = append(all, err)
	}
	return all
}

// errorf adds an error at a token; nil: about the whole file.
func (d *decoder) errorf(at *token.Token, format string, args ...any) {
	e := &Error{File: d.file, Text: fmt.Sprintf(format, args...)}
	if at != nil && at.Position != nil {
		e.Line, e.Column = at.Position.Line, at.Position.Column
	}
	d.list = append(d.list, e)
}

// errors returns the errors in the order of their places. An alias can make the same error many times.
func (d *decoder) errors() Errors {
	slices.SortStableFunc(d.list, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	list := slices.CompactFunc(d.list, func(a, b *Error) bool { return *a == *b })
	if n := len(list) - mostErrors; n > 0 {
		text := fmt.Sprintf("and %d more errors", n)
		if len(d.list) >= mostFound {
			text = fmt.Sprintf("and at least %d more errors", n)
		}
		more := &Error{File: d.file, Text: text}
		list = append(list[:mostErrors:mostErrors], more)
	}
	return list
}
