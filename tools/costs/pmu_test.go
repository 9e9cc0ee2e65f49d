package costs

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/cxl_pmu.txt
var pmuEvents string

// events returns the names of the events that Linux can count on CXL links.
func events() map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(pmuEvents) {
		words := strings.Fields(line)
		for _, name := range words[1:] {
			if words[0] != "#" {
				all[words[0]+"_"+name] = true
			}
		}
	}
	return all
}

// The rules name messages as Linux does, so that a model's counts and perf stat of a device are the same
// columns. Each request has an answer, each snoop a response, each channel its direction.
func TestMessageNames(t *testing.T) {
	known := events()
	require.Len(t, known, 86)
	requests := 0
	for _, f := range fabrics {
		for _, r := range f.Rules {
			has := func(prefix string) (n int) {
				for _, m := range r.Msgs {
					if strings.HasPrefix(m, prefix) {
						n++
					}
				}
				return n
			}
			for _, m := range r.Msgs {
				if f == pcie {
					require.Contains(t, []string{"tlp_mrd", "tlp_mwr", "tlp_cpld"}, m)
				} else {
					require.True(t, known[m], "%s: Linux has no event %q: %+v", f.Name, m, r)
				}
			}
			if f == pcie {
				require.Equal(t, has("tlp_mrd"), has("tlp_cpld"), "%s: %+v", f.Name, r)
				continue
			}
			requests += has("d2h_req") + has("m2s_r") + has("h2d_req")
			ownMemory := slices.Contains(r.Msgs, "m2s_req_memrdfwd") || slices.Contains(r.Msgs, "m2s_req_memwrfwd")
			if n := has("d2h_req"); n > 0 && !ownMemory && !slices.Contains(r.Msgs, "d2h_req_rdcurr") {
				require.GreaterOrEqual(t, has("h2d_rsp"), n, "a D2H request needs a response: %s: %+v", f.Name, r)
			}
			require.Equal(t, has("h2d_req"), has("d2h_rsp"), "a snoop needs a response: %s: %+v", f.Name, r)
			require.Equal(t, has("s2m_bisnp"), has("m2s_birsp"), "a back-invalidation needs a response: %s: %+v", f.Name, r)
			require.Equal(t, has("m2s_req_memrd")-has("m2s_req_memrdfwd"), has("s2m_drs"), "MemRd needs data: %s: %+v", f.Name, r)
			require.GreaterOrEqual(t, has("s2m_ndr")+has("s2m_drs"), has("m2s_rwd")+has("m2s_req_mem")-has("m2s_req_memrdfwd")-has("m2s_req_memwrfwd"),
				"a request on CXL.mem needs a completion or data: %s: %+v", f.Name, r)
		}
	}
	require.Greater(t, requests, 100)
}
