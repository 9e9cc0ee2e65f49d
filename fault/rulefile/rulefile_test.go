package rulefile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/parser"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// The same rules as YAML, with anchors, and as JSON.
func TestParse(t *testing.T) {
	const text = `# a comment
seed: 0x7
rules:
  - name: third write fails
    match: &writes
      program: ib_write_bw
      qp: 0x4d2
      opcode: [RDMA_WRITE, send]
      size: 1..4096
      index: 0
      nth: 3
    complete: {syndrome: remote-access, vendor: 0x88}
  - match: *writes
    stall: forever
  - match:
      <<: *writes
      nth: 4
      transport: RC
      probability: 0.25
    flip: {}
  - packet: {delay: 5ms}
  - packet: lose
  - doorbell: drop
  - refuse: {call: create_qp, errno: ENOMEM}
  - kill: true
`
	vendor, zero := fault.Number(0x88), uint16(0)
	writes := fault.Match{Program: "ib_write_bw", QP: 0x4d2, Opcode: fault.Only(wqe.OpRDMAWrite, wqe.OpSend),
		Size: fault.Range{Least: 1, Most: 4096}, Index: &zero, Nth: 3}
	merged := writes
	merged.Nth, merged.Transport, merged.Probability = 4, fault.On(wqe.RC), 0.25
	want := &fault.Rules{Seed: 7, Rules: []fault.Rule{
		{Name: "third write fails", Match: writes,
			Complete: &fault.Complete{Syndrome: fault.Syndrome(cqe.RemoteAccess), Vendor: &vendor}},
		{Match: writes, Stall: fault.Forever},
		{Match: merged, Flip: &fault.Flip{}},
		{Packet: &fault.Packet{Delay: 5_000_000}},
		{Packet: &fault.Packet{Do: fault.Lose}},
		{Doorbell: fault.Doorbell{Drop: true}},
		{Refuse: &fault.Refuse{Call: "create_qp", Errno: "ENOMEM"}},
		{Kill: true},
	}}
	got, err := Parse("x", []byte(text))
	require.NoError(t, err)
	require.Equal(t, want, got)
	b, err := json.MarshalIndent(got, "", "\t")
	require.NoError(t, err)
	got, err = Parse("x.json", b)
	require.NoError(t, err, "%s", b)
	require.Equal(t, want, got)
}

// Everything that is wrong with a file is said, with its place.
func TestErrors(t *testing.T) {
	const text = `seeed: 7
rules:
  - name: x
    match:
      oppcode: SEND
      pid: -1
      size: 9..1
    rnr: 1
  - match: {opcode: [RDMA_WRIT, [SEND]], qp: 0x1000000}
    rnr: 0
    rnr: 1
    kill: no
  - match: {size: 3}
    doorbell: drop
  - rnr: 1
    kill: true
  - lose-request:
    stall: {a: b}
  - complete: 5
  - {}
  - complete: {syndrome: remote-acces, vendor: 256}
  - match: *nothing
    mtu: !!int 5
  - match: {pid: -1, program: 0123456789abcdef}
    mtu: 9000
`
	_, err := Parse("f.yaml", []byte(text))
	require.Equal(t, `f.yaml:1:1: unknown field "seeed": did you mean "seed"?
f.yaml:5:7: unknown field "oppcode": did you mean "opcode"?
f.yaml:7:13: size: "9..1" is not a range of numbers such as 64, 64.., ..4096 or 64..4096
f.yaml:9:22: opcode: "RDMA_WRIT" is not an opcode of a WQE: did you mean "RDMA_WRITE"?
f.yaml:9:33: opcode: a list; the name of an opcode is needed
f.yaml:10:10: rnr: "0" has no effect; leave the field out, or give another value
f.yaml:11:5: field "rnr" is here twice
f.yaml:12:11: kill: "no" is not true
f.yaml:13:13: match: the action cannot be limited by size
f.yaml:15:5: has 2 actions, rnr and kill; one is possible
f.yaml:17:5: lose-request: has no value
f.yaml:18:12: stall: a mapping; a single value is needed
f.yaml:19:15: complete: a single value; a mapping of fields is needed
f.yaml:20:5: has no action; one of these is needed: `+strings.Join(fault.Actions(), ", ")+`
f.yaml:21:26: syndrome: "remote-acces" is not a syndrome: did you mean "remote-access"?
f.yaml:22:12: there is no anchor "nothing" before this alias
f.yaml:23:10: tag "!!int"; tags are not possible here
f.yaml:24:22: match: program "0123456789abcdef"; the kernel keeps at most 15 bytes of a name
f.yaml:25:5: mtu: 9000 bytes; 1 to 4096 are possible`, err.Error())
}

