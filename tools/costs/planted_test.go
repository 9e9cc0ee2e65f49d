package costs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plant returns a copy of a fabric with changed rules. It fails if change says of no rule that it changed it.
func plant(t *testing.T, f *Fabric, change func(*Rule) bool) *Fabric {
	t.Helper()
	c := *f
	c.Rules = slices.Clone(f.Rules)
	n := 0
	for i := range c.Rules {
		if change(&c.Rules[i]) {
			n++
		}
	}
	require.Positive(t, n, "no rule was changed")
	return &c
}

// TestPlantedRules breaks rules in ways in which the author of a table could break them. The oracle finds
// each.
func TestPlantedRules(t *testing.T) {
	for _, c := range []struct {
		name   string
		fabric *Fabric
		change func(r *Rule) bool
		want   string
	}{
		{"NC-write leaves the host's copy", cxlCache, func(r *Rule) bool {
			found := r.Req == NCWrite
			if found {
				r.NextHost, r.NextCores = 0, same
			}
			return found
		}, "NC-write by dev in host memory, host bias, host E in cores 01, device I: next state"},
		{"CS-read leaves M in the host", cxlCache, func(r *Rule) bool {
			found := r.Req == CSRead && r.Host == isM
			if found {
				r.NextHost = 0
			}
			return found
		}, "CS-read by dev in host memory, host bias, host M in cores 01, device I: next state"},
		{"CO-read of a modified line arrives clean", cxlCache, func(r *Rule) bool {
			found := r.Req == CORead && r.NextDev == isM
			if found {
				r.NextDev = isE
			}
			return found
		}, "CO-read by dev in host memory, host bias, host M in cores 01, device I: next state"},
		{"a store does not take away the device's copy", cxlCache, func(r *Rule) bool {
			found := r.Req == CoreStore && r.Dev == isS
			if found {
				r.NextDev = 0
			}
			return found
		}, "store by host in host memory, host bias, host I in cores 00, device S: next state"},
		{"a store does not ask the device", cxlType2, func(r *Rule) bool {
			found := r.Req == CoreStore && r.Home == HostMemory && r.Dev == isE
			if found {
				r.Msgs, r.Path = nil, prices("agent", "dram")
			}
			return found
		}, "store by host in host memory, host bias, host I in cores 00, device E: messages: rule [], oracle [d2h_rsp_rspihitse h2d_req_snpinv]"},
		{"the device reads its memory behind a modified copy", cxlType2, func(r *Rule) bool {
			found := r.Req == NCRead && r.Home == DeviceMemory && r.Host == isM
			if found {
				r.Msgs = msgs("d2h_req_rdcurr", "m2s_req_memrdfwd")
			}
			return found
		}, "oracle [d2h_req_rdcurr m2s_req_memrdfwd m2s_rwd_memwr s2m_ndr_cmp]"},
		{"the host caches a line in device bias", cxlType2, func(r *Rule) bool {
			found := r.Req == CoreLoad && r.Bias == DeviceBias
			if found {
				r.NextHost, r.NextCores = isS, only
			}
			return found
		}, "load by host in dev memory, device bias, host I in cores 00, device I: next state"},
		{"data of another core come from memory", cxlCache, func(r *Rule) bool {
			found := r.Req == NCRead && r.At == theirs
			if found {
				r.Path = fromDRAM
			}
			return found
		}, "waits for: rule [device home agent or LLC host memory link], oracle [another core device home agent or LLC link]"},
		{"DMA goes around the caches", pcie, func(r *Rule) bool {
			found := r.Req == DMAWrite && r.Home == HostMemory
			if found {
				r.NextHost, r.NextCores = 0, same
			}
			return found
		}, "DMA-write by dev in host memory, host bias, host I in cores 00, device I: next state"},
		{"DMA writes are not in order", pcie, func(r *Rule) bool {
			found := r.Req == DMAWrite
			if found {
				r.Order = Awaited
			}
			return found
		}, "order: rule 1, oracle 2"},
		{"a pool's line stays in the cache", poolPlain, func(r *Rule) bool {
			found := r.Req == CoreLoad
			if found {
				r.NextDev = isS
			}
			return found
		}, "next state"},
		{"another host's modified line is not written back", poolCoherent, func(r *Rule) bool {
			found := r.Req == CoreLoad && r.Dev == isM && r.Host == isI
			if found {
				r.Msgs = slices.Concat(poolShare, snoopData)
			}
			return found
		}, "load by host in pool memory, host bias, host I in cores 00, device M: messages"},
		{"a core's modified line comes from memory", mesi, func(r *Rule) bool {
			found := r.Req == CoreLoad && r.Dev == isEM && r.Host == isI
			if found {
				r.Path = prices("dram_load")
			}
			return found
		}, "waits for: rule [host memory], oracle [another core]"},
		{"a state has no rule", poolPlain, func(r *Rule) bool {
			found := r.Req == CoreStoreNT
			if found {
				r.Who = device
			}
			return found
		}, "fabric pool has no rule for a store-nt by host"},
	} {
		x := explore(plant(t, c.fabric, c.change), false)
		found := slices.ContainsFunc(x.differ, func(err error) bool { return strings.Contains(err.Error(), c.want) })
		require.True(t, found, "%s: the oracle found %v", c.name, x.differ)
	}
}

