//go:build linux && (amd64 || arm64)

package programs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	whole   = flag.Bool("programs", false, "run all tests, not the short list")
	speed   = flag.Bool("speed", false, "measure, on a machine that does nothing else")
	rounds  = flag.Int("rounds", 5, "how often TestSpeed measures everything")
	volume  = flag.Int("volume", 64, "how many MiB a TCP connection copies in the longest tests")
	nicless = flag.String("nicless", "", "directory of the command, in place of building it")
)

// repository is the root of the module.
const repository = "../.."

// command is the path of the command nicless, self that of this test's own program.
var command, self string

func TestMain(m *testing.M) {
	if name := os.Getenv(programMark); name != "" {
		os.Exit(runProgram(name, os.Args[1:]))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	flag.Parse()
	scratch, err := os.MkdirTemp("", "nicless-net")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if self, err = os.Executable(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	command = filepath.Join(*nicless, "nicless")
	if *nicless == "" {
		command = filepath.Join(scratch, "nicless")
		if out, err := exec.Command("go", "build", "-o", command, repository+"/cmd/nicless").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
	}
	return m.Run()
}

// long skips the test unless the flag -programs is given.
func long(t *testing.T) {
	t.Helper()
	if !*whole {
		t.Skip("all tests run with -programs")
	}
}
