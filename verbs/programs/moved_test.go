package programs

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// movedModes are the arguments of verbs/check/moved, by the names of modes.
var movedModes = map[string]string{"fast": "fast", "process_vm": "slow"}

// Whatever a program does with registered memory is as on hardware, in both modes: each row of
// the table in docs/VERBS.md is a cell of the program.
func TestMovedMemory(t *testing.T) {
	path := check(t, "moved")
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) { moved(newLab(t, mode.flags...), path, movedModes[mode.name]) })
	}
}

// Without privileges a userfaultfd holds up only a program's own code.
func TestMovedMemoryOfNobody(t *testing.T) {
	long(t)
	if os.Getuid() != 0 {
		t.Skip("needs root, to become the user nobody; TestMovedMemory has run without privileges")
	}
	path := check(t, "moved")
	require.NoError(t, os.Chmod(path, 0o755))
	l := &lab{t: t, user: &syscall.Credential{Uid: 65534, Gid: 65534}}
	l.open()
	moved(l, path, "fast")
}

// In namespaces of its own, as in a container, a program's memory is moved too.
func TestMovedMemoryInNamespaces(t *testing.T) {
	long(t)
	need(t, "unshare")
	path := check(t, "moved")
	p := start(t, nil, "unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "--ipc", "--net",
		binary, "run", "--private", "--", path, "fast")
	require.Contains(t, p.succeeds(), cells(t))
}

func moved(l *lab, path, mode string) {
	said := l.run(path, mode)
	require.Contains(l.t, said, cells(l.t))
	if mode == "fast" {
		require.Contains(l.t, said, "was made by a system call and not by fork")
	}
	for _, line := range lines(said) {
		if !strings.HasSuffix(line, ": ok") {
			l.t.Log(line)
		}
	}
	l.works()
}

// cells returns the last line of verbs/check/moved.
func cells(t *testing.T) string {
	t.Helper()
	n := 0
	for _, source := range checks["moved"] {
		text, err := os.ReadFile("../check/" + source)
		require.NoError(t, err)
		n += strings.Count(string(text), "\tcell(\"")
	}
	return "moved: " + itoa(n-1) + " cells: ok\n" // the last one is the end
}
