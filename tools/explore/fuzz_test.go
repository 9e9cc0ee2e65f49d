//go:build linux && (amd64 || arm64)

package explore

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

// A plan of others is refused with a reason, or executed: nothing in it ends the process. The checker is not
// wrong about it either.
func FuzzPlan(f *testing.F) {
	for seed := range uint64(8) {
		p := Draw(seed)
		p.Steps = p.Steps[:12]
		b, err := json.Marshal(p)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil || len(p.Steps) > 100 || p.Clients*len(p.Links) > 16 {
			return
		}
		n := 0
		for _, s := range p.Steps {
			n += s.N
		}
		if n > 1<<12 {
			return // it takes long
		}
		o, err := Execute(p)
		require.NoError(t, err)
		if p.Plant == nil {
			require.Nil(t, o.Fault)
		}
	})
}

// A damaged trace is an error, or no trace of a run.
func FuzzRead(f *testing.F) {
	b, err := os.ReadFile(filepath.Join(explored, "rc.nictrace"))
	require.NoError(f, err)
	f.Add(b)
	f.Add(b[:trace.FileHeadSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Read(bytes.NewReader(b))
		require.False(t, r != nil && err == nil && r.Plan == nil)
	})
}

// The error of a wrong plan says what is wrong, with the value and the limit.
func TestWrongPlans(t *testing.T) {
	const rcLink = `{"transport":"RC","ends":[0,0],"timeout":9}`
	const link = `"links":[` + rcLink + `]`
	step := `{"do":"post","work":[` + strings.Repeat(`{"op":"NOP"},`, 15) + `{"op":"NOP"}]}`
	for text, want := range map[string]string{
		`{`:                                                                                              "unexpected EOF",
		`{"clients":9,` + link + `,"steps":[]}`:                                                          "clients 9; 1 to 8 are possible",
		`{"clients":1,"links":[],"steps":[]}`:                                                            "links 0; 1 to 32 are possible",
		`{"clients":1,"slice":1,` + link + `}`:                                                           "slice 1; 64 to 1073741824 are possible",
		`{"clients":1,"links":[{"transport":"XRC"}]}`:                                                    `link 0: transport "XRC"; RC, UC and UD are possible`,
		`{"clients":1,"links":[{"transport":"RC","ends":[0,1]}]}`:                                        "link 0: client 1; 0 to 0 are possible",
		`{"clients":1,"links":[{"transport":"RC"}]}`:                                                     "link 0: timeout 0; 1 to 14 are possible",
		`{"clients":1,` + link + `,"steps":[{"do":"fly"}]}`:                                              `step 0: it does "fly", which is no step`,
		`{"clients":1,` + link + `,"steps":[{"do":"run","n":5000}]}`:                                     "step 0: n 5000; 0 to 4096 are possible",
		`{"clients":1,` + link + `,"steps":[{"do":"poll","qp":2}]}`:                                      "step 0: qp 2; 0 to 1 are possible",
		`{"clients":1,` + link + `,"steps":[{"do":"advance","time":-1}]}`:                                "step 0: time -1; 0 to 60000000000 are possible",
		`{"clients":1,` + link + `,"steps":[{"do":"post","work":[{"op":"SET_PSV"}]}]}`:                   `step 0: work request 0: operation "SET_PSV" is not possible`,
		`{"clients":1,` + link + `,"steps":[{"do":"post","work":[{"op":"SEND","n":1025}]}]}`:             "step 0: work request 0: n 1025; 0 to 1024 are possible",
		`{"clients":1,` + link + `,"steps":[{"do":"post","work":[{"op":"RDMA_READ","n":8,"at":2041}]}]}`: "step 0: work request 0: at 2041; 0 to 2040 are possible",
		`{"clients":1,` + link + `,"steps":[{"do":"post","work":[{"op":"ATOMIC_FA","n":8,"at":4}]}]}`:    "step 0: work request 0: 8 bytes at 4 of an atomic; 8 at a multiple of 8 are possible",
		`{"clients":1,` + link + `,"steps":[{"do":"rules","rules":{"rules":[{"kill":true}]}}]}`:          "step 0: rule 1 has the action kill; possible are",
		`{"clients":1,` + link + `,"plant":{"rules":{"rules":[{"kill":true}]}}}`:                         "planted rules: rule 1 has the action kill",
		`{"clients":1,` + link + `,"wings":2}`:                                                           `unknown field "wings"`,
		`{"clients":1,` + link + `} {}`:                                                                  "there is more after byte ",
		`{"clients":1,"links":[` + strings.Repeat(rcLink+",", 7) + rcLink + `]}`:                         "ends of links at a client 16; 0 to 15 are possible",
		`{"clients":1,` + link + `,"steps":[` + strings.Repeat(step+",", 4096) + step + `]}`:             "work requests of all steps 65552; 0 to 65536 are possible",
	} {
		_, err := Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// A plan whose checks would take hours is given up.
func TestCostlyPlan(t *testing.T) {
	p := &Plan{Clients: 2, Links: []Link{{Transport: uc, Ends: [2]int{0, 1}, Timeout: 9}}}
	post := Step{Do: Post}
	for id := range uint32(16) {
		post.Work = append(post.Work, Work{Op: "SEND", ID: id, N: messageSize})
	}
	for i := range uint32(1000) {
		post.Work = slices.Clone(post.Work)
		for j := range post.Work {
			post.Work[j].ID = 16*i + uint32(j)
		}
		p.Steps = append(p.Steps, post, Step{Do: StepAll}, Step{Do: Poll, N: 16})
	}
	for range 10000 {
		p.Steps = append(p.Steps, Step{Do: Receive, QP: 1, N: 16, Size: 8}, Step{Do: Fail, QP: 1}, Step{Do: StepAll},
			Step{Do: Poll, QP: 1, N: 16})
	}
	require.NoError(t, p.Check())
	_, err := Execute(p)
	require.ErrorContains(t, err, "to check this plan takes more than 1073741824 comparisons")
}

// Two runs of a plan of the most objects are the same, also as a client is closed.
func TestMostObjects(t *testing.T) {
	p := &Plan{Clients: 2, Watch: true}
	for range mostEnds {
		p.Links = append(p.Links, Link{Transport: rc, Ends: [2]int{0, 1}, Shared: true, Timeout: 9})
	}
	p.Steps = []Step{{Do: Kill}}
	require.NoError(t, p.Check())
	o, err := Execute(p)
	require.NoError(t, err)
	require.Nil(t, o.Fault)
	for range 20 {
		_, diff, err := (&Record{Plan: p, Events: o.Events}).Repeat()
		require.NoError(t, err)
		require.Nil(t, diff)
	}
}
