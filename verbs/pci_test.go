//go:build linux && (amd64 || arm64)

package verbs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tree looks like the kernel's: links in classes lead to the device below its PCI function,
// and libibverbs finds the same time everywhere.
func TestTreeHasFunctions(t *testing.T) {
	t.Parallel()
	const devices = 9
	dir, _ := serving(t, devices)
	root, err := filepath.EvalSymlinks(filepath.Join(dir, treeName))
	require.NoError(t, err)
	seen := make(map[string]bool)
	for i := range devices {
		name := "nicless" + string(rune('0'+i))
		at, err := filepath.EvalSymlinks(filepath.Join(root, "class/infiniband", name))
		require.NoError(t, err)
		function, err := filepath.EvalSymlinks(filepath.Join(at, "device"))
		require.NoError(t, err)
		require.Equal(t, filepath.Join(function, "infiniband", name), at)
		require.False(t, seen[function], "%s: two devices", function)
		seen[function] = true
		relative := strings.TrimPrefix(function, root)
		require.Regexp(t, `^/devices/pci0000:00/0000:00:[01][0-9a-f]\.[0-7]/0000:[0-9a-f]{2}:00\.0$`, relative)
		require.NoFileExists(t, "/sys"+relative, "the kernel has such a function")
		require.NoFileExists(t, "/sys"+filepath.Dir(relative), "the kernel has such a port")
		for _, link := range []string{
			"class/infiniband_verbs/uverbs" + name[len(name)-1:] + "/device", "bus/pci/devices/" + filepath.Base(function),
			"bus/pci/drivers/mlx5_core/" + filepath.Base(function),
		} {
			to, err := filepath.EvalSymlinks(filepath.Join(root, link))
			require.NoError(t, err)
			require.Equal(t, function, to)
		}
	}
	var made fs.FileInfo
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		st, err := os.Stat(path) // of a link's target, too
		require.NoError(t, err)
		if made == nil {
			made = st
		}
		require.Equal(t, made.ModTime(), st.ModTime(), path)
		return nil
	}))
}

func TestCPUMask(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"0": "00000001", "0-1": "00000003", "0-31": "ffffffff", "1,4-6": "00000072", "0-63": "ffffffff,ffffffff", "33": "00000002,00000000",
	} {
		require.Equal(t, want, cpuMask(list), list)
	}
}

func TestRelative(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{ // the last is what the kernel has
		{"class/infiniband", "devices/p/f/infiniband/n", "../../devices/p/f/infiniband/n"},
		{"devices/p/f/infiniband/n", "devices/p/f", "../../../f"},
		{"devices/p/f", "bus/pci", "../../../bus/pci"},
	} {
		require.Equal(t, c[2], relative(c[0], c[1]))
	}
}