// Values name the nearest that is possible, and errors are at the field with the value: of a call that is
// refused, both.
func TestErrorsOfValues(t *testing.T) {
	const text = `rules:
  - match: {pid: 7}
    refuse: {call: creat_qp, errno: ENOMM}
  - refuse:
      call: create_qp
      errno: enomem
  - refuse: {errno: EIVAL}
  - match: {opcode: [xyzzy, SEND, rdma_raed]}
    complete: {syndrome: xyzzy}
  - complete:
      syndrome: remote-access
      vendor: 256
  - packet: {delay: 61s}
  - packet: losse
  - doorbell: dorp
  - overrun: recieve
  - deregister: remot
  - order: weekest
  - gid: chnage
  - subnet: lid-chnage
  - unreadable: sned
`
	_, err := Parse("f", []byte(text))
	require.Equal(t, `f:3:14: refuse: call "creat_qp" is none that can be refused: did you mean "create_qp"?
f:3:30: refuse: errno "ENOMM" is none of those of calls: did you mean "ENOMEM"?
f:6:7: refuse: errno "enomem" is none of those of calls: did you mean "ENOMEM"?
f:7:5: refuse: needs a call, such as create_qp, and an errno, such as ENOMEM
f:7:14: refuse: errno "EIVAL" is none of those of calls: did you mean "EINVAL"?
f:8:22: opcode: "xyzzy" is not an opcode of a WQE, such as RDMA_WRITE
f:8:35: opcode: "rdma_raed" is not an opcode of a WQE: did you mean "RDMA_READ"?
f:9:26: syndrome: "xyzzy" is not a syndrome: a number from 1 to 255, or a name such as remote-access
f:12:7: complete: vendor 256; 0 to 255 are possible
f:13:14: packet: delay 1m1s; a time above 0 and at most 1m0s is possible, or forever
f:14:5: packet: "losse" is none of lose, duplicate, corrupt, reorder: did you mean "lose"?
f:15:15: doorbell: "dorp" is neither drop nor a time such as 5ms: did you mean "drop"?
f:16:5: overrun: "recieve" is none of send, receive: did you mean "receive"?
f:17:5: deregister: "remot" is none of local, remote: did you mean "remote"?
f:18:5: order: "weekest" is none of weak, weakest: did you mean "weakest"?
f:19:5: gid: "chnage" is none of change: did you mean "change"?
f:20:5: subnet: "lid-chnage" is none of lid-change, pkey-change, sm-change, reregister: did you mean "lid-change"?
f:21:5: unreadable: "sned" is none of send, receive: did you mean "send"?`, err.Error())
}

// Files that are no rules at all.
func TestNoRules(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "x: has no rules",
		"# nothing":                      "x: has no rules",
		"rules: []":                      "x:1:6: 0 rules; 1 to 256 are possible",
		"rules: 5":                       "x:1:1: rules: a single value; a list of rules is needed",
		"- kill: true":                   "x:1:1: the file: a list; a mapping of fields is needed",
		"rules: [{rnr: 1}]\n---\na: b":   "x:3:2: a second document; a file has one",
		"rules: [":                       "x:1:8: ",
		"rules: \"a":                     "x:1:8: ",
		strings.Repeat("[", 60000):       "x: more than 32 brackets are open at once",
		strings.Repeat(" ", 70000):       "x: more than the 65536 bytes that are possible",
		"a: &a {<<: *a}\nrules: *a":      "x:1:1: unknown field \"a\"",
		"rules: &a [*a]":                 "x:1:11: rule: a list; a mapping of fields is needed",
		"rules: [&a {<<: *a, rnr: 1}]":   "x:1:17: merge keys in merge keys, more than 8 times",
		"rules: [{match: &b {<<: [*b]}}": "x:1:8",
		"rules: [" + strings.Repeat("{},", 300) + "]": "x:1:1: rules: 300 rules; at most 256 are possible",
	} {
		_, err := Parse("x", []byte(text))
		require.ErrorContains(t, err, want, "%.40q", text)
		require.IsType(t, Errors{}, err)
	}
}

// Aliases make only so many values of a text.
func TestManyAliases(t *testing.T) {
	text := "a: &a [" + strings.Repeat("SEND,", 5000) + "]\nrules:\n" + strings.Repeat("- {match: {opcode: *a}, rnr: 1}\n", 250)
	_, err := Parse("x", []byte(text))
	require.ErrorContains(t, err, "aliases make more than 65536 values")
	errs := err.(Errors)
	require.LessOrEqual(t, len(errs), mostErrors+1)
}

// Aliases do not multiply the search of the nearest names: so many wrong names would take 13 s.
func TestManyWrongNames(t *testing.T) {
	var text strings.Builder
	text.WriteString("rules:\n- match: {opcode: &a [")
	for i := range 850 {
		fmt.Fprintf(&text, "%064d,", i)
	}
	text.WriteString("]}\n" + strings.Repeat("- {match: {opcode: *a}, rnr: 1}\n", 80))
	d := &decoder{file: "x"}
	file, err := parser.ParseBytes([]byte(text.String()), 0)
	require.NoError(t, err)
	d.document(file)
	require.GreaterOrEqual(t, len(d.list), mostFound)
	require.Less(t, len(d.list), mostFound+850, "at most one more list")
	require.ErrorContains(t, d.errors(), "x: and at least 800 more errors")
}

// Read reads at most one byte too many.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "big")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, 1<<40))
	_, err := Read(path)
	require.ErrorContains(t, err, "more than the 65536 bytes")
	_, err = Read(filepath.Join(dir, "nothing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// No text makes Parse panic, and it returns either rules that are right, or errors with places in the text.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "rules: [{rnr: 1}]", "rules:\n- &a {match: {qp: 0x1}, stall: 5ms}\n- *a\n",
		"a: &a {<<: *a}\nrules: *a", "rules: [&a {<<: [*a, *a], rnr: 1}]", "\xef\xbb\xbfrules:\r\n- kill: true\r\n",
		"%YAML 1.2\n---\nrules:\n- complete: {syndrome: 5}\n...\n", "? a\n: b", "rules: |\n  x", "rules: [{name: \"\\u0000\", rnr: 1}]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse("f", b)
		if err != nil {
			require.Nil(t, r)
			require.NotEmpty(t, err.(Errors))
			for _, e := range err.(Errors) {
				require.GreaterOrEqual(t, e.Line, 0)
				require.LessOrEqual(t, e.Line, strings.Count(string(b), "\n")+strings.Count(string(b), "\r")+1)
			}
			return
		}
		require.NoError(t, r.Check())
		text, err := json.Marshal(r)
		require.NoError(t, err)
		again, err := Parse("f", text)
		require.NoError(t, err, "%s", text)
		require.Equal(t, r, again)
	})
}
