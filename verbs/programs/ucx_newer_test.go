package programs

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	vm "github.com/nicless/nicless/internal/lab"
	"github.com/nicless/nicless/internal/proctest"
)

// newerPackages are ucx_perftest, UCX and rdma-core of Debian 13, and the libraries that they need. They run
// with the C library of Debian 13 too, by its own dynamic linker, so that nothing has to be installed.
var newerPackages = []string{
	"ucx-utils", "libucx0", "libibverbs1", "ibverbs-providers", "librdmacm1t64", "libibumad3", "libibmad5",
	"libnl-3-200", "libnl-route-3-200", "libc6", "libgcc-s1", "libstdc++6", "libgomp1", "libatomic1", "libfuse3-4",
	"libcap2", "libudev1", "zlib1g", "libnuma1", "libuuid1",
	// ucx_perftest is linked with MPI, although it uses it only under mpirun.
	"libopenmpi40", "libpmix2t64", "libhwloc15", "libevent-core-2.1-7t64", "libevent-pthreads-2.1-7t64",
	"libfabric1", "libmunge2", "libpsm2-2", "libpsm-infinipath1",
}

// A debianRoot is where programs of a release of Debian are.
type debianRoot struct {
	dir         string   // "" for the host's own
	options     []string // options of ucx_perftest
	environment string   // variables, each with a blank after it
}

func hostRoot(*testing.T) debianRoot { return debianRoot{} }

// path returns the path of a program that the root has.
func (r debianRoot) path(path string) string { return r.dir + path }

// program returns a command line that runs a program, of the root or of the host, with the libraries of the
// root.
func (r debianRoot) program(path string, options ...string) string {
	words := append([]string{path}, options...)
	if r.dir != "" {
		words = append([]string{r.only("usr/lib/*-linux-gnu/ld-linux-*.so.?"), "--inhibit-cache",
			"--library-path", r.only("usr/lib/*-linux-gnu")}, words...)
	}
	return strings.Join(words, " ")
}

// only returns the path of the one file of the root that fits the pattern.
func (r debianRoot) only(pattern string) string {
	found, _ := filepath.Glob(filepath.Join(r.dir, pattern))
	if len(found) != 1 {
		return filepath.Join(r.dir, pattern)
	}
	return found[0]
}

// newer is the root of Debian 13, which the first test that needs it fetches.
var newer = sync.OnceValues(func() (string, error) {
	apt, err := vm.Suite("trixie")
	if err != nil {
		return "", err
	}
	return apt.Root("ucx", newerPackages...)
})

func newerUCX(t *testing.T) debianRoot {
	t.Helper()
	proctest.Need(t, "apt-get", "dpkg-deb")
	dir, err := newer()
	if err != nil {
		proctest.Missing(t, "packages of Debian 13: %v", err)
	}
	return debianRoot{
		dir:     dir,
		options: []string{"-P", "0"}, // not as a program of MPI
		// With UCX's memory hooks, a program that starts on busy cores sometimes stops for ever in ucp_init,
		// over TCP without any device too (1 of 156): it waits for the lock of the hooks, which no other
		// thread has (ucm_event_enter_exclusive below ucm_mmap_install).
		environment: "UCX_MEM_EVENTS=n ",
	}
}
