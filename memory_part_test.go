//go:build linux && (amd64 || arm64)

package nicless

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Memory that is closed is used again, and neighbours become one piece.
func TestFileMemoryIsReused(t *testing.T) {
	f, _ := poolFile(t)
	c := openIn(t, f)
	pd, err := c.AllocPD()
	require.NoError(t, err)
	for range 3 {
		var mrs []*MR
		for len(mrs) < 7 {
			mr, err := pd.RegisterMemory(1<<20, FullAccess)
			require.NoError(t, err)
			mr.Bytes()[0] = 1
			mrs = append(mrs, mr)
		}
		_, err = pd.RegisterMemory(1<<20, FullAccess)
		require.ErrorContains(t, err, "1048576 bytes of memory; the part of the file has 966656 bytes in one piece left")
		for _, i := range []int{1, 5, 3, 2, 6, 4, 0} {
			require.NoError(t, mrs[i].Close())
		}
		whole, err := pd.RegisterMemory(7<<20, FullAccess)
		require.NoError(t, err)
		require.Zero(t, whole.Bytes()[0])
		require.NoError(t, whole.Close())
	}
	_, err = pd.RegisterMemory(9<<20, FullAccess)
	require.ErrorContains(t, err, "9437184 bytes of memory; the part of the file has 8323072")
}

func TestMemoryRefused(t *testing.T) {
	f, _ := poolFile(t)
	dir, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer dir.Close()
	for _, c := range []struct {
		m    Memory
		want string
	}{
		{Memory{}, "Memory: no File"},
		{Memory{File: dir}, "is no ordinary file (d---------)"},
		{Memory{File: f, Offset: 1}, "0 bytes from offset 1 on; multiples of 4096 are possible"},
		{Memory{File: f, Offset: -4096}, "from offset -4096 on"},
		{Memory{File: f, Size: 5000}, "5000 bytes from offset 0 on; multiples"},
		{Memory{File: f, Size: fileSize, Offset: 4096}, "8388608 bytes from offset 4096 on"},
		{Memory{File: f, Offset: fileSize}, "has 8388608"},
		{Memory{File: f, Size: 4096}, "has 4096"}, // too little for registers
	} {
		_, err := Open(Config{Memory: &c.m})
		require.ErrorContains(t, err, c.want)
	}
	require.ErrorContains(t, Serve(t.Context(), filepath.Join(t.TempDir(), "s"), 0o600, Config{Memory: &Memory{File: f}}, nil), "Memory is for Open")

	c, err := Open(Config{})
	require.NoError(t, err)
	defer c.Close()
	pd, err := c.AllocPD()
	require.NoError(t, err)
	mr, err := pd.RegisterMemory(64, FullAccess)
	require.NoError(t, err)
	_, err = mr.Layout()
	require.EqualError(t, err, "nicless: layout of memory: its memory is in no file; open the context with Config.Memory")
	cq, err := c.CreateCQ(CQConfig{PollOnly: true})
	require.NoError(t, err)
	qp, err := pd.CreateQP(QPConfig{SendCQ: cq})
	require.NoError(t, err)
	_, err = qp.Layout()
	require.ErrorContains(t, err, "layout of QP: its memory is in no file")
}
