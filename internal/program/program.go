// Package program lets a test binary be the program that it tests. So tests run real processes, without
// building anything.
package program

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/nicless/nicless/internal/await"
)

// If this environment variable is set, the test binary runs the program.
const variable = "NICLESS_TEST_RUN_PROGRAM"

// Main is for TestMain. In a process that Command has started, it runs main in place of the tests.
func Main(m *testing.M, main func()) {
	if os.Getenv(variable) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Command returns a command that runs the program. Processes that it starts from /proc/self/exe run the
// program too. It is killed when the test ends.
func Command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(await.Context(t), os.Args[0], args...)
	cmd.Env = append(os.Environ(), variable+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// Run runs the program, and returns its output and its exit status.
func Run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := Command(t, args...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	_ = cmd.Run()
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}