// mutants calls yield with copies of a rule, each with one change.
func mutants(r Rule) func(yield func(what string, changed Rule) bool) {
	return func(yield func(string, Rule) bool) {
		try := func(what string, change func(*Rule)) bool {
			c := r
			change(&c)
			return yield(what, c)
		}
		without := func(list []string, i int) []string { return slices.Delete(slices.Clone(list), i, i+1) }
		for _, m := range []mesiSet{0, isI, isS, isE, isM} {
			if !try(fmt.Sprintf("next host %04b", m), func(c *Rule) { c.NextHost = m }) ||
				!try(fmt.Sprintf("next device %04b", m), func(c *Rule) { c.NextDev = m }) {
				return
			}
		}
		for m := same; m <= join; m++ {
			if !try(fmt.Sprintf("next cores %d", m), func(c *Rule) { c.NextCores = m }) {
				return
			}
		}
		for o := Buffered; o <= Posted; o++ {
			if !try(fmt.Sprintf("order %d", o), func(c *Rule) { c.Order = o }) {
				return
			}
		}
		for i := range r.Msgs {
			if !try("without "+r.Msgs[i], func(c *Rule) { c.Msgs = without(r.Msgs, i) }) ||
				!try("twice "+r.Msgs[i], func(c *Rule) { c.Msgs = append(slices.Clone(r.Msgs), r.Msgs[i]) }) {
				return
			}
		}
		for i := range r.Path {
			if !try("not waiting for "+r.Path[i], func(c *Rule) { c.Path = without(r.Path, i) }) {
				return
			}
		}
		for i := range r.Shown {
			if !try("not waiting for "+r.Shown[i], func(c *Rule) { c.Shown = without(r.Shown, i) }) {
				return
			}
		}
		if !try("path and shown exchanged", func(c *Rule) { c.Path, c.Shown = r.Shown, r.Path }) {
			return
		}
		_ = try("wrong place", func(c *Rule) { c.At ^= llc })
	}
}

// sees reports whether a request could see a change of a rule.
func sees(old, changed *Rule, uses []use) bool {
	return slices.ContainsFunc(uses, func(u use) bool {
		return !changed.applies(u.who, u.req, u.before) || changed.next(u.who, u.before) != old.next(u.who, u.before) ||
			!slices.Equal(old.Msgs, changed.Msgs) || !slices.Equal(old.Path, changed.Path) ||
			!slices.Equal(old.Shown, changed.Shown) || old.Order != changed.Order
	})
}

// TestEveryRuleMatters makes one change to one rule at a time, for all rules that requests reach. The oracle
// finds each, unless it changes nothing that a request could see.
func TestEveryRuleMatters(t *testing.T) {
	for _, f := range fabrics {
		x := explore(f, false)
		found, blind := 0, 0
		for i := range f.Rules {
			for what, changed := range mutants(f.Rules[i]) {
				if !sees(&f.Rules[i], &changed, x.uses[&f.Rules[i]]) {
					blind++
					continue
				}
				c := *f
				c.Rules = slices.Clone(f.Rules)
				c.Rules[i] = changed
				if len(explore(&c, true).differ) == 0 {
					t.Errorf("%s: %s in %+v: not found", f.Name, what, f.Rules[i])
				}
				found++
			}
		}
		require.Positive(t, found)
		t.Logf("%s: %d changes found, %d change nothing", f.Name, found, blind)
	}
}
