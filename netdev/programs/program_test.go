//go:build linux && (amd64 || arm64)

package programs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// programMark is the environment variable by which a process of this test's program is one of
// the programs below, and no test.
const programMark = "NICLESS_NET_PROGRAM"

// programs are run as "env NICLESS_NET_PROGRAM=NAME SELF ARGUMENTS". Each returns an error if anything is not
// as it should be.
var programs = map[string]func(args []string) error{
	"tcp-serve": serveTCP,
	"tcp-send":  sendTCP,
	"udp-echo":  echoUDP,
	"udp-ask":   askUDP,
	"udp-count": countUDP,
	"udp-flood": floodUDP,
	"direct":    joinDirect,

	"resolve-name": resolveName,
}

func runProgram(name string, args []string) int {
	f, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no program %q\n", name)
		return 2
	}
	if err := f(args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// program starts one of the programs in the node.
func (n *node) program(name string, args ...any) *process {
	n.t.Helper()
	argv := []string{"env", programMark + "=" + name, self}
	for _, a := range args {
		argv = append(argv, fmt.Sprint(a))
	}
	return n.start(argv...)
}

// content fills b with bytes that depend on the seed.
func content(b []byte, seed uint64) {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	_, _ = rand.NewChaCha8(key).Read(b)
}

// Programs are checked without a network interface of ours too: over lo they have to work.
func TestProgramsOverLo(t *testing.T) {
	t.Parallel()
	nodes := newNodes(t, 1)
	for _, address := range []string{"127.0.0.1", "::1"} {
		talk{nodes[0], nodes[0], address}.copies(1 << 20)
		talk{nodes[0], nodes[0], address}.asks("udp", 0, 1, 1000, 65507)
		talk{nodes[0], nodes[0], address}.floods(1000, 1000)
	}
}
