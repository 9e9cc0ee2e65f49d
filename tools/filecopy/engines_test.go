package main

import (
	"encoding/json"
	"net"
	"os"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// linked waits until the engine at a socket says that its link to the other engine is up.
func linked(t *testing.T, socket string) {
	t.Helper()
	var links []struct{ Peers []struct{ Up bool } }
	await.Until(t, socket+" has a link", func() bool {
		conn, err := net.Dial("unix", socket+nicless.LinksSuffix)
		require.NoError(t, err)
		links = nil
		require.NoError(t, json.NewDecoder(conn).Decode(&links))
		require.NoError(t, conn.Close())
		return len(links) == 1 && len(links[0].Peers) > 0 && links[0].Peers[0].Up
	}, func() any { return links })
}

// The receiver and the sender have an engine each, and the engines share a pool.
func TestTwoEngines(t *testing.T) {
	memory, err := os.MkdirTemp("/dev/shm", "filecopy")
	if err != nil {
		t.Skipf("a pool needs memory in /dev/shm: %v", err)
	}
	defer os.RemoveAll(memory)
	p := newPlace(t)
	const size = 5_000_001
	in := p.input(t, size)
	a := p.start(t, "-role", "engine", "-socket", "a.sock", "-link", "pool:"+memory+"/pool,node=0,nodes=2")
	b := p.start(t, "-role", "engine", "-socket", "b.sock", "-link", "pool:"+memory+"/pool,node=1")
	linked(t, p.path("a.sock"))
	linked(t, p.path("b.sock"))
	for range 2 {
		recv := p.start(t, "-role", "recv", "-socket", "a.sock", "-peer", "peer.sock", "-out", "out", "-chunk", "100000")
		r := p.run(t, "-role", "send", "-socket", "b.sock", "-peer", "peer.sock", "-in", in)
		require.Zero(t, r.code, r.stderr)
		assert.Equal(t, result{}, recv.wait())
		requireContent(t, p.path("out"), content(size))
		require.NoError(t, os.Remove(p.path("out")))
	}

	// The receiver's engine is killed in the middle of a copy: the sender notices, and nothing is kept.
	recv := p.start(t, "-role", "recv", "-socket", "a.sock", "-peer", "peer.sock", "-out", "out", "-chunk", "4096")
	send := p.command(t, "-role", "send", "-socket", "b.sock", "-peer", "peer.sock", "-in", "/dev/stdin")
	pipe, err := send.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, send.Start())
	_, err = pipe.Write(content(1 << 20))
	require.NoError(t, err)
	require.NoError(t, a.cmd.Process.Signal(unix.SIGKILL))
	assert.Equal(t, result{1, "", "filecopy: error: the engine has stopped\n"}, recv.wait())
	require.Error(t, send.Wait())
	assert.Equal(t, 1, send.ProcessState.ExitCode())
	assert.NoFileExists(t, p.path("out"))
	_ = a.cmd.Wait()
	for _, left := range []string{"a.sock", "a.sock.lock", "a.sock.links"} {
		_ = os.Remove(p.path(left)) // of the engine that was killed
	}
	b.end(t)
}

// Without a link between them, engines say so.
func TestTwoEnginesApart(t *testing.T) {
	p := newPlace(t)
	in := p.input(t, 1000)
	a := p.start(t, "-role", "engine", "-socket", "a.sock")
	b := p.start(t, "-role", "engine", "-socket", "b.sock")
	recv := p.start(t, "-role", "recv", "-socket", "a.sock", "-peer", "peer.sock", "-out", "out")
	r := p.run(t, "-role", "send", "-socket", "b.sock", "-peer", "peer.sock", "-in", in)
	assert.Equal(t, 1, r.code)
	const want = `the peer's device is [0-9a-f]{16}, this one is [0-9a-f]{16}; no link leads there`
	assert.Regexp(t, want, r.stderr)
	assert.Regexp(t, want, recv.wait().stderr)
	a.end(t)
	b.end(t)
}
