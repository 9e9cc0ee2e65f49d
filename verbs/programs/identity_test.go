package programs

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// guidLine is what ibv_devinfo says of a device's GUID.
var guidLine = regexp.MustCompile(`node_guid:\s+(\S+)`)

// Programs find devices by the names that the engine was given, and by no others.
func TestDeviceNames(t *testing.T) {
	t.Parallel()
	need(t, "ibv_devinfo", "ib_write_bw", "ibstat", "ibv_rc_pingpong")
	l := newLabAt(t, places()[0], "--verbs-devices", "2", "--device-name", "mlx5_%d")
	require.Contains(t, l.run("ibv_devinfo", "-d", "mlx5_1"), "hca_id:\tmlx5_1")
	require.Contains(t, l.run("ibstat", "mlx5_0"), "CA 'mlx5_0'")
	require.Equal(t, "mlx5_0\nmlx5_1\nmlx5_1\nmlx5_0\n", l.run("sh", "-c", "ls /sys/class/infiniband && "+
		"cat /sys/class/infiniband_verbs/uverbs1/ibdev /sys/class/infiniband/mlx5_0/node_desc"))
	for _, device := range []string{"mlx5_0", "mlx5_1"} {
		_, client := l.pair("ib_write_bw", "-F", "-d", device, "-n", "100")
		require.Contains(t, client, "Device         : "+device)
	}
}

// An engine has the GUID that it is given; one without has the same after a restart.
func TestGUIDThatStays(t *testing.T) {
	t.Parallel()
	need(t, "ibv_devinfo")
	home := t.TempDir()
	guid := func(flags ...string) string {
		cmd := exec.Command(binary, append(append([]string{"run", "--private"}, flags...), "ibv_devinfo")...)
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + home}
		said, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", said)
		found := guidLine.FindSubmatch(said)
		require.NotNil(t, found, "%s", said)
		return string(found[1])
	}
	require.Equal(t, "0211:22ff:fe33:4455", guid("--guid", "0211:22ff:fe33:4455"))
	if id, err := os.ReadFile("/etc/machine-id"); err != nil || len(id) < 32 {
		require.NotEqual(t, guid(), guid(), "without a machine id, GUIDs are by chance")
		return
	}
	require.Equal(t, guid(), guid())
}
