package programs

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/cudatest"
	"github.com/nicless/nicless/internal/proctest"
)

// root is the root of the tree.
const root = "../.."

// scratch is the directory for what the tests build.
var scratch string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	flag.Parse()
	var err error
	if scratch, err = os.MkdirTemp("", "nicless-cuda"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	return m.Run()
}

// libraries builds the libraries that programs find in place of NVIDIA's, and returns their directory.
var libraries = sync.OnceValues(func() (dir string, err error) {
	dir = filepath.Join(scratch, "gpu")
	return dir, cudatest.Libraries(root, dir)
})

// compile compiles a program with clang, and links it with CUDA's runtime of version 11 and other libraries.
func compile(t *testing.T, source string, others ...string) (program string) {
	t.Helper()
	cudatest.Ready(t)
	dir, err := libraries()
	require.NoError(t, err)
	return cudatest.Compiler{Root: root, Libraries: dir, Out: t.TempDir()}.Compile(t, source, others...)
}

// A program runs with two emulated GPUs.
type program struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser // of startWith only
	said proctest.Output
	done chan struct{}
	err  error // after done
}

// start starts a program without input.
func start(t *testing.T, env []string, argv ...string) *program {
	t.Helper()
	return startWith(t, env, false, argv...)
}

// startWith starts a program whose input, if it has any, ends when its in is closed.
func startWith(t *testing.T, env []string, input bool, argv ...string) *program {
	t.Helper()
	dir, err := libraries()
	require.NoError(t, err)
	r := &program{name: strings.Join(argv, " "), cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	r.cmd.Env = append(append(os.Environ(), "LD_LIBRARY_PATH="+dir, "NICLESS_GPU=2"), env...)
	r.cmd.Stdout, r.cmd.Stderr = &r.said, &r.said
	if input {
		r.in, err = r.cmd.StdinPipe()
		require.NoError(t, err)
	}
	require.NoError(t, r.cmd.Start())
	go func() {
		r.err = r.cmd.Wait()
		close(r.done)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
	})
	return r
}

// ends waits for the end, and returns what the program has printed.
func (r *program) ends(t *testing.T) (said string, err error) {
	t.Helper()
	r.awaits(t, "it ends", func() bool {
		select {
		case <-r.done:
			return true
		default:
			return false
		}
	})
	return r.said.String(), r.err
}

// awaits waits until done returns true, while the program does something.
func (r *program) awaits(t *testing.T, what string, done func() bool) {
	t.Helper()
	proctest.Until(t, what, done, proctest.Job{Name: r.name, PID: r.cmd.Process.Pid, Output: &r.said})
}

// succeeds waits for the end, which is one with status 0, and returns what the program has printed.
func (r *program) succeeds(t *testing.T) string {
	t.Helper()
	said, err := r.ends(t)
	require.NoError(t, err, said)
	return said
}
