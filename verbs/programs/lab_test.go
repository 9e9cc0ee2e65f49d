package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/freeport"
	vm "github.com/nicless/nicless/internal/lab"
)

// A lab is a fresh engine and the programs that a test runs on it.
type lab struct {
	t      *testing.T
	socket string
	engine *process
	flags  []string            // flags for nicless run
	user   *syscall.Credential // the user as which engine and programs run; nil: the test's user
	under  []string            // a command under which the engine runs
	inside []string            // a command under which the engine and all programs run

	engineFlags []string // flags for nicless engine

	far *lab // another engine, on which the clients of rows run; nil: they run on this one

	machine *vm.Machine // has the programs, and another device than an engine; nil: they run here
	// Of words in command lines of rows that are not the same on all hosts; nil: none.
	words *strings.Replacer
}

// A mode is a way in which the engine reaches memory that programs registered.
type mode struct {
	name  string
	flags []string
}

// modes are the ways in which the engine reaches memory that programs registered.
var modes = []mode{
	{"fast", nil},
	{"process_vm", []string{"--slow-memory"}},
}

// modesNow are the modes in which a test runs: without -programs only the first.
func modesNow() []mode {
	if *whole {
		return modes
	}
	return modes[:1]
}

func newLab(t *testing.T, flags ...string) *lab {
	t.Helper()
	l := &lab{t: t, flags: flags}
	l.open()
	return l
}

// open starts the engine in a directory of its own.
func (l *lab) open() {
	t := l.t
	t.Helper()
	need(t)
	dir, err := os.MkdirTemp("", "nl") // t.TempDir's names are too long for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if l.user != nil {
		require.NoError(t, os.Chown(dir, int(l.user.Uid), int(l.user.Gid)))
	}
	l.socket = filepath.Join(dir, "e.sock")
	l.startEngine()
}

// startEngine runs an engine until the test ends. Then the engine has to end when it is asked
// to, with status 0 and without an error in its log.
func (l *lab) startEngine() {
	l.t.Helper()
	argv := append(append(slices.Clone(l.inside), l.under...), binary, "engine", "--socket", l.socket, "--verbs")
	if *sanitizing {
		argv = append(argv, "--sanitize")
	}
	e := start(l.t, l.user, append(argv, l.engineFlags...)...)
	e.says("engine ready")
	l.engine = e
	l.t.Cleanup(func() {
		if l.t.Failed() {
			l.t.Logf("the log of engine %s ends:\n%s", l.socket, tail(e.said.String()))
		}
		if e.killed {
			return
		}
		_ = e.cmd.Process.Signal(syscall.SIGTERM)
		said := e.succeeds()
		require.NotContains(l.t, said, "panic")
		require.NotContains(l.t, said, "level=ERROR")
		require.Empty(l.t, mistakesIn(said))
		require.NotContains(l.t, said, "nicless: error: --sanitize")
	})
}

// argv is a command line that runs a program on the engine of the lab.
func (l *lab) argv(program ...string) []string {
	argv := append(append(slices.Clone(l.inside), binary, "run", "--engine", l.socket), l.flags...)
	return append(append(argv, "--"), program...)
}

// start starts a program.
func (l *lab) start(program ...string) *process {
	l.t.Helper()
	if l.machine != nil {
		return startIn(l.t, l.machine, program...)
	}
	return start(l.t, l.user, l.argv(program...)...)
}

// run runs a program, which has to succeed.
func (l *lab) run(program ...string) string {
	l.t.Helper()
	return l.start(program...).succeeds()
}

// pair runs a program twice: a server, and a client that connects to it.
func (l *lab) pair(program ...string) (server, client string) {
	l.t.Helper()
	s, c := l.startPair(program...)
	client = c.succeeds()
	return s.succeeds(), client
}

// startPair starts a server, and the client as soon as the server listens.
func (l *lab) startPair(program ...string) (server, client *process) {
	l.t.Helper()
	port := freeport.TCP(l.t)
	argv := append(program[:len(program):len(program)], "-p", itoa(port))
	server = l.start(argv...)
	listens(server, port)
	client = l.start(append(argv, "127.0.0.1")...)
	together(server, client)
	return server, client
}

// works checks that other programs, which a test has not disturbed, still work.
func (l *lab) works() {
	l.t.Helper()
	need(l.t, "ibv_rc_pingpong")
	l.pair("ibv_rc_pingpong", "-d", "nicless0", "-g", "0", "-n", "100", "-c")
}

func itoa(n int) string { return strconv.Itoa(n) }

// listens waits until a process listens on a TCP port. It reads the kernel's list for the
// network namespace of the process and does not connect, because the program would take the
// connection for its client's.
func listens(p *process, port int) {
	p.t.Helper()
	const listen = "0A"
	p.awaits(fmt.Sprintf("it listens on port %d", port), func() bool {
		for _, list := range []string{"tcp", "tcp6"} {
			text, err := os.ReadFile(filepath.Join("/proc", itoa(p.cmd.Process.Pid), "net", list))
			if err != nil {
				continue
			}
			for _, line := range lines(string(text)) {
				f := strings.Fields(line)
				if len(f) > 3 && f[3] == listen && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
					return true
				}
			}
		}
		if p.ended() {
			require.FailNow(p.t, "ended", "ended (%v) and does not listen: %v", p.err, p.job())
		}
		return false
	})
}
