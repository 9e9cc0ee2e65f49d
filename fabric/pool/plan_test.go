package pool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/packetring"
)

// Node 0 divides memory of any size, or says how much is needed.
func TestPlan(t *testing.T) {
	for _, row := range []struct {
		memory uint64
		cfg    Config
		want   header
		err    string
	}{
		{memory: 64 << 20, want: header{nodes: 8, size: 62885888, mtu: 16 << 10, ring: packetring.Geometry{Slots: 512, Data: 1 << 20}}},
		{memory: 256 << 20, want: header{nodes: 8, size: 62885888, mtu: 16 << 10, ring: packetring.Geometry{Slots: 512, Data: 1 << 20}}},
		{memory: 16 << 20, want: header{nodes: 8, size: 11505664, mtu: 16 << 10, ring: packetring.Geometry{Slots: 512, Data: 128 << 10}}},
		{memory: 16 << 20, cfg: Config{Nodes: 2}, want: header{nodes: 2, size: 2502656, mtu: 16 << 10, ring: packetring.Geometry{Slots: 512, Data: 1 << 20}}},
		{memory: 64 << 20, cfg: Config{Node: 11}, want: header{nodes: 12, size: 44060672, mtu: 16 << 10, ring: packetring.Geometry{Slots: 512, Data: 256 << 10}}},
		{memory: 2 << 20, cfg: Config{Nodes: 2, Data: 512 << 10, MTU: 60000}, want: header{nodes: 2, size: 1454080, mtu: 60000, ring: packetring.Geometry{Slots: 512, Data: 512 << 10}}},
		{memory: 1 << 20, err: "1048576 bytes are too few for 8 nodes with rings of 512 slots and 16384 bytes of data: 5083136 are needed; give it more (size=), or less to hold (nodes=, slots=, data=)"},
		{memory: 1 << 20, cfg: Config{Nodes: 2, Data: 4096, MTU: 4096}, err: "MTU 4096; a multiple of 4 from 256 to 2008 is possible with a data area of 4096 bytes"},
		{memory: 64 << 20, cfg: Config{Nodes: 2, Data: 64}, err: "MTU 8; a multiple of 4 from 256 to -8 is"},
	} {
		h, err := plan(&row.cfg, row.memory)
		if row.err != "" {
			require.ErrorContains(t, err, row.err)
			continue
		}
		require.NoError(t, err)
		row.want.identity = 1
		require.Equal(t, row.want, h)
		var b [headerSize]byte
		h.put(&b)
		again, err := parseHeader(&b, row.memory)
		require.NoError(t, err)
		require.Equal(t, h, again)
	}
}

// Rings do not overlap, and are inside of the pool.
func TestRings(t *testing.T) {
	h, err := plan(&Config{Nodes: 5, Data: 4096, MTU: 256}, 64<<20)
	require.NoError(t, err)
	seen := map[uint64]bool{}
	for from := range 5 {
		for to := range 5 {
			if from == to {
				continue
			}
			at := h.ringAt(from, to)
			require.False(t, seen[at])
			seen[at] = true
			require.Zero(t, (at-ringsAt)%h.stride())
			require.LessOrEqual(t, at+h.stride(), h.size)
		}
	}
	require.Len(t, seen, h.rings())
	require.LessOrEqual(t, linkAt(0, MaxNodes)-nodeAt(0), uint64(describeAt))
	require.LessOrEqual(t, describeAt+describeSize, nodeSize)
	require.LessOrEqual(t, boardHead+words(board.Max), boardSize)
}

func TestParse(t *testing.T) {
	cfg, err := Parse("/dev/shm/p,node=3,nodes=4,coherence=none,size=64M,offset=2m,slots=64,data=256k,mtu=4096,dead=1s,wait=5s")
	require.NoError(t, err)
	require.Equal(t, Config{Path: "/dev/shm/p", Node: 3, Nodes: 4, Incoherent: true, Size: 64 << 20, Offset: 2 << 20, Slots: 64, Data: 256 << 10,
		MTU: 4096, Dead: time.Second, Wait: 5 * time.Second}, cfg)
	cfg, err = Parse("p,node=0,coherence=full,size=1G,data=64")
	require.NoError(t, err)
	require.Equal(t, Config{Path: "p", Size: 1 << 30, Data: 64}, cfg)
	for text, want := range map[string]string{
		"":                          "a path and a node are needed: pool:PATH,node=N",
		"p":                         "a path and a node are needed",
		",node=1":                   "a path and a node are needed",
		"p,node=x":                  `option "node=x": a number is needed`,
		"p,node=-1":                 "a number is needed",
		"p,node=16":                 "node 16; 0 to 15 are possible",
		"p,node=2,nodes=2":          "node 2 of 2; 0 to 1 are possible",
		"p,node=0,nodes=17":         "17 nodes; 2 to 16 are possible",
		"p,node=0,size=1T":          `option "size=1T": a number of bytes is needed, such as 64M`,
		"p,node=0,size=9999999999G": "a number of bytes is needed",
		"p,node=0,size=":            "a number of bytes is needed",
		"p,node=0,slots=3":          "3 slots; a power of two",
		"p,node=0,data=65":          "data area of 65 bytes; a multiple of 64",
		"p,node=0,mtu=255":          "MTU 255; a multiple of 4 from 256 to 65492 is possible",
		"p,node=0,mtu=258":          "MTU 258",
		"p,node=0,dead=1ms":         "dead=1ms; 100ms is the least",
		"p,node=0,dead=x":           "invalid duration",
		"p,node=0,wait=-1s":         "wait=-1s",
		"p,node=0,coherence=some":   "none and full are possible",
		"p,node=0,nod=1":            `no option "nod"; node, nodes,`,
	} {
		_, err := Parse(text)
		assert.ErrorContains(t, err, want, text)
	}
	require.ErrorContains(t, (&Config{Name: string(make([]byte, 65))}).check(), "a name of 65 bytes")
	require.ErrorContains(t, (&Config{Addresses: make([]Address, 129)}).check(), "129 addresses")
}
