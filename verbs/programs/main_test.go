package programs

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
	"github.com/nicless/nicless/internal/races"
	"github.com/nicless/nicless/internal/shimtest"
)

var (
	whole      = flag.Bool("programs", false, "run the whole list of programs, not the short one")
	ranks      = flag.Int("ranks", 8, "how many ranks of MPI TestRanksOnEngines starts, each on an engine of its own")
	speed      = flag.Bool("speed", false, "measure, on a machine that does nothing else")
	sanitizing = flag.Bool("sanitized", false, "let the sanitizer look at the programs of each engine, and fail if it finds a mistake")
	nicless    = flag.String("nicless", "", "directory of the command and the library, in place of building them")
)

// repository is the root of the module.
const repository = "../.."

// scratch is the directory for everything that the tests build. binary is the path of the
// command nicless in it. The library that programs preload is beside the command, where the
// command looks for it.
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
	if err := os.Chmod(scratch, 0o755); err != nil { // so that programs of another user can use it
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if lacking = compiles(); lacking == nil && *nicless != "" {
		binary = filepath.Join(*nicless, "nicless")
	} else if lacking == nil { // if something is lacking, no test can run and nothing is built
		if err := build(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	defer races.Summary("verbs/programs")
	return m.Run()
}

// lacking says why no C program can be compiled here. It is nil if C programs can be compiled.
var lacking error

// compiles returns nil if there are make and a C compiler with the headers of the C library.
func compiles() error {
	if _, err := exec.LookPath("make"); err != nil {
		return fmt.Errorf("needs make (Debian and Ubuntu: apt install make): %w", err)
	}
	argv := append(compiler(), "-fsyntax-only", "-x", "c", "-")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader("#include <pthread.h>\n#include <linux/userfaultfd.h>\n")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("needs a C compiler and the headers of the C library (Debian and Ubuntu: apt install gcc libc6-dev): %w %s", err, said)
	}
	return nil
}

func compiler() []string {
	if cc := strings.Fields(os.Getenv("CC")); len(cc) > 0 {
		return cc
	}
	return []string{"cc"}
}

// build makes the command and the library, both at the same time.
func build() error {
	binary = filepath.Join(scratch, "nicless")
	errs := make([]error, 2)
	var all sync.WaitGroup
	all.Go(func() { errs[0] = shimtest.Build(repository, filepath.Join(scratch, "libnicless_verbs.so")) })
	all.Go(func() {
		out, err := exec.Command("go", "build", "-o", binary, repository+"/cmd/nicless").CombinedOutput()
		if err != nil {
			errs[1] = fmt.Errorf("go build cmd/nicless: %w\n%s", err, out)
		}
	})
	all.Wait()
	return errors.Join(errs...)
}

// need skips the test if one of the programs is not installed, or if something is missing that
// all programs need. In CI the test fails instead.
func need(t *testing.T, programs ...string) {
	t.Helper()
	if lacking != nil {
		proctest.Missing(t, "%v", lacking)
	}
	if found, _ := filepath.Glob("/usr/lib/*-linux-gnu/libibverbs/libmlx5-rdmav*.so"); found == nil {
		proctest.Missing(t, "libmlx5 is not installed (Debian: apt install ibverbs-providers)")
	}
	proctest.Need(t, programs...)
}

// long skips the test unless the flag -programs is given.
func long(t *testing.T) {
	t.Helper()
	if !*whole {
		t.Skip("the whole list runs with -programs")
	}
}

// builds has a lock for each program that tests build, by its name in scratch, and built those that are
// there.
var (
	builds sync.Map
	built  sync.Map
)

// builtOnce returns the path of a program that build makes there, which is called once.
func builtOnce(name string, build func(path string)) string {
	path := filepath.Join(scratch, name)
	of, _ := builds.LoadOrStore(name, new(sync.Mutex))
	lock := of.(*sync.Mutex)
	lock.Lock()
	defer lock.Unlock()
	if _, ok := built.Load(name); !ok {
		build(path)
		built.Store(name, true)
	}
	return path
}

// checks has the sources of each program of verbs/check, by its name.
var checks = map[string][]string{
	"validate": {"validate.c", "transfer.c", "atomic.c", "window.c", "errors.c", "end.c", "talk.c", "memory.c", "check.c"},
	"endure":   {"endure.c", "talk.c", "check.c"},
	"planted":  {"endure_planted.c", "talk.c", "check.c"},
	"across":   {"across.c", "transfer.c", "atomic.c", "window.c", "errors.c", "end.c", "talk.c", "memory.c", "check.c"},
	"moved":    {"moved.c", "moved_fork.c", "moved_heap.c", "moved_map.c", "moved_limit.c", "device.c", "check.c"},
	"rawpost":  {"rawpost.c", "check.c"},
	"late":     {"lateposts.c", "check.c"},
	"compress": {"compress.c", "check.c"},
	"clock":    {"clock.c", "check.c"},
	"wake":     {"wake.c", "check.c"},
	"huge":     {"huge.c", "check.c"},
	"packed":   {"packed.c", "check.c"},
	"mkey":     {"mkey.c", "buffer.c", "check.c"},
	"inline":   {"inline.c", "check.c"},
	"dc":       {"dc.c", "check.c"},
	"misuse":   {"misuse.c", "check.c"},
	"dm":       {"dm.c", "check.c"},
	"devx":     {"devx.c", "buffer.c", "check.c"},
	"queues":   {"devx_queues.c", "mailbox.c", "check.c"},
	"mailbox":  {"devx_misuse.c", "mailbox.c", "check.c"},
	"hostile":  {"devx_hostile.c", "mailbox.c", "check.c"},
	"gpu":      {"gpu.c", "mailbox.c", "check.c"},
	"hostmem":  {"hostmem.c", "mailbox.c", "check.c"},
	"doca":     {"doca.c", "library.c", "mailbox.c", "check.c"},
	"ibgda":    {"ibgda.c", "library.c", "mailbox.c", "check.c"},
	"ibdevx":   {"ibdevx.c", "library.c", "mailbox.c", "check.c"},
	"rocshmem": {"rocshmem.c", "library.c", "mailbox.c", "check.c"},
	"rdmaxcel": {"rdmaxcel.c", "buffer.c", "check.c"},
	"dmabuf":   {"dmabuf.c", "buffer.c", "device.c", "check.c"},
	"xrc":      {"xrc.c", "check.c"},
	"life":     {"life.c", "check.c"},
	"fatal":    {"fatal.c", "check.c"},
	"pace":     {"pace.c", "check.c"},
	"trust":    {"trust.c", "check.c"},
	"datagram": {"datagram.c", "check.c"},
	"cm":       {"cm.c", "cm_raw.c", "cm_steps.c", "check.c"},
	"removal":  {"removal.c", "removal_raw.c", "cm_steps.c", "check.c"},
	"ucp":      {"ucp.c", "check.c"},
	"mistake":  {"mistake.c", "check.c"},
	"recorded": {"recorded.c", "check.c"},
	"netlink":  {"netlink.c", "check.c"},
}

// libraries has the libraries of the programs that need others than libmlx5 and libibverbs,
// headers a header that belongs to them, and the package that has it.
var (
	libraries = map[string][]string{"ucp": {"-lucp", "-lucs"}, "cm": {"-lrdmacm"}, "removal": {"-lrdmacm"}}
	headers   = map[string][2]string{"ucp": {"/usr/include/ucp/api/ucp.h", "libucx-dev"}, "cm": librdmacm, "removal": librdmacm}
	librdmacm = [2]string{"/usr/include/rdma/rdma_cma.h", "librdmacm-dev"}
)

// check compiles a program of verbs/check and returns its path.
func check(t *testing.T, name string) string {
	t.Helper()
	need(t)
	if _, err := os.Stat("/usr/include/infiniband/mlx5dv.h"); err != nil {
		proctest.Missing(t, "the headers of libmlx5 are not installed (Debian: apt install libibverbs-dev): %v", err)
	}
	if h, ok := headers[name]; ok {
		if _, err := os.Stat(h[0]); err != nil {
			proctest.Missing(t, "%v (Debian: apt install %s)", err, h[1])
		}
	}
	return builtOnce(name, func(path string) {
		args := append(compiler()[1:], "-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-g",
			"-I", filepath.Join(repository, "include"), "-o", path)
		for _, source := range checks[name] {
			args = append(args, filepath.Join("..", "check", source))
		}
		args = append(args, libraries[name]...)
		args = append(args, "-lmlx5", "-libverbs", "-pthread", "-ldl")
		said, err := exec.Command(compiler()[0], args...).CombinedOutput()
		require.NoError(t, err, "%s %s:\n%s", compiler()[0], args, said)
	})
}
