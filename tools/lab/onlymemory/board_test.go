//go:build linux && (amd64 || arm64)

package onlymemory

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/edsrzf/mmap-go"
	"github.com/nicless/nicless"
	"github.com/stretchr/testify/require"
)

// findIvshmem finds the device among others and enables it.
func TestFindIvshmem(t *testing.T) {
	root := t.TempDir()
	put := func(dev string, files ...string) {
		require.NoError(t, os.Mkdir(filepath.Join(root, dev), 0o700))
		for i := 0; i < len(files); i += 2 {
			require.NoError(t, os.WriteFile(filepath.Join(root, dev, files[i]), []byte(files[i+1]), 0o600))
		}
	}
	put("0", "vendor", "0x1af4\n", "device", "0x1000\n", "enable", "0\n")
	_, err := findIvshmem(root)
	require.ErrorContains(t, err, "none of the 1 devices")
	put("1", "vendor", "0x8086\n", "device", "0x1110\n", "enable", "0\n")
	put("2", "vendor", "0x1af4\n", "device", "0x1110\n", "enable", "0\n")
	path, err := findIvshmem(root)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(root, "2", "resource2"), path)
	for dev, want := range map[string]string{"0": "0\n", "1": "0\n", "2": "1"} {
		b, err := os.ReadFile(filepath.Join(root, dev, "enable"))
		require.NoError(t, err)
		require.Equal(t, want, string(b))
	}
}

func words(t *testing.T, size uint64) []byte {
	t.Helper()
	mem, err := mmap.MapRegion(nil, int(size), mmap.RDWR, mmap.ANON, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = mem.Unmap() })
	return mem
}

// A board with a byte that is wrong is not read.
func TestBoard(t *testing.T) {
	b, err := boardOf(words(t, boardSize))
	require.NoError(t, err)
	_, _, err = b.get()
	require.ErrorIs(t, err, errBlank)
	text, err := json.Marshal(description{Nodes: []node{{Peer: 7}}})
	require.NoError(t, err)
	require.NoError(t, b.put(5, text))
	id, d, err := b.get()
	require.NoError(t, err)
	require.EqualValues(t, 5, id)
	require.Equal(t, 7, d.Nodes[0].Peer)
	for at := range textAt + len(text) {
		if at >= heartbeatAt && at < textAt {
			continue
		}
		b.Bytes()[at] ^= 1
		_, _, err := b.get()
		require.Error(t, err, "byte %d", at)
		b.Bytes()[at] ^= 1
	}
	require.Error(t, b.put(5, make([]byte, boardSize)))
	require.NoError(t, b.put(6, []byte("{")))
	_, _, err = b.get()
	require.ErrorContains(t, err, "the description: unexpected end of JSON input")
}

// The numbers of a description are checked, and so are the bytes that a peer writes.
func TestChecks(t *testing.T) {
	mem := words(t, 1<<16)
	cq := nicless.RawCQLayout{EntrySize: 64, Ring: nicless.Place{Offset: 2048, Size: 1024}, Record: nicless.Place{Offset: 8, Size: 8}}
	good := func() *description {
		n := node{Peer: 1, Memory: nicless.MemoryLayout{Place: nicless.Place{Offset: 1 << 14, Size: wordsSize + areas*64}}, QP: nicless.RawLayout{
			Send: nicless.Place{Offset: 4096, Size: 1024}, Record: nicless.Place{Size: 8}, Register: nicless.Place{Offset: 512, Size: 512}, SendCQ: cq, RecvCQ: cq,
		}}
		return &description{Nodes: []node{n, n}}
	}
	p, err := newPoster(posterConfig{node: 2}, mem, good())
	require.NoError(t, err)
	require.Equal(t, 64, p.size)
	for _, c := range []struct {
		node   int
		change func(*description)
		want   string
	}{
		{3, func(*description) {}, "there is no node 3, there are 2"},
		{2, func(d *description) { d.Nodes[1].Peer = 3 }, "node 2 has peer 3; 1 to 2 are possible"},
		{2, func(d *description) { d.Nodes[1].QP.Send.Offset = 1 << 20 }, "send ring"},
		{2, func(d *description) { d.Nodes[1].Memory.Offset = 1 << 16 }, "4288 bytes at offset 65536"},
		{2, func(d *description) { d.Nodes[1].Memory.Size = 8 }, "nodes 2 and 1 have memory of 8 and 4288 bytes"},
		{2, func(d *description) { d.Nodes[0].Memory.Size = 8 }, "nodes 2 and 1 have memory of 4288 and 8 bytes"},
	} {
		d := good()
		c.change(d)
		_, err := newPoster(posterConfig{node: c.node}, mem, d)
		require.ErrorContains(t, err, c.want)
	}

	y := &play{poster: p, number: 99}
	y.fill(1, func(at int) uint64 { return y.word(1, 3, at) })
	require.NoError(t, y.check(1, 1, 3))
	require.ErrorContains(t, y.check(1, 2, 3), "round 3 of node 2: ")
	require.Error(t, y.check(1, 1, 2))
	require.Error(t, y.check(2, 1, 3))
	for at := range 64 {
		p.mem.Bytes()[y.area(1)+at] ^= 0x10
		require.Error(t, y.check(1, 1, 3), "byte %d", at)
		p.mem.Bytes()[y.area(1)+at] ^= 0x10
	}
}
