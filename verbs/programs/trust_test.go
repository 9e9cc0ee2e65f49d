package programs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// No program can punch a hole into memory that the engine uses. The engine would wait in the
// kernel while the hole is punched.
func TestNoHoles(t *testing.T) {
	t.Parallel()
	path := check(t, "trust")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			require.Contains(t, newLab(t, mode.flags...).run(path, "punch"), "trust: punch: ok")
		})
	}
}

// After a program has executed another program, the keys of the first program do not give
// access to the memory of the second. The second program has the same process number and may
// have memory at the same address.
func TestKeyAfterExec(t *testing.T) {
	t.Parallel()
	path := check(t, "trust")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			l := newLab(t, mode.flags...)
			require.Contains(t, l.run(path, "exec"), "trust: exec: ok")
			if mode.flags != nil {
				l.engine.says("has executed another program")
			}
		})
	}
}

// A program gets as many queues as the device promises, even if the engine's process may
// have few descriptors.
func TestQueuesWithFewDescriptors(t *testing.T) {
	t.Parallel()
	path := check(t, "trust")
	l := &lab{t: t, under: []string{"sh", "-c", `ulimit -n 1024 && exec "$@"`, "sh"}}
	l.open()
	require.Contains(t, l.run(path, "many"), "trust: many: ok")
}

// The explanation of a program's last mistake is printed although the program, and the shell
// that started it, may have ended before nicless run reads the explanation.
func TestExplanationOfAnEndedProgram(t *testing.T) {
	t.Parallel()
	path := check(t, "trust")
	l := newLab(t, "--explain")
	for range 5 {
		require.Contains(t, l.run("sh", "-c", path+" mistake; true"), "names no memory region (key-unknown)")
	}
}
