// Package check tests the library that verbs programs preload. It builds the library and
// small C programs, and runs the programs against a fake server. Without a C compiler the
// tests are skipped, except in CI.
package check

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/shimtest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var scratch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "nicless-shim")
	if err != nil {
		panic(err)
	}
	scratch = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// compiler returns the command of the C compiler and its first arguments.
func compiler(t *testing.T) []string {
	t.Helper()
	name := os.Getenv("CC")
	if name == "" {
		name = "cc"
	}
	words := strings.Fields(name)
	_, err := exec.LookPath("make")
	if err == nil {
		c := exec.Command(words[0], append(words[1:], "-fsyntax-only", "-x", "c", "-")...)
		c.Stdin = strings.NewReader("#include <pthread.h>\n#include <linux/userfaultfd.h>\n")
		err = c.Run()
	}
	if err != nil {
		const install = "needs make, a C compiler and the headers of the C library (Debian and Ubuntu: apt install make gcc libc6-dev): %v"
		if os.Getenv("CI") == "true" {
			t.Fatalf(install, err)
		}
		t.Skipf(install, err)
	}
	return words
}

var library = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "libnicless_verbs.so")
	return path, shimtest.Build("../../..", path)
})

func shim(t *testing.T) string {
	t.Helper()
	compiler(t)
	path, err := library()
	require.NoError(t, err)
	return path
}

var built sync.Map // has a *sync.Once for each program, by name

// program builds programs/NAME.c.
func program(t *testing.T, name string) string {
	t.Helper()
	cc := compiler(t)
	path := filepath.Join(scratch, name)
	once, _ := built.LoadOrStore(name, new(sync.Once))
	once.(*sync.Once).Do(func() {
		args := append(cc[1:], "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2",
			"-I../../../include", "-o", path, "programs/"+name+".c", "-pthread", "-ldl")
		said, err := exec.Command(cc[0], args...).CombinedOutput()
		require.NoError(t, err, "%s", said)
	})
	return path
}

// run runs a program with the library preloaded and with variables added to its environment.
func run(t *testing.T, dir string, variables []string, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(await.Context(t), program(t, name), args...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+shim(t))
	if dir != "" {
		cmd.Env = append(cmd.Env, "NICLESS_VERBS="+dir)
	}
	cmd.Env = append(cmd.Env, variables...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	return o.String(), e.String(), err
}

// good runs a program against f. The program must end with status 0 and print nothing.
func good(t *testing.T, f *fake, name string, args ...string) {
	t.Helper()
	stdout, stderr, err := run(t, f.dir, nil, name, args...)
	require.NoError(t, err, "%s", stderr)
	require.Empty(t, stderr)
	require.Empty(t, stdout)
}

func TestDevice(t *testing.T) {
	for _, scenario := range []string{"opened", "asked", "forbidden", "strangers", "pointers", "mapped", "sealed", "registers", "copied", "handed-on"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			good(t, serve(t), "device", scenario)
		})
	}
}

// A device can be mapped in a program that has memory hooks.
func TestHooked(t *testing.T) {
	t.Parallel()
	good(t, serve(t), "hooked")
}

func TestFork(t *testing.T) {
	t.Parallel()
	good(t, serve(t), "fork")
}

func TestThreads(t *testing.T) {
	for scenario, says := range map[string]string{
		"hammered": "", "signalled": "", "cancelled": "",
		"closed":  `^nicless: the program has closed descriptor \d+, which is ours: its devices are lost\n$`,
		"hung-up": `^nicless: the verbs server in /.* is lost: Connection reset by peer\n$`,
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			_, stderr, err := run(t, serve(t).dir, nil, "threads", scenario)
			require.NoError(t, err, "%s", stderr)
			require.Regexp(t, "^"+says, stderr)
			require.Equal(t, says == "", stderr == "", "%s", stderr)
		})
	}
}

// Where there is userfaultfd, remapping loses no stores of other threads.
func TestRemap(t *testing.T) {
	for _, scenario := range []string{"nothing-lost", "refused", "one-page"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			f := serve(t)
			_, stderr, err := run(t, f.dir, nil, "remap", scenario)
			if h := f.greetings(); scenario != "one-page" && len(h) == 1 && h[0].wants&hasUFFD == 0 {
				t.Skip("the kernel gives no userfaultfd that write-protects")
			}
			require.NoError(t, err, "%s", stderr)
			require.Empty(t, stderr)
		})
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	f := serve(t)
	good(t, f, "paths", "redirected")
	require.Len(t, f.greetings(), 1, "the server says which tree it is")
	require.Zero(t, f.opens)
	good(t, f, "paths", "elsewhere")
	require.Len(t, f.greetings(), 1, "other names in /sys need no server")
}

