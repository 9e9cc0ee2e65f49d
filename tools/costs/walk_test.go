package costs

import (
	"testing"

	"github.com/nicless/nicless/model"
	"github.com/stretchr/testify/require"
)

// usable reports whether lines of a fabric can be in a state, and an agent can make a request there.
func usable(f *Fabric, who model.Agent, req Request, s State) bool {
	core := who != model.Dev || len(f.Reads) == 0
	switch {
	case !contains(f.Homes, s.Home), core != (req <= CoreFlush || req == Bell && who != model.Dev):
		return false
	case !core && req != DevFlush && req != Bell && !contains(f.Reads, req) && !contains(f.Writes, req):
		return false
	case req == Bell && !f.Bells:
		return false
	}
	return reachable(f)[s]
}

func contains[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

var reached = map[*Fabric]map[State]bool{}

// reachable returns the states that requests lead to from lines that were not touched.
func reachable(f *Fabric) map[State]bool {
	if reached[f] != nil {
		return reached[f]
	}
	seen := map[State]bool{}
	var visit func(s State)
	visit = func(s State) {
		if seen[s] {
			return
		}
		seen[s] = true
		for _, r := range f.Rules {
			for who := range model.Agents {
				if r.applies(who, r.Req, s) {
					visit(r.next(who, s))
				}
			}
		}
	}
	for _, home := range f.Homes {
		visit(State{Home: home})
		if home == DeviceMemory && f == cxlType2 {
			visit(State{Home: home, Bias: DeviceBias})
		}
	}
	reached[f] = seen
	return seen
}

// TestEveryRequestIsAnswered walks all states that lines of a fabric can reach, and all requests: one rule
// applies, and its next state keeps the invariants.
func TestEveryRequestIsAnswered(t *testing.T) {
	for _, f := range fabrics {
		n := 0
		for s := range reachable(f) {
			require.NoError(t, s.Check(), "%s", f.Name)
			for who := range model.Agents {
				for req := range requests {
					if !usable(f, who, req, s) {
						continue
					}
					n++
					var found []*Rule
					for i := range f.Rules {
						if f.Rules[i].applies(who, req, s) {
							found = append(found, &f.Rules[i])
						}
					}
					if len(found) != 1 {
						t.Errorf("%s: %d rules for %v by %v in %v", f.Name, len(found), req, who, s)
						continue
					}
					require.NoError(t, found[0].next(who, s).Check(), "%s: %v by %v in %v", f.Name, req, who, s)
				}
			}
		}
		t.Logf("%s: %d states, %d requests in states", f.Name, len(reachable(f)), n)
	}
}
