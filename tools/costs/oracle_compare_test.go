package costs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/model"
	"github.com/stretchr/testify/require"
)

// waitsFor says for whom a request waits that is charged a price.
var waitsFor = map[string]party{
	"hit": own, "device": pipe, "link": wire, "agent": agent, "dram": ram, "forward": owner, "answer": answer, "device_dram": farRAM,
	"miss": owner, "data": owner, "upgrade": owner, "llc_load": agent, "dram_load": ram,
	"pool_load": pool, "pool_known": pool, "pool_store": pool, "pool_snoop": farHost,
	"dma_read": wire, "dma_write": wire, "mmio_read": wire, "doorbell": wire,
}

// state returns the machine's line in the form of the tables.
func (m *machine) state() State {
	s := State{Home: m.home, Bias: m.bias, Dev: m.dev.MESI}
	s.Host = m.hostState()
	for i, c := range m.core {
		if c.MESI != I {
			s.Cores |= 1 << i
		}
	}
	return s
}

// key returns what distinguishes machines: the states, and which versions are the newest.
func (m *machine) key() string {
	copies := []heldLine{m.core[0], m.core[1], m.llc, m.dev, {M, m.memory}, {M, m.register}, m.node[0], m.node[1]}
	var b strings.Builder
	fmt.Fprint(&b, m.state())
	for i, c := range copies {
		newest := m.newest
		if i == 5 {
			newest = m.rung
		}
		fmt.Fprint(&b, c.MESI, c.v == newest)
	}
	return b.String()
}

// step lets the machine and the table answer a request. It returns the rule, and how they differ.
func step(f *Fabric, m *machine, who model.Agent, req Request) (*Rule, error) {
	before := m.state()
	newest := m.newest
	got := m.do(who, req)
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: %v by %v in %v: "+format, append([]any{f.Name, req, who, before}, args...)...)
	}
	switch {
	case got.read != -1 && got.read != newest:
		return nil, fail("the oracle reads version %d, and the newest is %d", got.read, newest)
	case m.register != m.rung:
		return nil, fail("the oracle's register says %d, and the last ring was %d", m.register, m.rung)
	}
	r, err := f.find(who, req, before)
	if err != nil {
		return nil, err
	}
	if next := r.next(who, before); next != m.state() {
		return r, fail("next state: rule %v, oracle %v", next, m.state())
	}
	rule, flow := slices.Sorted(slices.Values(r.Msgs)), slices.Sorted(slices.Values(got.msgs))
	if !slices.Equal(rule, flow) {
		return r, fail("messages: rule %v, oracle %v", rule, flow)
	}
	waits, list := map[party]bool{}, r.Path
	if got.posted {
		list = r.Shown
	}
	if len(list) != len(r.Path)+len(r.Shown) {
		return r, fail("path %v and shown %v: the oracle has only one of them", r.Path, r.Shown)
	}
	for _, name := range list {
		p, ok := waitsFor[name]
		if !ok {
			return r, fail("the oracle does not know price %s", name)
		}
		waits[p] = true
	}
	if !maps.Equal(waits, got.waits) {
		return r, fail("waits for: rule %v, oracle %v", names(waits), names(got.waits))
	}
	if want := order(f, who, req); r.Order != want {
		return r, fail("order: rule %v, oracle %v", r.Order, want)
	}
	return r, nil
}

// order is how stores become visible: D2H requests are not ordered among each other, nor the flushes of what
// has been written to a pool without coherence; PCIe writes are posted in order, and cores keep the order of
// x86.
func order(f *Fabric, who model.Agent, req Request) Order {
	switch {
	case req == DMAWrite:
		return Posted
	case req == NCWrite, req == COWrite, req == NCPush, f.Name == poolPlain.Name && (req == CoreStore || req == CoreStoreNT):
		return Awaited
	}
	return Buffered
}

func names(set map[party]bool) []string {
	var list []string
	for p := range set {
		list = append(list, string(p))
	}
	slices.Sort(list)
	return list
}

// offered reports whether an agent can make a request on a fabric.
func offered(f *Fabric, who model.Agent, req Request) bool {
	switch {
	case req == Bell:
		return f.Bells
	case who == model.Dev && len(f.Reads) > 0:
		return slices.Contains(f.Reads, req) || slices.Contains(f.Writes, req) || req == DevFlush
	}
	return req <= CoreFlush
}

// A use is a request to which a rule has been applied.
type use struct {
	who    model.Agent
	req    Request
	before State
}

// explored is what explore has found.
type explored struct {
	states int
	uses   map[*Rule][]use
	differ []error
}

// explore lets machine and table answer every request in every state that sequences of requests and evictions
// reach. It stops at the first difference if the caller wants that.
func explore(f *Fabric, first bool) explored { return exploreFrom(f, first, careless{}) }

func exploreFrom(f *Fabric, first bool, c careless) explored {
	x := explored{uses: map[*Rule][]use{}}
	seen := map[string]bool{}
	real := fabricNamed(f.Name)
	var todo []machine
	for _, home := range f.Homes {
		todo = append(todo, machine{fabric: real, home: home, careless: c})
		if real == cxlType2 && home == DeviceMemory {
			todo = append(todo, machine{fabric: real, home: home, bias: DeviceBias})
		}
	}
	for len(todo) > 0 {
		m := todo[0]
		todo = todo[1:]
		key := m.key()
		if seen[key] {
			continue
		}
		seen[key] = true
		for who := range model.Agents {
			for req := range requests {
				if !offered(real, who, req) {
					continue
				}
				next := m
				r, err := step(f, &next, who, req)
				if r != nil {
					x.uses[r] = append(x.uses[r], use{who, req, m.state()})
				}
				if err != nil {
					x.differ = append(x.differ, err)
					if first {
						return x
					}
				}
				todo = append(todo, next)
			}
		}
		for c := range m.core {
			if real != mesi { // whose tables keep nothing in the LLC that no core holds
				next := m
				next.evict(c)
				todo = append(todo, next)
			}
		}
	}
	x.states = len(seen)
	return x
}

// TestOracle compares the tables with the oracle, exhaustively.
func TestOracle(t *testing.T) {
	for _, f := range fabrics {
		x := explore(f, false)
		for _, err := range x.differ {
			t.Error(err)
		}
		n := 0
		for _, uses := range x.uses {
			n += len(uses)
		}
		require.Positive(t, n)
		for i := range f.Rules {
			if r := &f.Rules[i]; x.uses[r] == nil {
				t.Errorf("%s: no request in a state that can be reached uses %+v", f.Name, *r)
			}
		}
		t.Logf("%s: %d states of the machine, %d requests, %d of %d rules used", f.Name, x.states, n, len(x.uses), len(f.Rules))
	}
}

// A pool without coherence loses stores of programs that do not flush, and shows old data to those that do
// not drop their copy. So the oracle sees both.
func TestCarelessProgramsReadOldData(t *testing.T) {
	for _, c := range []careless{{flush: true}, {drop: true}} {
		found := slices.ContainsFunc(exploreFrom(poolPlain, false, c).differ, func(err error) bool {
			return strings.Contains(err.Error(), "the oracle reads version 0, and the newest is 1")
		})
		require.True(t, found, "%+v", c)
	}
}