// The server answers which tree a program finds, and gets its addresses for that.
func TestTreeOfANamespace(t *testing.T) {
	t.Parallel()
	f := serve(t)
	const root = "net/1"
	f.mu.Lock()
	f.root = root
	f.mu.Unlock()
	tree(t, filepath.Join(f.dir, root))
	for _, wrong := range []string{"class/infiniband_verbs/uverbs0/ibdev", "devices/pci0000:5a/0000:5a:00.0/vendor"} {
		wrong = filepath.Join(f.dir, "sys", wrong)
		require.NoError(t, os.Remove(wrong))
		require.NoError(t, os.WriteFile(wrong, []byte("of another tree\n"), 0o444))
	}
	good(t, f, "paths", "redirected")
	f.mu.Lock()
	defer f.mu.Unlock()
	require.GreaterOrEqual(t, len(f.told), 16+48)
	require.NotZero(t, le.Uint64(f.told), "Linux 5.14 or later has cookies of namespaces")
	require.Equal(t, len(f.told), 16+48*int(le.Uint32(f.told[8:])))
	listed, err := net.InterfaceAddrs()
	require.NoError(t, err)
	var want, have []string
	for _, a := range listed {
		want = append(want, a.String())
	}
	for b := f.told[16:]; len(b) > 0; b = b[48:] {
		ip := netip.AddrFrom16([16]byte(b)).Unmap()
		have = append(have, netip.PrefixFrom(ip, int(b[36])).String())
		name := string(b[16 : 16+bytes.IndexByte(b[16:32], 0)])
		i, err := net.InterfaceByName(name)
		require.NoError(t, err)
		require.EqualValues(t, i.Index, le.Uint32(b[32:]))
	}
	require.ElementsMatch(t, want, have)
}

func TestTransparent(t *testing.T) {
	t.Parallel()
	stdout, stderr, err := run(t, "", nil, "paths", "transparent")
	require.NoError(t, err, "%s", stderr)
	require.Empty(t, stdout+stderr)
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	stdout, _, err := run(t, "/nonexistent", []string{"MLX_CQ_ALLOC_TYPE=ANON"}, "paths", "environment")
	require.NoError(t, err)
	require.Equal(t, "PREFER_CONTIG ANON PREFER_CONTIG PREFER_CONTIG\n", stdout)
}

// The server gives more memory than a program maps, which is used for its next mappings.
func TestMemoryInAdvance(t *testing.T) {
	t.Parallel()
	f := serveVersion(t, 2, 1)
	good(t, f, "device", "rests")
	good(t, f, "device", "mapped")
	good(t, f, "device", "registers")
	good(t, f, "alloc")
}

func TestAlloc(t *testing.T) {
	t.Parallel()
	good(t, serve(t), "alloc")
	for _, preload := range []string{"LD_PRELOAD=", "LD_PRELOAD=" + shim(t)} {
		_, stderr, err := run(t, "", []string{preload}, "alloc", "without")
		require.NoError(t, err, "%s", stderr)
		require.Empty(t, stderr)
	}
}

// If the library cannot work, it prints one line with the reason.
func TestMessages(t *testing.T) {
	t.Parallel()
	absent := t.TempDir()
	for dir, want := range map[string]struct {
		errno  unix.Errno
		stderr string
	}{
		absent:                         {unix.ENODEV, "nicless: no verbs server at " + absent + "/server.sock: No such file or directory\n"},
		serveVersion(t, 3, 0).dir:      {unix.EPROTO, "does not speak version 2 of this library"},
		"/" + strings.Repeat("x", 200): {unix.ENODEV, "File name too long\n"},
		"relative":                     {unix.ENOENT, "nicless: NICLESS_VERBS is not an absolute path of less than 512 bytes: ignored\n"},
	} {
		_, stderr, err := run(t, dir, nil, "paths", "absent", strconv.Itoa(int(want.errno)))
		require.NoError(t, err, "%s", stderr)
		require.Contains(t, stderr, want.stderr)
		require.Equal(t, 1, strings.Count(stderr, "\n"), "%s", stderr)
	}
}

func TestHello(t *testing.T) {
	t.Parallel()
	f := serve(t)
	_, stderr, err := run(t, f.dir, nil, "device", "copied")
	require.NoError(t, err, "%s", stderr)
	all := f.greetings()
	require.Len(t, all, 1)
	h := all[0]
	require.Equal(t, hello{0x6272766e, 1 | h.wants&hasUFFD, "device", h.guard, h.cookie}, h)
	require.NotZero(t, h.guard)
	require.Zero(t, h.guard%8)
}
