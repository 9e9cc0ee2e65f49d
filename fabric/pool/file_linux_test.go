package pool

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/shm"
)

func attachTest(t *testing.T, cfg Config) (size int, err error) {
	t.Helper()
	cfg = cfg.withDefaults()
	r, err := attach(context.Background(), &cfg, &waiting{}, systemTimer{})
	if err != nil {
		return 0, err
	}
	defer func() { require.NoError(t, r.Close()) }()
	r.Bytes()[len(r.Bytes())-1] = 1
	return len(r.Bytes()), nil
}

// Node 0 makes a file and enlarges it. The others take it as it is.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	_, err := attachTest(t, Config{Path: path, Node: 1, Wait: time.Millisecond})
	require.ErrorContains(t, err, "the file is not there yet: open ")
	require.ErrorContains(t, err, "is node 0 running, with the same file and offset=?")

	size, err := attachTest(t, Config{Path: path})
	require.NoError(t, err)
	require.Equal(t, defaultSize, size)
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())

	size, err = attachTest(t, Config{Path: path, Node: 1, Offset: 2 << 20})
	require.NoError(t, err)
	require.Equal(t, defaultSize-2<<20, size)
	size, err = attachTest(t, Config{Path: path, Node: 1, Size: 1 << 20})
	require.NoError(t, err)
	require.Equal(t, 1<<20, size)
	_, err = attachTest(t, Config{Path: path, Node: 1, Offset: 100})
	require.ErrorContains(t, err, "offset=100; the file needs a multiple of 4096")
	_, err = attachTest(t, Config{Path: path, Node: 1, Offset: 1 << 30, Wait: 1})
	require.ErrorContains(t, err, "offset=1073741824, and the file has 67108864 bytes")
	_, err = attachTest(t, Config{Path: path, Node: 1, Size: 1 << 30, Wait: 1})
	require.ErrorContains(t, err, "size=1073741824, and the file has 67108864 bytes from offset=0 on")

	size, err = attachTest(t, Config{Path: path, Size: 80 << 20, Offset: 4096})
	require.NoError(t, err, "node 0 makes it larger")
	require.Equal(t, 80<<20, size)
	size, err = attachTest(t, Config{Path: path})
	require.NoError(t, err)
	require.Equal(t, 80<<20+4096, size, "and not smaller")
}

// The wait for the file and the wait for what is in it are one.
func TestWaitingForTheFile(t *testing.T) {
	var out strings.Builder
	w := newWorld(t, 1)
	cfg := Config{Node: 1, Path: filepath.Join(t.TempDir(), "pool"), Wait: time.Minute, Log: slog.New(slog.NewTextHandler(&out, nil))}
	timer := hookedTimer{worldTimer{w, nil}, func() {}}
	began := w.now
	_, err := attach(t.Context(), &cfg, &waiting{}, timer)
	require.ErrorContains(t, err, "no pool after 1m0s: the file is not there yet")
	require.Equal(t, cfg.Wait, w.now.Sub(began))
	require.Equal(t, 1, strings.Count(out.String(), "level=INFO"))
	require.Equal(t, 1, strings.Count(out.String(), "level=WARN"))
	require.Equal(t, 2, strings.Count(out.String(), `why="the file is not there yet`))

	out.Reset()
	told := waiting{began: w.now.Add(-cfg.Wait / 2), warned: true}
	_, err = attach(t.Context(), &cfg, &told, timer)
	require.Error(t, err)
	require.Equal(t, cfg.Wait*3/2, w.now.Sub(began))
	require.Empty(t, out.String(), "it is told already")
}

// A memfd of another process is a pool, and cannot be made shorter from then on.
func TestMemfd(t *testing.T) {
	f := memfd(t, 1<<20)
	path := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	size, err := attachTest(t, Config{Path: path, Node: 1})
	require.NoError(t, err)
	require.Equal(t, 1<<20, size)
	require.Error(t, f.Truncate(4096), "it is sealed")
}

func TestNoPool(t *testing.T) {
	_, err := attachTest(t, Config{Path: "/dev/null"})
	require.ErrorContains(t, err, "it is a character device, and not a DAX device")
	_, err = attachTest(t, Config{Path: "/dev/dax77.7"})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = os.Stat("/dev/dax77.7")
	require.ErrorIs(t, err, os.ErrNotExist, "a device is not made")
	require.NotErrorIs(t, err, errNotYet, "nobody will make it")
	_, err = attachTest(t, Config{Path: t.TempDir()})
	require.ErrorContains(t, err, "is a directory")
	for node := range 2 { // node 1 does not wait: node 0 makes files only
		_, err = attachTest(t, Config{Path: "/nosuchdir/x", Node: node})
		require.EqualError(t, err, "the directory /nosuchdir does not exist", "node %d", node)
	}
	require.Equal(t, []bool{true, true, true, false, false, false}, []bool{
		isDevice("/dev/dax0.0"), isDevice("/proc/5/fd/3"), isDevice("/sys/bus/pci/devices/0000:00:04.0/resource2"),
		isDevice("/dev/shm/pool"), isDevice("/dev/hugepages/pool"), isDevice("/tmp/dev/pool")})
}

// A DAX device's size and alignment are those that the kernel writes into sysfs.
func TestDAX(t *testing.T) {
	dir := t.TempDir()
	_, err := examineDAX(dir)
	require.ErrorContains(t, err, "not a DAX device")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "size"), []byte("1073741824\n"), 0o600))
	w, err := examineDAX(dir)
	require.NoError(t, err)
	require.Equal(t, file{size: 1 << 30, unit: 2 << 20, kind: "the DAX device"}, w)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "align"), []byte("1073741824\n"), 0o600))
	w, err = examineDAX(dir)
	require.NoError(t, err)
	require.EqualValues(t, 1<<30, w.unit)

	w.unit = 2 << 20
	size, err := w.part(&Memory{Size: 5 << 20})
	require.NoError(t, err)
	require.EqualValues(t, 4<<20, size, "whole units")
	_, err = w.part(&Memory{Size: 1 << 20})
	require.ErrorContains(t, err, "the DAX device has less than 2097152 bytes")
	_, err = w.part(&Memory{Offset: 1 << 30})
	require.ErrorContains(t, err, "offset=1073741824; the DAX device has 1073741824 bytes")
	_, err = w.part(&Memory{Offset: 2 << 20, Size: 1 << 30})
	require.ErrorContains(t, err, "size=1073741824; the DAX device has 1071644672 bytes from offset=2097152 on")
}

// memfd returns a file as another process may have made it.
func memfd(t *testing.T, size int) *os.File {
	t.Helper()
	r, err := shm.Create("pool", size)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r.File()
}
