package programs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	vm "github.com/nicless/nicless/internal/lab"
	"github.com/nicless/nicless/internal/proctest"
)

// newestPackages are the newest rdma-core of Debian with its tests, the Python for which they are built, of
// which PYTHON stands for the version, and the libraries that both need.
var newestPackages = []string{
	"python3-pyverbs", "libibverbs1", "ibverbs-providers", "librdmacm1t64", "libnl-3-200", "libnl-route-3-200",
	"pythonPYTHON", "libpythonPYTHON", "pythonPYTHON-minimal", "libpythonPYTHON-minimal", "libpythonPYTHON-stdlib",
	"python3-scapy", "libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libffi8", "libexpat1",
}

// A newestPyverbs is a root with the newest rdma-core.
type newestPyverbs struct {
	dir     string
	version string // of rdma-core
	python  string // 3.14
}

var newestRdmaCore = sync.OnceValues(func() (n newestPyverbs, err error) {
	apt, err := vm.Suite("testing")
	if err != nil {
		return n, err
	}
	about, err := apt.Show("python3-pyverbs")
	if err != nil {
		return n, err
	}
	n.version = regexp.MustCompile(`(?m)^Version: (\d+)`).FindStringSubmatch(about)[1]
	n.python = regexp.MustCompile(`libpython(3\.\d+)`).FindStringSubmatch(about)[1]
	n.dir, err = apt.Root("rdma-core", strings.Fields(strings.ReplaceAll(strings.Join(newestPackages, " "), "PYTHON", n.python))...)
	return n, err
})

// newestErrors are the tests of rdma-core 65 that end with an error, and why. docs/reference/verbs-tested.md
// has the same table.
var newestErrors = map[string]string{
	"Mlx5DevxApiTest.test_devx_obj_export_import": "it makes a flow counter (ALLOC_FLOW_COUNTER), and there are no flows to count",
	"Mlx5MatcherTest.test_flow_table_drop":        "it makes a flow table (CREATE_FLOW_TABLE), and there are no flows",
}

const (
	newestKnown = "65" // the version of rdma-core that newestErrors are of
	newestGood  = 340  // tests that at least pass or are skipped, of this version and of those that come
	newestPass  = 225  // of these, tests that pass
)

// The newest rdma-core runs with its own tests, in the version that Debian is testing now: at least
// newestGood of its tests pass or are skipped. Of the version that was looked at, only the tests of
// newestErrors end otherwise.
func TestNewestPyverbs(t *testing.T) {
	t.Parallel()
	long(t)
	need(t, "apt-get", "dpkg-deb", "rdma", "ip")
	n, err := newestRdmaCore()
	if err != nil {
		proctest.Missing(t, "packages of rdma-core of Debian's suite testing: %v", err)
	}
	tests := unpackPyverbs(t, filepath.Join(n.dir, "usr/share/doc/rdma-core/tests"))
	l := newLab(t, "--explain")
	python := debianRoot{dir: n.dir}.python(n.python)
	p := l.start(append(python, "testdata/suite.py", tests, pyverbsSeconds, "--dev", "nicless0")...)
	require.NoError(t, p.wait(), "%s", p.said.String())
	n.judge(t, pyverbsOutcomes(t, p.said.String()))
	if t.Failed() {
		t.Logf("all that the tests and the device said:\n%s", p.said.String())
	}
	l.works()
}

// python returns the command line by which the root's Python runs.
func (r debianRoot) python(version string) []string {
	libraries := r.only("usr/lib/*-linux-gnu")
	return []string{"env", "PYTHONHOME=" + r.path("/usr"), "PYTHONPATH=" + r.path("/usr/lib/python3/dist-packages"),
		r.only("usr/lib/*-linux-gnu/ld-linux-*.so.?"), "--inhibit-cache", "--library-path",
		libraries + ":" + filepath.Join(libraries, "libibverbs"), r.path("/usr/bin/python" + version)}
}

func (n newestPyverbs) judge(t *testing.T, all map[string]pyverbsOutcome) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(repository, "docs/reference/verbs-tested.md"))
	require.NoError(t, err)
	for name, why := range newestErrors {
		require.Contains(t, string(doc), "| "+name+" | "+why+" |")
	}
	count := map[string]int{}
	for name, o := range all {
		count[o.Outcome]++
		short := strings.TrimPrefix(name, strings.Join(strings.SplitAfter(name, ".")[:2], ""))
		wrong := o.Outcome != "passed" && o.Outcome != "skipped"
		if n.version == newestKnown && wrong && newestErrors[short] == "" {
			t.Errorf("%s: %s\n%s", o.Test, o.Outcome, o.Why)
		}
	}
	t.Logf("rdma-core %s: %d tests: %v", n.version, len(all), count)
	require.GreaterOrEqual(t, count["passed"], newestPass)
	require.GreaterOrEqual(t, count["passed"]+count["skipped"], newestGood)
}
