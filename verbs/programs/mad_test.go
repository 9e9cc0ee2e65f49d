package programs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// infiniband-diags finds a subnet of one switch with the ports of the engine.
func TestManagementDatagrams(t *testing.T) {
	t.Parallel()
	need(t, "ibstat", "ibaddr", "sminfo", "perfquery", "smpquery", "iblinkinfo", "ibnetdiscover", "ibhosts",
		"ibswitches", "saquery", "ibping", "ibtracert", "ibqueryerrors", "ibroute")
	l := &lab{t: t, engineFlags: []string{"--verbs-devices", "2", "--link-layer", "infiniband"}}
	l.open()
	lids := regexp.MustCompile(`Base lid: (\d+)`).FindAllStringSubmatch(l.run("ibstat"), -1)
	require.Len(t, lids, 2)
	a, b := lids[0][1], lids[1][1]
	for _, row := range []struct {
		argv []string
		says []string
	}{
		{[]string{"ibaddr"}, []string{"GID fe80::", "LID start 0x"}},
		{[]string{"sminfo"}, []string{"sminfo: sm lid 1 ", "priority 15 state 3 SMINFO_MASTER"}},
		{[]string{"perfquery"}, []string{"Port counters: Lid " + a + " port 1", "PortXmitData:"}},
		{[]string{"perfquery", "-x", b, "1"}, []string{"Port extended counters: Lid " + b, "PortUnicastRcvPkts:"}},
		{[]string{"perfquery", "-a", "1"}, []string{"Port counters: Lid 1 port 255"}},
		{[]string{"smpquery", "nodeinfo", b}, []string{`NodeType:\.+Channel Adapter`, `DevId:\.+0x1019`}},
		{[]string{"smpquery", "nodedesc", b}, []string{`Node Description:\.+.* nicless1`}},
		{[]string{"smpquery", "portinfo", b, "1"}, []string{`Lid:\.+` + b, `LinkState:\.+Active`, `PhysLinkState:\.+LinkUp`, `LinkSpeedExtActive:\.+25.78125`}},
		{[]string{"smpquery", "pkeys", b}, []string{`0: 0xffff 0x0000`, `32 pkeys capacity`}},
		{[]string{"smpquery", "guidinfo", b}, []string{`GID|0: 0x`}},
		{[]string{"smpquery", "switchinfo", "1"}, []string{`LinearFdbTop:\.+` + b, `EnhancedPort0:\.+1`}},
		{[]string{"smpquery", "-D", "nodeinfo", "0,1"}, []string{`NodeType:\.+Switch`, `LocalPort:\.+1`}},
		{[]string{"smpquery", "-D", "nodedesc", "0,1,2"}, []string{`nicless1`}},
		{[]string{"iblinkinfo"}, []string{`1 +1\[ +\] ==\( 4X +25.78125 Gbps Active/ +LinkUp\)==> +` + a + ` +1\[ +\] ".* nicless0"`, `==> +` + b + ` +1\[ +\] ".* nicless1"`}},
		{[]string{"ibnetdiscover"}, []string{`Switch\s+2 "S-6e69636c65737301"`, `nicless0" lid ` + a + ` 4xEDR`, `nicless1" lid ` + b + ` 4xEDR`}},
		{[]string{"ibhosts"}, []string{`Ca.*nicless0"`, `Ca.*nicless1"`}},
		{[]string{"ibswitches"}, []string{`Switch.*ports 2 "nicless switch"`}},
		{[]string{"saquery"}, []string{`NodeDescription\.+nicless switch`, `NodeDescription\.+.* nicless1`}},
		{[]string{"saquery", "-p"}, []string{`dlid\.+` + b, `slid\.+` + a}},
		{[]string{"saquery", "-c"}, []string{`Class version\.+2`}},
		{[]string{"saquery", "-s"}, []string{`IsSM ports`, `EndPortLid\.+1\s`}},
		{[]string{"ibtracert", a, b}, []string{`\[1\] -> switch port .*\[1\] lid 1-1`, `\[2\] -> ca port .*lid ` + b}},
		{[]string{"ibroute", "1"}, []string{`3 valid lids dumped`}},
		{[]string{"ibqueryerrors"}, []string{`3 nodes checked, 0 bad nodes found`}},
	} {
		said := l.run(row.argv...)
		for _, want := range row.says {
			require.Regexp(t, want, said, "%v", row.argv)
		}
	}
	server := l.start("ibping", "-S", "-C", "nicless1", "-P", "1")
	server.awaits("it answers", func() bool { // it prints nothing when it is ready
		p := l.start("ibping", "-c", "1", "-t", "100", b)
		_ = p.wait()
		return strings.Contains(p.said.String(), "1 received")
	})
	require.Regexp(t, `Pong from .* \(Lid `+b+`\)[\s\S]*1 received, 0% packet loss`, l.run("ibping", "-c", "1", b))
	require.Contains(t, l.start("smpquery", "-t", "100", "nodeinfo", "48000").fails(), "Connection timed out")
}
