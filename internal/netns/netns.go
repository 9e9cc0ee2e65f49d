// Package netns has the command lines by which tests run programs as if on hosts of their own: in network
// namespaces, whose user namespace belongs to the test, so that no privileges are needed.
//
// A namespace lives as long as a process in it. [First] makes the first namespace and the user namespace, and
// [Next] another one in the same user namespace, so that network devices can be moved between them. [In] runs
// a program in a namespace that is there.
package netns

import (
	"fmt"
	"os/exec"
	"strconv"
)

// Programs are the programs that the command lines need, and ip, which makes the network.
var Programs = []string{"unshare", "nsenter", "ip"}

// Check returns an error if this host gives no namespaces to its users.
func Check() error {
	argv := First("true")
	if said, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("needs user namespaces: %w: %s", err, said)
	}
	return nil
}

// First is the command line of a program in a new network namespace of a new user namespace, whose root is
// the caller. Nothing is in the namespace but lo, which is down.
func First(argv ...string) []string {
	return append([]string{"unshare", "--user", "--map-root-user", "--net", "--"}, argv...)
}

// Next is the command line of a program in a new network namespace of the user namespace of a process.
func Next(pid int, argv ...string) []string {
	enter := []string{"nsenter", "--preserve-credentials", "--user", "--target", strconv.Itoa(pid), "--",
		"unshare", "--net", "--"}
	return append(enter, argv...)
}

// In is the command line of a program in the network namespace and the user namespace of a process. The
// process that runs it becomes the program's.
func In(pid int, argv ...string) []string {
	enter := []string{"nsenter", "--preserve-credentials", "--user", "--net", "--target", strconv.Itoa(pid),
		"--"}
	return append(enter, argv...)
}
