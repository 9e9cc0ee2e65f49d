package programs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	vm "github.com/nicless/nicless/internal/lab"
	"github.com/nicless/nicless/internal/proctest"
	"github.com/stretchr/testify/require"
)

// diags are the programs of infiniband-diags that the tests use. Those of diagScripts run others.
var (
	diags = []string{"ibstat", "ibaddr", "sminfo", "perfquery", "smpquery", "iblinkinfo", "ibnetdiscover", "saquery",
		"ibping", "ibtracert", "ibqueryerrors", "ibroute"}
	diagScripts = []string{"ibhosts", "ibswitches", "ibstatus"}
)

// infiniband-diags finds a subnet of one switch with the ports of the engine.
func TestManagementDatagrams(t *testing.T) {
	t.Parallel()
	need(t, append(diags, diagScripts...)...)
	diagnose(t, func(name string) string { return name })
}

// newestDiags is the newest infiniband-diags of Debian, as the newest rdma-core is run.
var newestDiags = sync.OnceValues(func() (string, error) {
	apt, err := vm.Suite("testing")
	if err != nil {
		return "", err
	}
	return apt.Root("infiniband-diags", "infiniband-diags", "libibmad5", "libibnetdisc5t64", "libibumad3",
		"libibverbs1",
		"ibverbs-providers", "libnl-3-200", "libnl-route-3-200", "libglib2.0-0t64", "libpcre2-8-0", "libatomic1", "libc6")
})

// The newest infiniband-diags finds the same.
func TestNewestDiagnostics(t *testing.T) {
	t.Parallel()
	need(t, "apt-get", "dpkg-deb")
	dir, err := newestDiags()
	if err != nil {
		proctest.Missing(t, "packages of infiniband-diags of Debian's suite testing: %v", err)
	}
	root, wrappers := debianRoot{dir: dir}, t.TempDir()
	for _, name := range diags {
		wrap(t, filepath.Join(wrappers, name), root.program(root.path("/usr/sbin/"+name)))
	}
	for _, name := range diagScripts {
		wrap(t, filepath.Join(wrappers, name), "env IBPATH="+wrappers+" sh "+root.path("/usr/sbin/"+name))
	}
	diagnose(t, func(name string) string { return filepath.Join(wrappers, name) })
}

// wrap writes a script that executes a command line with its own arguments.
func wrap(t *testing.T, path, line string) {
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nexec "+line+` "$@"`+"\n"), 0o755))
}

// diagnose runs the programs of infiniband-diags, each from where path says.
func diagnose(t *testing.T, path func(name string) string) {
	l := &lab{t: t, engineFlags: []string{"--verbs-devices", "2", "--link-layer", "infiniband"}}
	l.open()
	lids := regexp.MustCompile(`Base lid: (\d+)`).FindAllStringSubmatch(l.run(path("ibstat")), -1)
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
		{[]string{"ibstatus"}, []string{`'nicless1' port 1 status:`, `4: ACTIVE`, `link_layer:\s+InfiniBand`}},
		{[]string{"saquery"}, []string{`NodeDescription\.+nicless switch`, `NodeDescription\.+.* nicless1`}},
		{[]string{"saquery", "-p"}, []string{`dlid\.+` + b, `slid\.+` + a}},
		{[]string{"saquery", "-c"}, []string{`Class version\.+2`}},
		{[]string{"saquery", "-s"}, []string{`IsSM ports`, `EndPortLid\.+1\s`}},
		{[]string{"ibtracert", a, b}, []string{`\[1\] -> switch port .*\[1\] lid 1-1`, `\[2\] -> ca port .*lid ` + b}},
		{[]string{"ibroute", "1"}, []string{`3 valid lids dumped`}},
		{[]string{"ibqueryerrors"}, []string{`3 nodes checked, 0 bad nodes found`}},
	} {
		said := l.run(append([]string{path(row.argv[0])}, row.argv[1:]...)...)
		for _, want := range row.says {
			require.Regexp(t, want, said, "%v", row.argv)
		}
	}
	server := l.start(path("ibping"), "-S", "-C", "nicless1", "-P", "1")
	server.awaits("it answers", func() bool { // it prints nothing when it is ready
		p := l.start(path("ibping"), "-c", "1", "-t", "100", b)
		_ = p.wait()
		return strings.Contains(p.said.String(), "1 received")
	})
	require.Regexp(t, `Pong from .* \(Lid `+b+`\)[\s\S]*1 received, 0% packet loss`, l.run(path("ibping"), "-c", "1", b))
	// It names the error only if its own timeout ends before that of the request, which are equally long.
	require.Contains(t, l.start(path("smpquery"), "-t", "100", "nodeinfo", "48000").fails(), "node info query failed")
}
