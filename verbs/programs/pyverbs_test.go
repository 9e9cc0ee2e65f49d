package programs

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
	"github.com/nicless/nicless/internal/share"
)

// rdma-core's own tests are in the documentation of package python3-pyverbs of Debian 12.
// Where documentation is not installed, the variable NICLESS_PYVERBS_TESTS names another
// directory that has the tests.
const (
	pyverbsTests = "/usr/share/doc/rdma-core/tests"
	pyverbsCount = 273

	// pyverbsSeconds is how long one test may take. The longest, test_odp_xrc_traffic, is 8000
	// times the turn of the other of two threads that spin: 2 seconds on an idle machine with 2
	// cores, 56 if ten other threads want these cores.
	pyverbsSeconds = "300"
	pyverbsPass    = 179
)

// skipped has the reasons for which tests are skipped, in groups. For each group it says how
// many tests are skipped on a machine without GPU and huge pages. docs/reference/verbs-tested.md has the same
// table.
var skipped = []struct {
	tests int
	why   string
	texts string // regular expression for the reasons that the tests print
}{
	{36, "raw packets, flow steering, switch rules", "Create QP type 8|Raw Packet QP|does not support reformat|Could not find the PCI device"},
	{16, "of another vendor's device", "non EFA device"},
	{12, "a GPU: dma-buf, CUDA", "dmabuf is not|cuda-python"},
	{5, "signatures of memory (Mkeys with signatures)", "Create Mkey is not|Mlx5DV QP is not"},
	{2, "atomics on device memory by load and store", "MEMIC atomic operations are not supported"},
	{1, "pacing", "Packet pacing entry allocation is not supported"},
	{9, "keys for encryption, and VFIO: these tests need a machine to themselves", "Crypto login details|PCI device must be passed"},
	{4, "tag matching", "Tag matching is not"},
	{3, "huge pages, of which the host has none reserved", "no huge pages"},
	{6, "single tests:", "schedule elements|LAG affinity|VAR allocation|Extended QP is not"},
}

// None of rdma-core's own tests fails or hangs. At least pyverbsPass of them pass, and the
// others are skipped for reasons that docs/reference/verbs-tested.md lists.
func TestPyverbs(t *testing.T) {
	t.Parallel()
	long(t)
	need(t, "/usr/bin/python3")
	version, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", "python3-pyverbs").Output()
	if err != nil || !strings.HasPrefix(string(version), "44.") {
		proctest.Missing(t, "python3-pyverbs 44, which has these tests: %q is installed", version)
	}
	if out, err := exec.Command("/usr/bin/python3", "-c", "import scapy").CombinedOutput(); err != nil {
		proctest.Missing(t, "python3-scapy, which the tests of DEVX use: %s", out)
	}
	dir := unpackPyverbs(t, hostPyverbs())
	for i, mode := range modes {
		if !share.Has(2 * i) {
			continue
		}
		t.Run(mode.name, func(t *testing.T) {
			l := newLab(t, append([]string{"--explain"}, mode.flags...)...)
			p := l.start("/usr/bin/python3", "testdata/suite.py", dir, pyverbsSeconds, "--dev", "nicless0")
			err := p.wait()
			require.NoError(t, err, "%s", p.said.String())
			judgePyverbs(t, pyverbsOutcomes(t, p.said.String()))
			if t.Failed() {
				t.Logf("all that the tests and the device said:\n%s", p.said.String())
			}
			l.works()
		})
	}
}

type pyverbsOutcome struct{ Test, Outcome, Why string }

// pyverbsOutcomes returns the outcomes of all tests, by name.
func pyverbsOutcomes(t *testing.T, said string) map[string]pyverbsOutcome {
	all := map[string]pyverbsOutcome{}
	for _, line := range lines(said) {
		var o pyverbsOutcome
		if json.Unmarshal([]byte(line), &o) != nil || o.Test == "" {
			continue // output of a program that a test runs
		}
		all[o.Test] = o
	}
	return all
}

