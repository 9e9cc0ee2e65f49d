//go:build linux && (amd64 || arm64)

package links

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/rendezvous"
	"github.com/stretchr/testify/require"
)

// A Dial that the client does not get, because it listens for another user, is answered by the way by which
// it came, and in place of the box: over a pool the dialler takes answers of no other.
func TestRefusedDials(t *testing.T) {
	a := &testLink{name: "a", guid: 5, gid: gid("192.0.2.7"), path: nic.Path{Port: &testPort{}, Number: 1}}
	table, dev := open(t, Options{}, a)
	dev.refusal = errors.New("not for this user")
	m := rendezvous.Message{Name: "db", Kind: rendezvous.Dial, ID: 5, Body: "d"}
	d := rendezvous.Datagram{Device: 5, From: 3, To: 4, Value: string(m.Append(nil))}
	port := a.path.Port.(*testPort)
	for name, come := range map[string]func(){
		"pool": func() { table.fromPeer(a.path, packetOf(d, 7)) },
		"RoCE": func() { table.fromRoCE(0, packetOf(d, 7)) },
	} {
		port.sent = nil
		come()
		require.Len(t, port.sent, 1, name)
		b := port.sent[0]
		require.Equal(t, name == "pool", len(b) == gsiHead+grhSize+rendezvous.Size, "a GRH comes first: %d bytes", len(b))
		got, err := rendezvous.ParseDatagram((*[rendezvous.Size]byte)(b[len(b)-rendezvous.Size:]))
		require.NoError(t, err)
		require.Equal(t, [3]uint64{dev.GUID(), 4, 3}, [3]uint64{got.Device, got.From, got.To})
		said, err := rendezvous.ParseMessage(got.Value)
		require.NoError(t, err)
		require.Equal(t, rendezvous.Message{Kind: rendezvous.Reject, ID: 5, Body: "not for this user"}, said)
	}
}

// Answers that a stranger can cause by a dial keep the local address open for no longer.
func TestAnswersOpenNothing(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	table, log := opened(t, Users{All: true}, "auto,address=10.66.0.0/24")
	own, user := netip.MustParseAddr(private4), nic.User{UID: 1}
	send := func(k rendezvous.Kind) error {
		m := rendezvous.Message{Kind: k, ID: 5}
		return table.sendMessage(nic.BoxMessage{GID: gid("10.66.0.9"), Number: 3, Value: string(m.Append(nil))}, 4, user)
	}
	for _, k := range []rendezvous.Kind{rendezvous.Hold, rendezvous.Reject} {
		require.ErrorIs(t, send(k), nic.ErrNoWay)
		require.False(t, isOpen(t, private4))
	}
	require.NoError(t, send(rendezvous.Accept))
	log.opens(t, private4)
	timer := func() any {
		table.mu.Lock()
		defer table.mu.Unlock()
		return table.held[own].timer
	}
	before := timer()
	require.NotNil(t, before)
	for _, k := range []rendezvous.Kind{rendezvous.Hold, rendezvous.Reject} {
		require.NoError(t, send(k))
		require.Same(t, before, timer())
	}
	require.NoError(t, send(rendezvous.Accept))
	require.NotSame(t, before, timer())
	table.options.Users = Users{UIDs: []uint32{2}}
	require.ErrorIs(t, send(rendezvous.Hold), nic.ErrDenied)
}
