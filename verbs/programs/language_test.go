package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
)

// Programs in other languages reach the device by libibverbs.
func TestLanguages(t *testing.T) {
	t.Parallel()
	long(t)
	l := newLab(t)
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		proctest.Missing(t, "the headers of libibverbs are not installed (Debian: apt install libibverbs-dev): %v", err)
	}
	for _, v := range []struct {
		name  string
		tool  string
		build func(out string) []string
		argv  []string // nil: the program that was built
	}{
		{"Go", "go", func(out string) []string { return []string{"go", "build", "-o", out, "testdata/register.go"} }, nil},
		{"Rust", "rustc", func(out string) []string { return []string{"rustc", "-o", out, "testdata/register.rs"} }, nil},
		{"Python", "/usr/bin/python3", nil, []string{"/usr/bin/python3", "testdata/register.py"}},
	} {
		t.Run(v.name, func(t *testing.T) {
			if _, err := exec.LookPath(v.tool); err != nil {
				t.Skip(err) // nothing else needs this tool, so CI need not have it
			}
			argv := v.argv
			if v.build != nil {
				out := filepath.Join(t.TempDir(), "register")
				argv = v.build(out)
				cmd := exec.Command(argv[0], argv[1:]...)
				cmd.Env = append(cmd.Environ(), "CGO_ENABLED=1")
				said, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s\n%s", argv, said)
				argv = []string{out}
			}
			require.Contains(t, l.run(argv...), "nicless0: 1048576 bytes registered")
		})
	}
}