// judgePyverbs compares the outcomes with the expected ones. If the variable
// NICLESS_PYVERBS_OUTCOMES names a file, judgePyverbs also writes the outcomes to that file,
// one on each line.
func judgePyverbs(t *testing.T, all map[string]pyverbsOutcome) {
	if out := os.Getenv("NICLESS_PYVERBS_OUTCOMES"); out != "" {
		var b bytes.Buffer
		for _, name := range sorted(all) {
			fmt.Fprintf(&b, "%s\t%s\t%s\n", all[name].Outcome, name, all[name].Why)
		}
		require.NoError(t, os.WriteFile(out, b.Bytes(), 0o600))
	}
	count := map[string]int{}
	why := map[string]int{}
	for _, name := range sorted(all) {
		o := all[name]
		count[o.Outcome]++
		switch o.Outcome {
		case "passed":
		case "skipped":
			why[o.Why]++
		default:
			t.Errorf("%s: %s\n%s", o.Test, o.Outcome, o.Why)
		}
	}
	t.Logf("%d tests: %v", len(all), count)
	doc, err := os.ReadFile(filepath.Join(repository, "docs/reference/verbs-tested.md"))
	require.NoError(t, err)
	for _, group := range skipped {
		n := 0
		for _, reason := range sorted(why) {
			if regexp.MustCompile(group.texts).MatchString(reason) {
				n += why[reason]
				delete(why, reason)
			}
		}
		t.Logf("skipped %3d: %s", n, group.why)
		if n > group.tests {
			t.Errorf("%s: %d tests are skipped, not %d", group.why, n, group.tests)
		}
		require.Contains(t, string(doc), fmt.Sprintf("| %d | %s", group.tests, group.why))
	}
	require.Empty(t, why, "reasons that docs/reference/verbs-tested.md does not have")
	require.Len(t, all, pyverbsCount)
	require.GreaterOrEqual(t, count["passed"], pyverbsPass)
	require.Equal(t, pyverbsCount, count["passed"]+count["skipped"])
}

// Registered memory and queues can be in huge pages. The test reserves some while it runs.
func TestPyverbsHugePages(t *testing.T) {
	long(t)
	need(t, "/usr/bin/python3")
	dir, path, devx := unpackPyverbs(t, hostPyverbs()), check(t, "huge"), check(t, "devx")
	const setting = "/proc/sys/vm/nr_hugepages"
	before, err := os.ReadFile(setting)
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.WriteFile(setting, before, 0o644) })
	have, err := strconv.Atoi(strings.TrimSpace(string(before)))
	require.NoError(t, err)
	if err := os.WriteFile(setting, []byte(strconv.Itoa(have+16)), 0o644); err != nil {
		t.Skipf("three tests of rdma-core need huge pages, and none can be reserved here: %v", err)
	}
	if after, err := os.ReadFile(setting); err != nil || strings.TrimSpace(string(after)) != strconv.Itoa(have+16) {
		t.Skipf("three tests of rdma-core need huge pages; the kernel has reserved %s, not %d", after, have+16)
	}
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			l := newLab(t, mode.flags...)
			said := l.start("/usr/bin/python3", "testdata/suite.py", dir, pyverbsSeconds, "test_odp_rc_huge_traffic",
				"test_odp_rc_huge_user_addr_traffic", "test_huge_page_traffic", "--dev", "nicless0").succeeds()
			all := pyverbsOutcomes(t, said)
			require.Len(t, all, 3)
			for _, o := range all {
				require.Equal(t, "passed", o.Outcome, "%s: %s", o.Test, o.Why)
			}
			require.Contains(t, l.run(path), "huge: queues in huge pages: ok\n")
			l.flags = append(slices.Clone(l.flags), "--devx")
			require.Contains(t, l.run(devx), "devx: umems in huge pages: ok\n")
			l.works()
		})
	}
}

func sorted[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// hostPyverbs returns the directory with the tests of the package that is installed.
func hostPyverbs() string { return cmp.Or(os.Getenv("NICLESS_PYVERBS_TESTS"), pyverbsTests) }

// unpackPyverbs copies the tests to a directory where Python finds them.
func unpackPyverbs(t *testing.T, from string) string {
	t.Helper()
	files, err := os.ReadDir(from)
	if err != nil || !slices.ContainsFunc(files, func(f os.DirEntry) bool { return f.Name() == "base.py.gz" }) {
		proctest.Missing(t, "the tests of python3-pyverbs in %s: %v", from, err)
	}
	to := t.TempDir()
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(from, f.Name()))
		require.NoError(t, err)
		name, zipped := strings.CutSuffix(f.Name(), ".gz")
		if zipped {
			r, err := gzip.NewReader(bytes.NewReader(text))
			require.NoError(t, err)
			text, err = io.ReadAll(r)
			require.NoError(t, err)
		}
		require.NoError(t, os.WriteFile(filepath.Join(to, name), text, 0o600))
	}
	return to
}
