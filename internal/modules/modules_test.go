package modules

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const root, module = "../..", "github.com/nicless/nicless"

// others are the folders of the modules that need the library.
var others = []string{"cmd/nicless", "cuda", "deploy", "examples/otelspans", "tools"}

// Apart is an environment variable. If it is set, something else runs the tests of the other modules.
const apart = "NICLESS_MODULES_APART"

func TestOtherModules(t *testing.T) {
	if os.Getenv(apart) != "" {
		t.Skipf("%s: they run apart", apart)
	}
	if _, err := os.Stat(filepath.Join(root, others[0], "go.mod")); os.IsNotExist(err) {
		t.Skip("the other modules are not here: this is no checkout")
	}
	if os.Getenv("GOWORK") == "off" {
		t.Skip("GOWORK=off: the other modules need the workspace")
	}
	openAll(t)
	var packages []string
	for _, folder := range others {
		packages = append(packages, "./"+folder+"/...")
	}
	testModules(t, "", packages...)
}

// testModules runs go test in a folder, for packages of other modules, with the flags of this test.
func testModules(t *testing.T, folder string, packages ...string) {
	t.Helper()
	// Many of these tests wait for programs, and two packages at a time leave fewer cores idle. The go test
	// that runs this test has other packages for the rest of the cores.
	args := []string{"test", "-p", "2"}
	if testing.Short() {
		args = append(args, "-short")
	}
	if testing.Verbose() {
		args = append(args, "-v")
	}
	for _, arg := range os.Args[1:] {
		// -count=1 means that no result is taken from the cache
		if count, ok := strings.CutPrefix(arg, "-test.count="); ok {
			args = append(args, "-count", count)
		}
	}
	ctx := t.Context()
	if end, ok := t.Deadline(); ok {
		// The commands below end before go test ends this one, so that their output is not lost.
		end = end.Add(-5 * time.Second)
		args = append(args, "-timeout", max(time.Until(end).Truncate(time.Second), time.Second).String())
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	// go ends the tests that it has started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * time.Second
	cmd.Dir = filepath.Join(root, folder)
	out, err := cmd.CombinedOutput()
	t.Logf("%s\n%s", strings.Join(cmd.Args, " "), out)
	require.NoError(t, err)
}

// The module that makes releases is not in the workspace (docs/design/0081).
func TestReleaseModule(t *testing.T) {
	if os.Getenv(apart) != "" {
		t.Skipf("%s: they run apart", apart)
	}
	if _, err := os.Stat(filepath.Join(root, "release/go.mod")); os.IsNotExist(err) {
		t.Skip("the other modules are not here: this is no checkout")
	}
	openAll(t)
	t.Setenv("GOWORK", "off")
	testModules(t, "release", "./...")
}

// openAll opens all files of the tree. go test notes them, and does not take this test's result from its
// cache if one of them has changed.
func openAll(t *testing.T) {
	t.Helper()
	n := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".git") || d.Name() == "bin"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return nil // removed meanwhile: other tests make files
		}
		n++
		return f.Close()
	}))
	require.Greater(t, n, 500)
}

var (
	requires = regexp.MustCompile(`(?m)^(?:require)?\s*(` + module + `\S*) (v\S+)$`)
	replaces = regexp.MustCompile(`(?m)^\s*(` + module + `\S*) (v\S+) => (\S+)$`)
)

// The modules require one version of each other, and only go.work replaces it: go install accepts no module
// with a replacement.
func TestModulesRequireOneVersion(t *testing.T) {
	work := replaces.FindAllStringSubmatch(read(t, "go.work"), -1)
	require.NotEmpty(t, work)
	versions := map[string]string{}
	for _, m := range work {
		versions[m[1]] = m[2]
		require.Equal(t, work[0][2], m[2], "go.work: %s", m[1])
		require.Equal(t, strings.TrimPrefix(m[1], module), strings.TrimPrefix(strings.TrimSuffix(m[3], "/"), "."), "the folder of %s", m[1])
	}
	for _, folder := range others {
		text := read(t, folder+"/go.mod")
		require.NotContains(t, text, "=>", folder)
		list := requires.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, list, folder)
		for _, m := range list {
			require.Equal(t, versions[m[1]], m[2], "%s/go.mod requires %s; go.work replaces another version", folder, m[1])
		}
	}
}

// dependencies are the modules that the library and its tests need. Each is in the module graph of every
// program that imports the library, so a new one has a reason in docs/design.
var dependencies = []string{
	"github.com/edsrzf/mmap-go",
	"github.com/flynn/noise",
	"github.com/goccy/go-yaml",
	"github.com/klauspost/cpuid/v2",
	"github.com/stretchr/testify",
	"github.com/vishvananda/netlink",
	"golang.org/x/crypto",
	"golang.org/x/net",
	"golang.org/x/sys",
	"pgregory.net/rapid",
}

func TestDependencies(t *testing.T) {
	var list []string
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(read(t, "go.mod"), -1) {
		list = append(list, m[1])
	}
	require.Equal(t, dependencies, list)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(text)
}
