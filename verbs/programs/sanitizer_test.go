package programs

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
)

// Programs that were built with a sanitizer start, although a library is preloaded before the
// sanitizer's, and the sanitizer finds no fault in that library.
func TestSanitizers(t *testing.T) {
	t.Parallel()
	need(t)
	cc := compiler()
	for _, sanitizer := range []string{"address", "thread", "undefined"} {
		t.Run(sanitizer, func(t *testing.T) {
			path := filepath.Join(scratch, "sanitized-"+sanitizer)
			args := append(slices.Clone(cc[1:]), "-g", "-O1", "-fsanitize="+sanitizer, "-o", path, "testdata/sanitized.c", "-libverbs")
			if said, err := exec.Command(cc[0], args...).CombinedOutput(); err != nil {
				proctest.Missing(t, "-fsanitize=%s (Debian: apt install gcc libibverbs-dev): %v: %s", sanitizer, err, said)
			}
			l := newLab(t)
			for _, program := range [][]string{{path}, {"sh", "-c", path}, {"env", "LD_PRELOAD=" + preloaded(t, l) + ":libm.so.6", path}} {
				for _, mode := range modesNow() {
					l.flags = mode.flags
					require.Equal(t, "made nicless0\n", l.run(program...), "%v %v", program, mode.flags)
				}
			}
		})
	}
}

// preloaded returns what nicless run preloads.
func preloaded(t *testing.T, l *lab) string {
	t.Helper()
	name, value, _ := strings.Cut(strings.TrimSpace(l.run("sh", "-c", "env | grep ^LD_PRELOAD=")), "=")
	require.Equal(t, "LD_PRELOAD", name)
	return value
}
