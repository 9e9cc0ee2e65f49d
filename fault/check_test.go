package fault

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// all has a rule for each action, and all fields of a match.
const all = `{"seed": 7, "rules": [
	{"name": "third", "match": {"program": "ib_write_bw", "pid": 4711, "client": 3, "device": "mlx5_0",
		"qp": "0x4d2", "transport": "RC", "opcode": ["RDMA_WRITE", "SEND"], "size": "1..4096", "key": 99,
		"index": 17, "nth": 3, "times": 2, "probability": 0.5, "after": "2s", "until": "5s"},
		"complete": {"syndrome": "remote-access", "vendor": "0x88"}},
	{"stall": "forever"}, {"doorbell": "drop"}, {"doorbell": "5ms"}, {"rnr": 3}, {"lose-request": "all"},
	{"lose-answer": 2}, {"flip": {"byte": 3, "bit": 7}}, {"flip": {}}, {"overrun": "send"},
	{"deregister": "remote"}, {"disconnect": true}, {"kill": true},
	{"refuse": {"call": "create_qp", "errno": "ENOMEM"}}, {"packet": "lose"}, {"packet": {"delay": "5ms"}},
	{"cut": "200ms"}, {"mtu": 1024}, {"port": {"down": "200ms"}}, {"gid": "change"},
	{"subnet": "lid-change"}, {"unreadable": "send"}, {"order": "weak"}]}`

// All actions can be written, and what is written again is the same.
func TestRulesAsText(t *testing.T) {
	r, err := Parse([]byte(all))
	require.NoError(t, err)
	seen := make(map[string]bool)
	for i := range r.Rules {
		for _, k := range kinds {
			seen[k.name] = seen[k.name] || k.has(&r.Rules[i])
		}
		require.NotEqual(t, "does nothing", r.Rules[i].Action())
	}
	require.Len(t, seen, len(Actions()))
	for name, has := range seen {
		require.True(t, has, name)
	}
	b, err := json.Marshal(r)
	require.NoError(t, err)
	again, err := Parse(b)
	require.NoError(t, err, "%s", b)
	require.Equal(t, r, again)
}

// Errors name the rule and the value.
func TestWrongRules(t *testing.T) {
	for _, c := range []struct{ rule, want string }{
		{`{}`, "rule 1: has no action; one of these is needed: complete, stall"},
		{`{"name": "x", "rnr": 1, "kill": true}`, `rule 1 ("x"): has 2 actions, rnr and kill; one is possible`},
		{`{"complete": {}}`, "needs a syndrome"},
		{`{"complete": {"syndrome": "remote-acess"}}`, `"remote-acess" is not a syndrome: did you mean "remote-access"?`},
		{`{"refuse": {"call": "creat_qp", "errno": "ENOMEN"}}`, "did you mean \"create_qp\"?\nrefuse: errno \"ENOMEN\""},
		{`{"complete": {"syndrome": 4, "vendor": 256}}`, "vendor 256; 0 to 255"},
		{`{"stall": "-5ms"}`, `"-5ms" is not a time`},
		{`{"rnr": -1}`, "-1 times"},
		{`{"mtu": 9000}`, "9000 bytes; 1 to 4096"},
		{`{"packet": "loose"}`, `"loose" is none of lose, duplicate, corrupt, reorder`},
		{`{"packet": {"delay": "61s"}}`, "delay 1m1s; a time above 0 and at most 1m0s"},
		{`{"order": "strange"}`, `"strange" is none of weak, weakest`},
		{`{"match": {"nth": 1}, "order": "weak"}`, "cannot be limited by nth"},
		{`{"match": {"nth": 1, "every": 2}, "rnr": 1}`, "nth and every; one of them"},
		{`{"match": {"probability": 1.5}, "rnr": 1}`, "probability 1.5; 0 to 1"},
		{`{"match": {"after": "5s", "until": "2s"}, "rnr": 1}`, "until must be later"},
		{`{"match": {"after": "forever"}, "rnr": 1}`, "after and until are times, not forever"},
		{`{"match": {"until": "forever"}, "rnr": 1}`, "after and until are times, not forever"},
		{`{"match": {"opcode": "WRITE"}, "rnr": 1}`, `"WRITE" is not an opcode`},
		{`{"match": {"size": "9..1"}, "rnr": 1}`, `"9..1" is not a range`},
		{`{"match": {"size": "x"}, "rnr": 1}`, `"x" is not a range`},
		{`{"match": {"program": "0123456789abcdef"}, "rnr": 1}`, "at most 15 bytes"},
		{`{"match": {"colour": 1}, "rnr": 1}`, `unknown field "colour"`},
	} {
		_, err := Parse([]byte(`{"rules": [` + c.rule + `]}`))
		require.ErrorContains(t, err, c.want, c.rule)
	}
	for text, want := range map[string]string{
		`{}`:                                "0 rules; 1 to 256",
		`{"rules": [{"rnr": 1}]} x`:         "more text after",
		strings.Repeat(" ", MostText) + all: "at most 65536",
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want)
	}
}

// Any text is refused or can be written and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(all))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse(b)
		if err != nil {
			return
		}
		text, err := json.Marshal(r)
		require.NoError(t, err)
		again, err := Parse(text)
		if len(text) <= MostText {
			require.NoError(t, err)
			require.Equal(t, r, again)
		}
		_, err = NewSet(r)
		require.NoError(t, err)
	})
}
