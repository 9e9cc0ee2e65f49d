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
	first := packetring.Geometry{Slots: defaultSlots, Data: defaultData}
	for _, row := range []struct {
		memory uint64
		cfg    Config
		want   header
		err    string
	}{
		{memory: 64 << 20, want: header{nodes: 16, size: 67047424, mtu: 16 << 10, ring: first}},
		{memory: 1 << 30, want: header{nodes: 256, size: 1072697344, mtu: 16 << 10, ring: first}},
		{memory: 1 << 40, want: header{nodes: 1024, size: 1<<40 - 4<<20 + 4096, mtu: 16 << 10, ring: first}},
		{memory: 1 << 30, cfg: Config{Nodes: 1000}, want: header{nodes: 1000, size: 1073156096, mtu: 16 << 10, ring: first}},
		{memory: 16 << 20, want: header{nodes: 16, size: 16715776, mtu: 16 << 10, ring: first}},
		{memory: 8 << 20, want: header{nodes: 16, size: 8327168, mtu: 8 << 10, ring: packetring.Geometry{Slots: 64, Data: 24 << 10}}},
		{memory: 16 << 20, cfg: Config{Nodes: 2}, want: header{nodes: 2, size: 16773120, mtu: 16 << 10, ring: first}},
		{memory: 8 << 20, cfg: Config{Node: 19}, want: header{nodes: 20, size: 8359936, mtu: 4 << 10, ring: packetring.Geometry{Slots: 64, Data: 12 << 10}}},
		{memory: 2 << 20, cfg: Config{Nodes: 2, Data: 512 << 10, MTU: 60000}, want: header{nodes: 2, size: 2093056, mtu: 60000, ring: packetring.Geometry{Slots: 64, Data: 512 << 10}}},
		{memory: 256 << 10, err: "262144 bytes are too few for 16 nodes with a ring of 64 slots and 3072 bytes of data each: 462848 are needed; give it more (size=), or less to hold (nodes=, slots=, data=)"},
		{memory: 1 << 20, cfg: Config{Nodes: 2, Data: 4096, MTU: 4096}, err: "MTU 4096; a multiple of 4 from 256 to 2008 is possible with a data area of 4096 bytes"},
		{memory: 64 << 20, cfg: Config{Nodes: 2, Data: 64}, err: "MTU 20; a multiple of 4 from 256 to -8 is"},
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

// The words of a node have room where they are, and a pool of 1 GiB carries 1,000 nodes that talk with 16
// others each.
func TestRoom(t *testing.T) {
	require.LessOrEqual(t, describeAt+describeSize, boardAt)
	require.LessOrEqual(t, boardHead+words(board.Max), boardSize)
	for _, nodes := range []int{1000, MaxNodes} {
		h, err := plan(&Config{Nodes: nodes}, 1<<30)
		require.NoError(t, err)
		require.Equal(t, packetring.Geometry{Slots: defaultSlots, Data: defaultData}, h.ring)
		require.GreaterOrEqual(t, h.room(), 16)
		require.GreaterOrEqual(t, h.pairs(), 2*16)
	}
}

func TestParse(t *testing.T) {
	cfg, err := Parse("/dev/shm/p,node=3,nodes=4,coherence=none,size=64M,offset=2m,slots=64,data=256k,mtu=4096,dead=1s,wait=5s")
	require.NoError(t, err)
	require.Equal(t, Config{Path: "/dev/shm/p", Node: 3, Nodes: 4, Incoherent: true, Size: 64 << 20, Offset: 2 << 20, Slots: 64, Data: 256 << 10,
		MTU: 4096, Dead: time.Second, Wait: 5 * time.Second}, cfg)
	cfg, err = Parse("p,node=0,coherence=full,size=1G,data=64")
	require.NoError(t, err)
	require.Equal(t, Config{Path: "p", Size: 1 << 30, Data: 64, Coherent: true}, cfg)
	cfg, err = Parse("p,node=0,sums=on")
	require.NoError(t, err)
	require.Equal(t, Config{Path: "p", Sums: SumsOn}, cfg)
	cfg, err = Parse("p,node=0,sums=off")
	require.NoError(t, err)
	require.Equal(t, Config{Path: "p", Sums: SumsOff}, cfg)
	for text, want := range map[string]string{
		"":                          "a path is needed: pool:PATH",
		",node=1":                   "a path is needed",
		"p,node=x":                  `option "node=x": a number is needed`,
		"p,node=-1":                 "a number is needed",
		"p,node=1024":               "node 1024; 0 to 1023 are possible",
		"p,node=2,nodes=2":          "node 2 of 2; 0 to 1 are possible",
		"p,node=0,nodes=1025":       "1025 nodes; 2 to 1024 are possible",
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
		"p,node=0,coherence=some":   "host, full and none are possible",
		"p,node=0,sums=yes":         `option "sums=yes": on and off are possible`,
		"p,node=0,sums=":            "on and off are possible",
		"p,node=0,sums":             "on and off are possible",
		"p,node=0,nod=1":            `no option "nod"; node, nodes,`,
	} {
		_, err := Parse(text)
		assert.ErrorContains(t, err, want, text)
	}
	require.ErrorContains(t, (&Config{Name: string(make([]byte, 65))}).check(), "a name of 65 bytes")
	require.ErrorContains(t, (&Config{Addresses: make([]Address, 129)}).check(), "129 addresses")
}
