package rulefile

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// descriptions says what fields mean, as editors show it. Each field has one.
var descriptions = map[string]string{
	"seed":         "every draw depends on it alone",
	"rules":        "each acts on the events that it matches",
	"name":         "shown wherever the rule acts",
	"match":        "which events the rule is about; every field must fit",
	"program":      "name of the client's process, as the kernel has it",
	"pid":          "id of the client's process",
	"client":       "number of the client, as in explanations and traces",
	"device":       "name of the device",
	"qp":           "number of the queue pair",
	"transport":    "transport of the queue pair",
	"opcode":       "opcode of the WQE, or a list of them",
	"size":         "bytes of the message: N, N.., ..N or N..M",
	"key":          "an lkey or rkey that the WQE names",
	"index":        "index of the WQE",
	"nth":          "only this event of those that fit, for each queue, client or link alone; the first is 1",
	"every":        "each event whose number can be divided by this",
	"probability":  "with this probability, drawn by the seed",
	"times":        "at most so often, for each queue, client or link",
	"after":        "not before this time since the rules were set",
	"until":        "not after this time since the rules were set",
	"complete":     "the WQE is not executed, and completes with this error",
	"syndrome":     "syndrome of the error CQE",
	"vendor":       "vendor syndrome (byte 54 of the CQE)",
	"stall":        "the queue does not begin the WQE before this time is over",
	"doorbell":     "the doorbell is not seen until the next one, or not before this time is over",
	"rnr":          "the responder is not ready, so often",
	"lose-request": "the responder does not see the request, so often",
	"lose-answer":  "the requester does not see the answer, so often",
	"flip":         "a bit of the payload arrives wrong; what is left out is drawn",
	"byte":         "place in the message",
	"bit":          "number of the bit",
	"overrun":      "this completion queue overruns",
	"deregister":   "the key is deregistered when a part of the bytes is moved",
	"disconnect":   "the peer's queue pair goes to error before the request is executed",
	"kill":         "the client dies",
	"refuse":       "the request of the client is refused",
	"call":         "name of the request, as in docs/CONTROL.md",
	"errno":        "name of the error",
	"packet":       "what happens to a packet of a link",
	"delay":        "the packet is late by this time",
	"cut":          "from this packet on, nothing crosses the link that way for this time",
	"mtu":          "longer payloads are lost",
	"port":         "the port goes down",
	"down":         "for this time",
	"gid":          "the port's GID changes",
	"subnet":       "the subnet manager has done this to the port, which stays as it is",
	"unreadable":   "the ring of that queue cannot be read; its queue pairs go to error",
	"order":        "bytes become visible before completions in a more adverse order",
}

// A node is a part of the schema.
type node = map[string]any

// definitions has the values that several fields have.
func definitions() node {
	return node{
		"number":   node{"oneOf": []any{node{"type": "integer", "minimum": 0}, node{"type": "string", "pattern": "^(0[xX][0-9a-fA-F]+|[0-9]+)$"}}},
		"duration": node{"type": "string", "pattern": `^(forever|([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$`},
		"count":    node{"oneOf": []any{node{"type": "integer", "minimum": 1}, node{"const": "all"}}},
	}
}

func enum[T ~string](list ...T) node {
	var all []any
	for _, x := range list {
		all = append(all, string(x))
	}
	return node{"enum": all}
}

func ref(name string) node { return node{"$ref": "#/$defs/" + name} }

// opcodes are the names of all opcodes that rules can have.
func opcodes() (names []string) {
	for op := range wqe.Opcode(64) {
		if op.Info().Known() {
			names = append(names, op.String())
		}
	}
	return names
}

