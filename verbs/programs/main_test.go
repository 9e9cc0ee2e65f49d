package programs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	whole   = flag.Bool("programs", false, "run the whole list of programs, not the short one")
	speed   = flag.Bool("speed", false, "measure, on a machine that does nothing else")
	nicless = flag.String("nicless", "", "directory of the command and the library, in place of building them")
)

// repository is where the module begins, seen from here.
const repository = "../.."

// scratch holds what is built here; binary is the command nicless, in it. The
// library that programs preload lies beside it, where the command looks for it.
var scratch, binary string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	flag.Parse()
	var err error
	if scratch, err = os.MkdirTemp("", "nicless-programs"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := os.Chmod(scratch, 0o755); err != nil { // for programs of another user
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if *nicless != "" {
		binary = filepath.Join(*nicless, "nicless")
	} else if _, err := exec.LookPath(compiler()[0]); err == nil {
		if err := build(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

func compiler() []string {
	if cc := strings.Fields(os.Getenv("CC")); len(cc) > 0 {
		return cc
	}
	return []string{"cc"}
}

// build makes the command and the library.
func build() error {
	binary = filepath.Join(scratch, "nicless")
	for _, argv := range [][]string{
		{"go", "build", "-o", binary, "./cmd/nicless"},
		{"make", "-s", "-C", "verbs/shim", "OUT=" + filepath.Join(scratch, "libnicless_verbs.so")},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = repository
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
		}
	}
	return nil
}

// need skips the test if a program is not installed; in CI that is a failure.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range append(programs, compiler()[0]) {
		if _, err := exec.LookPath(name); err != nil {
			missing(t, "%v", err)
		}
	}
}

func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("CI needs it: "+format, args...)
	}
	t.Skipf(format, args...)
}

// long skips what a plain go test leaves out.
func long(t *testing.T) {
	t.Helper()
	if !*whole {
		t.Skip("the whole list runs with -programs")
	}
}

// built holds the programs of verbs/check that were compiled.
var built = map[string]string{}

// checks are the programs of verbs/check and what they are made of.
var checks = map[string][]string{
	"validate": {"validate.c", "transfer.c", "atomic.c", "window.c", "errors.c", "end.c", "memory.c", "check.c"},
	"rawpost":  {"rawpost.c", "check.c"},
	"misuse":   {"misuse.c", "check.c"},
	"life":     {"life.c", "check.c"},
	"pace":     {"pace.c", "check.c"},
	"trust":    {"trust.c", "check.c"},
}

// check compiles a program of verbs/check and returns its path.
func check(t *testing.T, name string) string {
	t.Helper()
	need(t)
	if _, err := os.Stat("/usr/include/infiniband/mlx5dv.h"); err != nil {
		missing(t, "libibverbs-dev: %v", err)
	}
	if built[name] != "" {
		return built[name]
	}
	out := filepath.Join(scratch, name)
	args := append(compiler()[1:], "-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-g",
		"-I", filepath.Join(repository, "include"), "-o", out)
	for _, source := range checks[name] {
		args = append(args, filepath.Join("..", "check", source))
	}
	args = append(args, "-lmlx5", "-libverbs", "-pthread", "-ldl")
	said, err := exec.Command(compiler()[0], args...).CombinedOutput()
	require.NoError(t, err, "%s %s:\n%s", compiler()[0], args, said)
	built[name] = out
	return out
}
