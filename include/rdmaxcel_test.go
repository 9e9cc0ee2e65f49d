package include

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// All functions with which RDMaxcel posts and polls exist, with the same types. In a program
// without CUDA, register_cuda_memory fails and says why.
func TestRDMaxcelInterface(t *testing.T) {
	each(t, "rdmaxcel", func(t *testing.T, path string) {
		out, err := run(t, path)
		require.NoError(t, err, "%s", out)
		assert.Equal(t, "801 1 ranges are not registered: this program was compiled without CUDA. "+
			"Include <cuda_runtime_api.h> before <nicless/rdmaxcel.h>, or post from the host, which needs no registration\n", out)
	})
}

// The structs of dv.h have the layout of those in the header of libmlx5.
func TestDVLayout(t *testing.T) {
	if _, err := os.Stat("/usr/include/infiniband/mlx5dv.h"); err != nil {
		t.Skip("no infiniband/mlx5dv.h (libibverbs-dev): layouts are not compared")
	}
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			l.compile(t, filepath.Join(t.TempDir(), "rdmaxcel"), "check/rdmaxcel.c", "-DCHECK_MLX5DV",
				strings.Replace(l.flags[0], "=c", "=gnu", 1)) // the vendor's header is GNU C
		})
	}
}

// register_cuda_memory registers each page once, also if queue pairs share pages. Its error names the range.
func TestRegisterCUDAMemory(t *testing.T) {
	each(t, "cudart", func(t *testing.T, path string) {
		out, err := exec.Command(path).Output()
		require.NoError(t, err)
		assert.Equal(t, []string{
			"one region: 100000+1000:3 101000+1000:3 102000+2000:3 700000+1000:3 = 0, left 0",
			"again: = 0, left 0",
			"a register of a NIC: 100000+1000:3 101000+1000:3 102000+2000:3 700000+1000:7 = 0, left 0",
			"a register that cannot be: 100000+1000:3 101000+1000:3 102000+2000:3 = 1, left 0: " +
				"cannot register 4096 bytes at 0x700000 (register) with CUDA: invalid argument",
			"a send queue that cannot be: 100000+1000:3 = 1, left 0: " +
				"cannot register 4096 bytes at 0x101000 (send queue) with CUDA: invalid argument",
			"the first of two queues: 100000+1000:3 101000+1000:3 102000+2000:3 700000+1000:3 = 0, left 0",
			"the second: 104000+1000:3 105000+1000:3 = 0, left 0",
			"around both: ff000+1000:3 106000+2000:3 = 0, left 0",
			"a new page that cannot be: = 1, left 0: " +
				"cannot register 4096 bytes at 0x103000 (send queue) with CUDA: invalid argument",
			"nothing: = 0, left 0",
		}, strings.Split(strings.TrimSpace(string(out)), "\n"))
	})
}
