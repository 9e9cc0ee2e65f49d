package rulefile

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Limits of what aliases can make of a text. A text without aliases has fewer nodes than bytes.
const (
	mostNodes   = 1 << 16 // as fault.MostText
	mostAliases = 8       // from one to the next
)

// An anchor is a name for a node, from a place in the text on.
type anchor struct {
	offset int
	node   ast.Node
}

// Visit implements ast.Visitor: it notes anchors.
func (d *decoder) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil && a.Start != nil && a.Start.Position != nil {
		name := a.Name.GetToken().Value
		d.anchors[name] = append(d.anchors[name], anchor{a.Start.Position.Offset, a.Value})
	}
	return d
}

func (d *decoder) findAnchors(body ast.Node) {
	d.anchors = make(map[string][]anchor)
	ast.Walk(d, body)
}

// resolve returns the node that a node stands for, or nil after an error, or after too many.
func (d *decoder) resolve(n ast.Node) ast.Node {
	if len(d.list) >= mostFound {
		return nil
	}
	d.nodes++
	if d.nodes > mostNodes {
		if d.nodes == mostNodes+1 {
			d.errorf(nil, "aliases make more than %d values", mostNodes)
		}
		return nil
	}
	for range mostAliases {
		switch x := n.(type) {
		case nil:
			return nil
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			n = d.anchorOf(x)
			if n == nil {
				d.errorf(x.Start, "there is no anchor %.63q before this alias", x.Value.GetToken().Value)
				return nil
			}
		case *ast.TagNode:
			d.errorf(x.Start, "tag %.63q; tags are not possible here", x.Start.Value)
			return nil
		default:
			return n
		}
	}
	d.errorf(n.GetToken(), "an alias of an alias, more than %d times", mostAliases)
	return nil
}

// anchorOf returns the node that an alias stands for: that of the last anchor of its name before it.
func (d *decoder) anchorOf(a *ast.AliasNode) (n ast.Node) {
	if a.Value == nil || a.Start == nil || a.Start.Position == nil {
		return nil
	}
	for _, x := range d.anchors[a.Value.GetToken().Value] {
		if x.offset < a.Start.Position.Offset {
			n = x.node
		}
	}
	return n
}

// A pair is a field of a mapping.
type pair struct {
	key   string
	at    *token.Token
	value ast.Node
}

// pairs returns the fields of a mapping, those of its merge keys last. It returns false, after an error, if a
// node is no mapping. depth counts merge keys in merge keys.
func (d *decoder) pairs(n ast.Node, what string, depth int) (all []pair, ok bool) {
	var values []*ast.MappingValueNode
	switch x := n.(type) {
	case *ast.MappingNode:
		values = x.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{x}
	default:
		d.errorf(n.GetToken(), "%s: %s; a mapping of fields is needed", what, describe(n))
		return nil, false
	}
	has := make(map[string]bool)
	var merges []ast.Node
	for _, v := range values {
		if v.Key == nil || v.Key.GetToken() == nil {
			continue
		}
		if v.Key.IsMergeKey() {
			merges = append(merges, v.Value)
			continue
		}
		key, at := keyOf(v.Key), v.Key.GetToken()
		if has[key] {
			d.errorf(at, "field %.63q is here twice", key)
			continue
		}
		has[key] = true
		all = append(all, pair{key, at, v.Value})
	}
	for _, m := range merges {
		for _, p := range d.merged(m, what, depth) {
			if !has[p.key] {
				has[p.key] = true
				all = append(all, p)
			}
		}
	}
	return all, true
}

// merged returns the fields of the value of a merge key: a mapping, or a list of mappings.
func (d *decoder) merged(n ast.Node, what string, depth int) (all []pair) {
	at := n
	if n = d.resolve(n); n == nil {
		return nil
	}
	if depth == mostAliases {
		d.errorf(at.GetToken(), "merge keys in merge keys, more than %d times", mostAliases)
		return nil
	}
	list := []ast.Node{n}
	if s, ok := n.(*ast.SequenceNode); ok {
		list = s.Values
	}
	for _, x := range list {
		if x = d.resolve(x); x != nil {
			p, _ := d.pairs(x, what, depth+1)
			all = append(all, p...)
		}
	}
	return all
}

func keyOf(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return k.GetToken().Value
}

// describe says what kind of value a node is.
func describe(n ast.Node) string {
	switch n.Type() {
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	case ast.SequenceType:
		return "a list"
	case ast.NullType:
		return "no value"
	}
	return "a single value"
}

// scalar returns the text of a single value.
func scalar(n ast.Node) (string, bool) {
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.LiteralNode:
		return x.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}
