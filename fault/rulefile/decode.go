package rulefile

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/nearest"
)

// A decoder reads one file.
type decoder struct {
	file    string
	list    []*Error
	anchors map[string][]anchor
	nodes   int
}

// rules decodes the whole file.
func (d *decoder) rules(n ast.Node, to *fault.Rules) {
	if n = d.resolve(n); n == nil {
		return
	}
	all, ok := d.pairs(n, "the file", 0)
	if !ok {
		return
	}
	fields := fieldsOf(reflect.TypeOf(*to))
	for _, p := range all {
		switch p.key {
		case "seed":
			d.value(p.value, reflect.ValueOf(&to.Seed).Elem(), p)
		case "rules":
			d.ruleList(p, to)
		default:
			d.unknown(p, fields)
		}
	}
}

// ruleList decodes the rules, and checks each that could be decoded.
func (d *decoder) ruleList(p pair, to *fault.Rules) {
	n := d.resolve(p.value)
	if n == nil {
		return
	}
	s, ok := n.(*ast.SequenceNode)
	switch {
	case !ok:
		d.errorf(p.at, "rules: %s; a list of rules is needed", describe(n))
		return
	case len(s.Values) > fault.MostRules:
		d.errorf(p.at, "rules: %d rules; at most %d are possible", len(s.Values), fault.MostRules)
		return
	}
	for _, v := range s.Values {
		before := len(d.list)
		var r fault.Rule
		at := &places{fields: make(map[string]*token.Token)}
		if v = d.resolve(v); v == nil {
			continue
		}
		at.rule = v.GetToken()
		if m, ok := v.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
			at.rule = m.Values[0].Key.GetToken()
		}
		if m, ok := v.(*ast.MappingValueNode); ok {
			at.rule = m.Key.GetToken()
		}
		d.record(v, reflect.ValueOf(&r).Elem(), "rule", at)
		if len(d.list) == before {
			d.check(&r, at)
		}
		to.Rules = append(to.Rules, r)
	}
}

// record decodes a mapping whose fields are those of a struct.
func (d *decoder) record(n ast.Node, to reflect.Value, what string, at *places) {
	all, ok := d.pairs(n, what, 0)
	if !ok {
		return
	}
	fields := fieldsOf(to.Type())
	for _, p := range all {
		i, known := fields[p.key]
		if !known {
			d.unknown(p, fields)
			continue
		}
		at.fields[p.key] = p.at
		d.field(p, to.Field(i), at)
	}
}

// field decodes the value of a field.
func (d *decoder) field(p pair, to reflect.Value, at *places) {
	n := d.resolve(p.value)
	if n == nil {
		return
	}
	if n.Type() == ast.NullType {
		d.errorf(p.at, "%s: has no value", p.key)
		return
	}
	pointer := to.Kind() == reflect.Pointer
	if pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	_, isOne := scalar(n)
	if isRecord(to.Type()) && !(isOne && decodesItself(to.Type())) {
		d.record(n, to, p.key, at)
		return
	}
	before := len(d.list)
	d.value(n, to, p)
	if to.IsZero() && !pointer && len(d.list) == before {
		s, _ := scalar(n)
		d.errorf(n.GetToken(), "%s: %.63q has no effect; leave the field out, or give another value", p.key, s)
	}
}

// value decodes a single value, or a list of opcodes.
func (d *decoder) value(n ast.Node, to reflect.Value, p pair) {
	if n = d.resolve(n); n == nil {
		return
	}
	if s, ok := n.(*ast.SequenceNode); ok && to.Type() == reflect.TypeFor[fault.Opcodes]() {
		d.opcodes(s, to.Addr().Interface().(*fault.Opcodes))
		return
	}
	text, ok := scalar(n)
	if !ok {
		d.errorf(n.GetToken(), "%s: %s; a single value is needed", p.key, describe(n))
		return
	}
	if err := decodeText(text, to); err != nil {
		d.errorf(n.GetToken(), "%s: %v", p.key, err)
	}
}

// mostShown is how many bytes of a value an error has.
const mostShown = 63

func decodeText(text string, to reflect.Value) (err error) {
	if len(text) > 4*mostShown { // no value is as long
		return fmt.Errorf("%.*q... is too long", mostShown, text)
	}
	if decodesItself(to.Type()) {
		quoted, err := json.Marshal(text)
		if err != nil {
			return err
		}
		return json.Unmarshal(quoted, to.Addr().Interface())
	}
	bits := 0
	if k := to.Kind(); k >= reflect.Int && k <= reflect.Float64 {
		bits = to.Type().Bits()
	}
	switch to.Kind() {
	case reflect.String:
		to.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is not true", text)
		}
		to.SetBool(text == "true")
	case reflect.Int:
		v, err := strconv.ParseInt(text, 0, 32)
		if err != nil {
			return fmt.Errorf("%q is not a number below 2^31", text)
		}
		to.SetInt(v)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v, err := strconv.ParseUint(text, 0, bits)
		if err != nil {
			return fmt.Errorf("%q is not a number from 0 to 2^%d-1", text, bits)
		}
		to.SetUint(v)
	case reflect.Float64:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		to.SetFloat(v)
	default:
		panic("rulefile: a field of type " + to.Type().String())
	}
	return nil
}

// opcodes decodes a list of opcodes.
func (d *decoder) opcodes(s *ast.SequenceNode, to *fault.Opcodes) {
	for _, n := range s.Values {
		if n = d.resolve(n); n == nil {
			return
		}
		var one fault.Opcodes
		text, ok := scalar(n)
		if !ok {
			d.errorf(n.GetToken(), "opcode: %s; the name of an opcode is needed", describe(n))
			continue
		}
		if err := decodeText(text, reflect.ValueOf(&one).Elem()); err != nil {
			d.errorf(n.GetToken(), "opcode: %v", err)
		}
		*to |= one
	}
}

// unknown adds the error of a field that does not exist.
func (d *decoder) unknown(p pair, fields map[string]int) {
	hint := nearest.Hint(p.key, slices.Sorted(maps.Keys(fields)))
	d.errorf(p.at, "unknown field %.*q%s", mostShown, p.key, hint)
}

// fieldsOf returns the places of the fields of a struct by the names that they have in JSON.
func fieldsOf(t reflect.Type) map[string]int {
	fields := make(map[string]int)
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" {
			fields[name] = i
		}
	}
	return fields
}

// isRecord reports whether values of a type are mappings of fields.
func isRecord(t reflect.Type) bool { return t.Kind() == reflect.Struct && len(fieldsOf(t)) > 0 }

// decodesItself reports whether a type reads its own text.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
