package verbs

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nicless/nicless/engine"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// serving runs an engine and a server in a directory, until stop or the test ends.
func serving(t *testing.T, devices int) (dir string, stop func()) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "n.verbs")
	e, err := engine.New(engine.Config{})
	require.NoError(t, err)
	running, end := context.WithCancel(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	started, ready := make(chan struct{}), make(chan struct{})
	ended, served := make(chan error, 1), make(chan error, 1)
	go func() { ended <- e.Run(running, func() { close(started) }) }()
	<-started
	go func() { served <- Serve(ctx, dir, e, Config{Devices: devices}, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-served:
		require.NoError(t, err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(t, <-served)
		end()
		require.NoError(t, <-ended)
	}
	t.Cleanup(stop)
	return dir, stop
}

func TestServe(t *testing.T) {
	dir, stop := serving(t, 2)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, "sys/class", name))
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, "6\n", read("infiniband_verbs/abi_version"))
	require.Equal(t, "1\n", read("infiniband_verbs/uverbs1/abi_version"))
	require.Equal(t, "231:193\n", read("infiniband_verbs/uverbs1/dev"))
	require.Equal(t, "nicless1\n", read("infiniband_verbs/uverbs1/ibdev"))
	require.Equal(t, "pci:v000015B3d00001019sv000015B3sd00000008bc02sc00i00\n", read("infiniband/nicless0/device/modalias"))
	require.NotEqual(t, read("infiniband/nicless0/node_guid"), read("infiniband/nicless1/node_guid"))

	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: filepath.Join(dir, SocketName), Net: "unixpacket"})
	require.NoError(t, err)
	defer conn.Close()
	ask := func(op wireOp, body []byte) (answer []byte, fds []int) {
		d := appendAnswer(nil, wireHeader{op: op, tag: 5}, 0, 0)
		le.PutUint16(d[2:], 0)
		_, err := conn.Write(finish(append(d, body...)))
		require.NoError(t, err)
		b, oob := make([]byte, maxDatagram), make([]byte, 64)
		n, oobn, _, _, err := conn.ReadMsgUnix(b, oob)
		require.NoError(t, err)
		files, err := received(oob[:oobn])
		require.NoError(t, err)
		for _, f := range files {
			t.Cleanup(func() { _ = f.Close() })
			fds = append(fds, int(f.Fd()))
		}
		require.Zero(t, le.Uint32(b[4:]))
		return b[headerSize:n], fds
	}
	hello := append(u32s(wireMagic), wireMajor, 0, wireMinor, 0)
	welcome, _ := ask(opHello, append(hello, u64s(0)...))
	require.Equal(t, uint32(2), le.Uint32(welcome[4:]))
	opened, fds := ask(opOpen, u64s(1))
	require.Len(t, fds, 1)
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(fds[0], &st))
	require.Equal(t, st.Ino, le.Uint64(opened))
	require.Equal(t, uint32(193), le.Uint32(opened[12:]))

	stop()
	b := make([]byte, 1)
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, err := conn.Read(b)
	require.Zero(t, n)
	require.False(t, os.IsTimeout(err), "the end is told")
	n, err = unix.Read(fds[0], b)
	require.NoError(t, err)
	require.Zero(t, n, "and to the context")
	require.NoDirExists(t, dir)
}

// Who says nothing sensible is not served, and nobody else notices.
func TestGarbageEndsTheConnection(t *testing.T) {
	dir, _ := serving(t, 1)
	addr := &net.UnixAddr{Name: filepath.Join(dir, SocketName), Net: "unixpacket"}
	for _, garbage := range [][]byte{{1}, make([]byte, 24), finish(appendAnswer(nil, wireHeader{op: opOpen}, 0, 0)), make([]byte, 200000)} {
		conn, err := net.DialUnix("unixpacket", nil, addr)
		require.NoError(t, err)
		_ = conn.SetWriteBuffer(1 << 20)
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = conn.Write(garbage)
		n, err := conn.Read(make([]byte, 100))
		require.Zero(t, n)
		require.False(t, os.IsTimeout(err))
		_ = conn.Close()
	}
	conn, err := net.DialUnix("unixpacket", nil, addr)
	require.NoError(t, err)
	_ = conn.Close()
}
