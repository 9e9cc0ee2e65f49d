package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The command nicless that go install has made has no library beside it, but runs programs
// from any directory: it builds the library on its first run and finds it on the second.
func TestInstalledCommand(t *testing.T) {
	t.Parallel()
	need(t, "ibv_devinfo")
	home := t.TempDir()
	command := filepath.Join(home, "go/bin/nicless")
	text, err := os.ReadFile(binary)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(command), 0o755))
	require.NoError(t, os.WriteFile(command, text, 0o755))
	for range 2 {
		cmd := exec.Command(command, "run", "--private", "ibv_devinfo")
		cmd.Dir = "/"
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
		require.Contains(t, string(said), "PORT_ACTIVE")
		libraries, err := filepath.Glob(filepath.Join(home, ".cache/nicless/*"))
		require.NoError(t, err)
		require.Len(t, libraries, 1)
	}
}
