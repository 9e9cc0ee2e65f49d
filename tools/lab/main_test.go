package lab

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	vm "github.com/nicless/nicless/internal/lab"
	"github.com/nicless/nicless/internal/lab/nodes"
)

var (
	whole = flag.Bool("lab", false, "start virtual machines")
	newer = flag.Bool("newer", false, "also with QEMU 10 and Linux 6.12 from Debian's backports")
)

// repository is the root of the tree.
const repository = "../.."

// scratch is the directory for what the tests build.
var scratch string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	flag.Parse()
	var err error
	if scratch, err = os.MkdirTemp("", "nicless-lab"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	return m.Run()
}

// long skips the test unless the flag -lab is given.
func long(t *testing.T) {
	t.Helper()
	if !*whole {
		t.Skip("virtual machines start with -lab")
	}
}

// need skips the test, with a loud line, if something is not installed. In CI the test fails instead.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			missing(t, "%v (.ci/run has the list of Debian's packages)", err)
		}
	}
}

func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	if os.Getenv("CI") == "true" {
		t.Fatalf("in CI it has to be there: %s", why)
	}
	fmt.Fprintf(os.Stderr, "\nlab: NOT RUN: %s: %s\n\n", t.Name(), why)
	t.Skip(why)
}

// A made is what machines start with.
type made struct {
	kernel  vm.Kernel
	initrd  string
	missing []string
	newer   nodes.Newer
	err     error
}

// stock has Debian's own kernel and QEMU, ahead those of its backports. Both are made once.
var (
	stock = sync.OnceValue(func() (m made) {
		m.kernel, m.err = vm.Fetch(nodes.Kernel)
		if m.err == nil {
			m.make("initramfs")
		}
		return m
	})
	ahead = sync.OnceValue(func() (m made) {
		m.newer, m.err = nodes.FetchNewer()
		if m.err == nil {
			m.kernel = m.newer.Kernel
			m.make("initramfs-newer")
		}
		return m
	})
)

func (m *made) make(name string) {
	var files vm.Files
	files, m.missing, m.err = nodes.Make(repository, m.kernel)
	if m.err != nil {
		return
	}
	m.initrd = filepath.Join(scratch, name)
	m.err = files.WriteFile(m.initrd)
	if m.err != nil {
		return
	}
	forHost.Do(func() {
		for _, name := range []string{"nicless", "poster"} {
			err := os.WriteFile(filepath.Join(scratch, name), files["/usr/bin/"+name].Data, 0o755)
			errForHost = errors.Join(errForHost, err)
		}
	})
	m.err = errForHost
}

// The programs that run on the host are the same for all machines.
var (
	forHost    sync.Once
	errForHost error
)

// files returns what machines start with.
func files(t *testing.T, get func() made) made {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the machines have the processor amd64, and programs of this host")
	}
	need(t, "qemu-system-x86_64", "apt-get", "apt-cache", "dpkg-deb", "xz", "ldd", "make", "cc")
	began := time.Now()
	m := get()
	if m.err != nil {
		missing(t, "the machines' files: %v", m.err)
	}
	if d := time.Since(began); d > time.Second {
		t.Logf("the files are made after %v", d.Round(time.Second/10))
	}
	return m
}

// has skips the test if the machines do not have a program, because this host has not.
func (m made) has(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		for _, absent := range m.missing {
			if strings.HasPrefix(absent, name) {
				missing(t, "%s is not installed", absent)
			}
		}
	}
}

// The scripts are shell, and refuse to start without the program that runs machines, and without files, with
// one sentence.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("vms/*/node?.sh")
	require.NoError(t, err)
	require.Len(t, scripts, 4)
	for _, path := range scripts {
		for program, why := range map[string]string{
			"sh":           "no file /nonexistent/vmlinux; run: make lab-files",
			"/nonexistent": "no program /nonexistent; on Debian: apt-get install qemu-system-x86",
		} {
			cmd := exec.Command("sh", path)
			cmd.Env = append(os.Environ(), "LAB_DIR=/nonexistent", "LAB_QEMU="+program)
			said, err := cmd.CombinedOutput()
			require.Error(t, err)
			require.Equal(t, path+": "+why+"\n", string(said))
		}
	}
}