// values has the schema of each type that is written as a single value.
func values(t *testing.T) map[reflect.Type]node {
	var syndromes []string
	for v := range 256 {
		if s := fault.Syndrome(v).String(); cqe.Syndrome(v).Name() != "" && !strings.HasPrefix(s, "0x") {
			syndromes = append(syndromes, s)
		}
	}
	var transports []string
	for _, x := range []wqe.Transport{wqe.RC, wqe.UC, wqe.UD, wqe.TransportXRC, wqe.DC} {
		text, err := fault.On(x).MarshalText()
		require.NoError(t, err)
		transports = append(transports, string(text))
	}
	packet := record(t, reflect.TypeFor[fault.Packet]())
	delete(packet["properties"].(node), "do")
	packet["required"] = []any{"delay"}
	return map[reflect.Type]node{
		reflect.TypeFor[fault.Number]():   ref("number"),
		reflect.TypeFor[fault.Duration](): ref("duration"),
		reflect.TypeFor[fault.Count]():    ref("count"),
		reflect.TypeFor[fault.Range](): {"oneOf": []any{node{"type": "integer", "minimum": 0},
			node{"type": "string", "pattern": `^((0x)?[0-9a-fA-F]+(\.\.((0x)?[0-9a-fA-F]+)?)?|\.\.(0x)?[0-9a-fA-F]+)$`}}},
		reflect.TypeFor[fault.Transport](): enum(transports...),
		reflect.TypeFor[fault.Opcodes](): {"oneOf": []any{enum(opcodes()...),
			node{"type": "array", "items": enum(opcodes()...), "minItems": 1}}},
		reflect.TypeFor[fault.Syndrome](): {"oneOf": []any{enum(syndromes...), ref("number")}},
		reflect.TypeFor[fault.Doorbell](): {"oneOf": []any{node{"const": "drop"}, ref("duration")}},
		reflect.TypeFor[fault.Packet](): {"oneOf": []any{
			enum(fault.Lose, fault.Duplicate, fault.Corrupt, fault.Reorder), packet}},
		reflect.TypeFor[fault.GID]():    enum(fault.ChangeGID),
		reflect.TypeFor[fault.Subnet](): enum(fault.ChangeLID, fault.ChangePKey, fault.ChangeSM, fault.Reregister),
		reflect.TypeFor[fault.Order]():  enum(fault.Weak, fault.Weakest),
		reflect.TypeFor[bool]():         {"const": true},
		reflect.TypeFor[string]():       {"type": "string"},
		reflect.TypeFor[float64]():      {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
		reflect.TypeFor[uint8]():        {"type": "integer", "minimum": 0, "maximum": 7},
		reflect.TypeFor[uint16]():       {"type": "integer", "minimum": 0, "maximum": 65535},
		reflect.TypeFor[uint32]():       {"type": "integer", "minimum": 1},
		reflect.TypeFor[uint64]():       {"type": "integer", "minimum": 1},
		reflect.TypeFor[int]():          {"type": "integer", "minimum": 1},
	}
}

// record returns the schema of a struct, from its fields.
func record(t *testing.T, of reflect.Type) node {
	properties := node{}
	var required []any
	var all map[reflect.Type]node
	for i := range of.NumField() {
		f := of.Field(i)
		if !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if of == reflect.TypeFor[fault.Packet]() && name == "do" {
			properties[name] = node{}
			continue
		}
		if all == nil && of != reflect.TypeFor[fault.Packet]() {
			all = values(t)
		}
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		p, known := all[ft]
		switch {
		case name == "overrun", name == "unreadable":
			p = enum(fault.Send, fault.Receive)
		case name == "deregister":
			p = enum(fault.Local, fault.Remote)
		case name == "call":
			p = enum(fault.Calls()...)
		case name == "errno":
			p = enum(slices.Sorted(maps.Keys(fault.Errnos()))...)
		case known:
		case ft == reflect.TypeFor[fault.Duration]():
			p = ref("duration")
		case ft.Kind() == reflect.Slice:
			p = node{"type": "array", "minItems": 1, "maxItems": fault.MostRules, "items": record(t, ft.Elem())}
		case ft.Kind() == reflect.Struct:
			p = record(t, ft)
		default:
			t.Fatalf("field %s of type %v", name, ft)
		}
		copied := node{}
		for k, v := range p {
			copied[k] = v
		}
		require.NotEmpty(t, descriptions[name], name)
		copied["description"] = descriptions[name]
		switch name {
		case "name":
			copied["maxLength"] = fault.MostName
		case "program":
			copied["maxLength"] = 15
		case "mtu":
			copied["maximum"] = 4096
		}
		properties[name] = copied
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	r := node{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		r["required"] = required
	}
	if of == reflect.TypeFor[fault.Rule]() {
		var one []any
		for _, action := range fault.Actions() {
			one = append(one, node{"required": []any{action}})
		}
		r["oneOf"] = one // exactly one action
	}
	return r
}

// schema.json has exactly the fields and names of the Go types. With UPDATE_DOCS=1 the test writes it.
func TestSchema(t *testing.T) {
	s := record(t, reflect.TypeFor[fault.Rules]())
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["title"] = "Rules of faults of nicless"
	s["$defs"] = definitions()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	require.NoError(t, e.Encode(s))
	if os.Getenv("UPDATE_DOCS") != "" {
		require.NoError(t, os.WriteFile("schema.json", []byte(b.String()), 0o644))
		return
	}
	got, err := os.ReadFile("schema.json")
	require.NoError(t, err)
	require.Equal(t, b.String(), string(got), "UPDATE_DOCS=1 go test ./fault/rulefile -run Schema writes it")
	for name := range descriptions {
		require.Contains(t, string(got), `"`+name+`": {`, "no field has this description")
	}
}

// All files of rules in the tree are right, name the schema, and there are some.
func TestFilesOfTheTree(t *testing.T) {
	var found []string
	require.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." && d.Name() != "." {
			return fs.SkipDir
		}
		if ext := filepath.Ext(path); ext != ".yaml" && ext != ".yml" {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if slices.Contains(strings.Split(string(b), "\n"), "rules:") {
			found = append(found, path)
			_, err := Parse(path, b)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(b), "# yaml-language-server: $schema="), path)
		}
		return nil
	}))
	require.NotEmpty(t, found)
}

// All rules on the page are right.
func TestRulesOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/FAULTS.md")
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```yaml\n")[1:]
	require.Greater(t, len(blocks), 10)
	for i, b := range blocks {
		text, _, ok := strings.Cut(b, "```")
		require.True(t, ok)
		_, err := Parse(fmt.Sprintf("FAULTS.md, block %d", i+1), []byte(text))
		require.NoError(t, err)
	}
}
