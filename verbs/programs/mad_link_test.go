package programs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// infiniBandLinks join engines whose devices have InfiniBand ports.
var infiniBandLinks = []linkedPlace{
	{name: "pool", link: "pool", gid: "0", flags: []string{"--link-layer", "infiniband", "--verbs-devices", "2"}},
	{name: "ucx", link: "ucx", apart: true, gid: "0", flags: []string{"--link-layer", "infiniband", "--verbs-devices", "2"}},
}

// lids returns the LIDs of an engine's devices.
func (l *lab) lids() (list []string) {
	l.t.Helper()
	for _, m := range regexp.MustCompile(`Base lid: (\d+)`).FindAllStringSubmatch(l.run("ibstat"), -1) {
		list = append(list, m[1])
	}
	require.Len(l.t, list, 2)
	return list
}

// infiniband-diags finds the ports of the other engine in the subnet, and pings programs there.
func TestManagementDatagramsOverLinks(t *testing.T) {
	t.Parallel()
	need(t, "ibstat", "perfquery", "smpquery", "iblinkinfo", "ibnetdiscover", "ibhosts", "saquery", "ibping",
		"ibtracert", "ibqueryerrors", "ibv_rc_pingpong", "ibv_ud_pingpong")
	for _, p := range infiniBandLinks {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			near := newLinked(t, p)
			far := near.far
			here, there := near.lids(), far.lids()
			require.NotEqual(t, here[0], there[0])
			near.engine.awaits("the ports of the other engine are in the subnet", func() bool {
				return strings.Count(near.run("ibhosts"), "Ca") == 4
			})
			for _, row := range []struct {
				argv []string
				says []string
			}{
				{[]string{"ibnetdiscover"}, []string{`Switch\s+4 "S-6e69636c65737301"`, `device 0" lid ` + there[0] + ` 4xEDR`, `nicless1" lid ` + here[1] + ` 4xEDR`}},
				{[]string{"iblinkinfo"}, []string{`==\( 4X +25.78125 Gbps Active/ +LinkUp\)==> +` + there[1] + ` +1\[ +\] ".* device 1"`}},
				{[]string{"smpquery", "nodeinfo", there[1]}, []string{`NodeType:\.+Channel Adapter`}},
				{[]string{"smpquery", "portinfo", there[0], "1"}, []string{`Lid:\.+` + there[0], `LinkState:\.+Active`}},
				{[]string{"perfquery", "-x", there[1], "1"}, []string{"Port extended counters: Lid " + there[1]}},
				{[]string{"saquery"}, []string{`NodeDescription\.+.* device 1`}},
				{[]string{"saquery", "-p"}, []string{`dlid\.+` + there[1], `slid\.+` + here[0]}},
				{[]string{"ibtracert", here[0], there[1]}, []string{`-> ca port .*lid ` + there[1]}},
				{[]string{"ibqueryerrors"}, []string{`5 nodes checked, 0 bad nodes found`}},
			} {
				said := near.run(row.argv...)
				for _, want := range row.says {
					require.Regexp(t, want, said, "%v", row.argv)
				}
			}
			for server, client := range map[*lab]*lab{far: near, near: far} {
				to := there[1]
				if server == near {
					to = here[1]
				}
				ponger := server.start("ibping", "-S", "-C", "nicless1", "-P", "1")
				ponger.awaits("it answers", func() bool { // it prints nothing when it is ready
					p := client.start("ibping", "-c", "1", "-t", "100", to)
					_ = p.wait()
					return strings.Contains(p.said.String(), "1 received")
				})
				require.Regexp(t, `Pong from .* \(Lid `+to+`\)`, client.run("ibping", "-t", "20000", "-c", "1", to))
				require.Contains(t, client.run("ibping", "-t", "20000", "-f", "-c", "1000", to), "1000 received, 0% packet loss")
			}
			for _, line := range []string{"ibv_rc_pingpong -c", "ibv_uc_pingpong -c -n 100", "ibv_ud_pingpong -c -n 100 -s 1024"} {
				perftest := row{server: line + " -d nicless0 -p PORT", client: line + " -d nicless0 -p PORT ADDR", ready: listensTCP, says: []string{"iters in"}}
				if p.apart {
					perftest.addr = nearAddress
				}
				t.Run(line, func(t *testing.T) { perftest.run(near.with(t)) })
			}
		})
	}
}
