//go:build linux && (amd64 || arm64)

package links

import (
	"errors"
	"slices"
	"testing"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/rendezvous"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
)

// packetOf returns a packet for queue pair 1 with a message, as it comes from an IPv4 address.
func packetOf(d rendezvous.Datagram, from byte) []byte {
	mad := d.Put()
	grh := make([]byte, grhSize)
	grh[20] = 0x45
	copy(grh[32:], []byte{192, 0, 2, from})
	return slices.Concat(gsiHeader(), grh, mad[:])
}

// Messages go to a peer by its number, in one management datagram, and one that says it is of another
// engine is dropped. Other packets for queue pair 1 go where they went.
func TestMessagesBetweenPeers(t *testing.T) {
	a := &testLink{name: "a", guid: 5, path: nic.Path{Port: &testPort{}, Number: 1}}
	b := &testLink{name: "b", guid: 6, path: nic.Path{Port: &testPort{}, Number: 2}}
	table, dev := open(t, Options{}, a, b)
	require.NoError(t, table.sendMessage(nic.BoxMessage{Device: 6, Number: 9, User: 1000, Value: "hello"}, 8, nic.User{}))
	sent := b.path.Port.(*testPort).sent
	require.Len(t, sent, 1)
	require.Len(t, sent[0], gsiHead+grhSize+rendezvous.Size)
	d, err := rendezvous.ParseDatagram((*[rendezvous.Size]byte)(sent[0][gsiHead+grhSize:]))
	require.NoError(t, err)
	require.Equal(t, rendezvous.Datagram{Device: 77, From: 8, To: 9, Sender: 1001, Value: "hello"}, d)
	require.Empty(t, a.path.Port.(*testPort).sent)

	others := 0
	table.SetManagement(func([]byte, bool) { others++ })
	from5 := rendezvous.Datagram{Device: 5, From: 3, To: 4, Sender: 1001, Value: "x"}
	table.fromPeer(b.path, packetOf(from5, 1))
	_, ok := dev.got.Load(uint64(4))
	require.False(t, ok, "b speaks for a")
	table.fromPeer(a.path, packetOf(from5, 1))
	got, _ := dev.got.Load(uint64(4))
	require.Equal(t, nic.BoxMessage{Device: 5, Number: 3, User: 1000, Value: "x"}, got, "without an address")
	forged := packetOf(rendezvous.Datagram{Device: 5, From: 3, To: 6, Sender: 1, Value: "x"}, 1)
	packet.DETH{QKey: 0x80010000, SrcQP: 77}.Put((*[packet.DETHSize]byte)(forged[packet.BTHSize:]))
	table.fromPeer(a.path, forged)
	_, ok = dev.got.Load(uint64(6))
	require.False(t, ok, "a queue pair of a program speaks for its engine")
	bad := packetOf(from5, 1)
	bad[gsiHead+grhSize+41]++ // another version
	table.fromPeer(a.path, bad)
	require.Zero(t, others)
	mad := make([]byte, gsiHead+grhSize+rendezvous.Size)
	table.fromRoCE(0, mad)
	table.fromRoCE(0, packetOf(from5, 1)[:100])
	require.Equal(t, 2, others)
}

// Without a way to the engine the error is nic.ErrNoWay, and says why.
func TestMessagesWithoutAWay(t *testing.T) {
	table, _ := open(t, Options{})
	for _, to := range []nic.BoxMessage{{Device: 9}, {Device: 9, GID: gid("192.0.2.7")}, {}} {
		err := table.sendMessage(to, 8, nic.User{})
		require.ErrorIs(t, err, nic.ErrNoWay)
		require.False(t, errors.Is(err, nic.ErrDenied))
	}
}

// A message of a stranger finds only names that are for all, and its address is the one of its packet.
func TestNamedMessages(t *testing.T) {
	a := &testLink{name: "a", gid: gid("192.0.2.7"), path: nic.Path{Port: &testPort{}, Number: 1}}
	table, dev := open(t, Options{}, a)
	entry := func(client, user uint32, n rendezvous.Names) board.Entry {
		value, err := rendezvous.Join("own", n)
		require.NoError(t, err)
		return board.Entry{Client: client, User: user, Value: value}
	}
	list := []board.Entry{
		{Client: 1, User: board.AllUsers, Value: "db"},
		entry(2, board.AllUsers, rendezvous.Names{Box: 20, List: []string{"db", "twice"}}),
		entry(3, 1000, rendezvous.Names{Box: 30, List: []string{"db", "private"}}),
		entry(4, board.AllUsers, rendezvous.Names{Box: 40, List: []string{"twice"}}),
	}
	dev.announced.Store(&list)
	dial := func(name string, k rendezvous.Kind) rendezvous.Datagram {
		m := rendezvous.Message{Name: name, Kind: k, ID: 5, Body: "d"}
		return rendezvous.Datagram{Device: 123, From: 3, Value: string(m.Append(nil))}
	}
	found := dial("db", rendezvous.Dial)
	table.fromRoCE(0, packetOf(found, 7))
	got, _ := dev.got.Load(uint64(20))
	require.Equal(t, nic.BoxMessage{Device: 123, Number: 3, GID: gid("192.0.2.7"), User: nic.NoUser, Value: found.Value}, got)
	port := a.path.Port.(*testPort)
	require.Empty(t, port.sent)
	for name, why := range map[string]string{
		"private": `no client of engine 000000000000004d listens as "private" for all`, "none": "no client of engine", "twice": `2 clients of engine 000000000000004d listen as "twice"`,
	} {
		port.sent = nil
		table.fromRoCE(0, packetOf(dial(name, rendezvous.Dial), 7))
		require.Len(t, port.sent, 1)
		b := port.sent[0]
		d, err := rendezvous.ParseDatagram((*[rendezvous.Size]byte)(b[len(b)-rendezvous.Size:]))
		require.NoError(t, err)
		require.Equal(t, uint64(3), d.To)
		m, err := rendezvous.ParseMessage(d.Value)
		require.NoError(t, err)
		require.Equal(t, rendezvous.Reject, m.Kind)
		require.Contains(t, m.Body, why)
	}
	port.sent = nil
	table.fromRoCE(0, packetOf(dial("", rendezvous.Reject), 7))
	table.fromRoCE(0, packetOf(rendezvous.Datagram{Device: 1, From: 2, Value: "garbage"}, 7))
	require.Empty(t, port.sent, "only a Dial is answered")
}

// A stranger that says it is this engine, or a peer of a pool or UCX, is known by its address alone, to which
// answers and queue pairs then go.
func TestStrangersInTheNameOfPeers(t *testing.T) {
	a := &testLink{name: "a", guid: 5, gid: gid("192.0.2.7"), path: nic.Path{Port: &testPort{}, Number: 1}}
	table, dev := open(t, Options{}, a)
	for says, want := range map[uint64]uint64{5: 0, dev.GUID(): 0, 123: 123} {
		table.fromRoCE(0, packetOf(rendezvous.Datagram{Device: says, From: 3, To: 4, Sender: 1001, Value: "x"}, 7))
		got, _ := dev.got.Load(uint64(4))
		require.Equal(t, nic.BoxMessage{Device: want, Number: 3, GID: gid("192.0.2.7"), User: nic.NoUser, Value: "x"}, got, "it says %d", says)
	}
}
