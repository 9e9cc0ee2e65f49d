//go:build linux && (amd64 || arm64)

package ucx

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Packets of all sizes, both ways at once, more than the rings hold.
func TestPackets(t *testing.T) {
	for name, env := range transports {
		t.Run(name, func(t *testing.T) { testPackets(t, Config{Env: env}, Config{Env: env}) })
	}
}

func testPackets(t *testing.T, one, two Config) {
	one.Slots, one.Data = 64, 256<<10
	two.Slots, two.Data, two.Name = 128, 512<<10, "two"
	a, b, _ := pair(t, one, two)
	require.True(t, a.d.up.Load() && b.d.up.Load())
	rounds := explore.Rounds(600, 3000)
	sizes := []int{0, 1, 63, 64, 99, 100, 101, 112, 256, 1000, 4096, 8000, 8192, 16384, 32767, defaultMTU, defaultMTU + headroom}
	make := func(seed uint64, n int) (head, payload []byte) {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		size := sizes[n%len(sizes)]
		if n >= len(sizes) {
			size = rng.IntN(1 << rng.IntN(15))
		}
		head, payload = make([]byte, 12+rng.IntN(packetring.MaxHead-11)), make([]byte, size)
		for i := range head {
			head[i] = byte(rng.Uint32())
		}
		for i := range payload {
			payload[i] = byte(rng.Uint32())
		}
		return head, payload
	}
	done := [4]chan bool{}
	for i, s := range []side{a, b} {
		done[i], done[i+2] = newDone(), newDone()
		go func() {
			defer close(done[i])
			for n := range rounds {
				head, payload := make(uint64(i), n)
				s.d.send(t, s.path, head, payload)
			}
		}()
		go func() {
			defer close(done[i+2])
			var p packetring.Packet
			for n := range rounds {
				s.d.receive(t, &p)
				head, payload := make(uint64(1-i), n)
				if !assert.Equal(t, s.path, p.Path) || !assert.Equal(t, head, p.Head[:p.N]) || !assert.True(t, bytes.Equal(payload, p.Payload), "payload %d", n) {
					return
				}
				if n%7 == 0 {
					s.d.cfg.Receive.Free()
				}
			}
			s.d.cfg.Receive.Free()
		}()
	}
	for _, d := range done {
		<-d
	}
	await.Until(t, "both are counted", func() bool {
		return a.Peers()[0].Stats.Sent == uint64(rounds) && b.Peers()[0].Stats.Received == uint64(rounds)
	}, func() any { return a.About() }, func() any { return b.About() })
	assert.Equal(t, "two", a.Peers()[0].Name)
	assert.Zero(t, a.Dropped(2)+b.Dropped(1))
}

func newDone() chan bool { return make(chan bool) }

// Addresses that an engine announces, also later, lead to it.
func TestRoute(t *testing.T) {
	gid, later := [16]byte{1, 2, 3}, [16]byte{4, 5, 6}
	a, b, _ := pair(t, Config{MTU: 1024}, Config{MTU: 4096, Addresses: []Address{{GID: gid}, {LID: 7}}})
	for _, to := range []nic.Address{{GUID: 2}, {GID: gid}, {LID: 7}} {
		path, ok := a.Route(to)
		require.True(t, ok, "%+v", to)
		require.Equal(t, nic.Path{Port: a.d, Number: a.path, Source: a.path, MTU: 1024}, path)
	}
	for _, to := range []nic.Address{{GUID: 3}, {GID: later}, {LID: 8}, {}, {GID: [16]byte{9}, LID: 7}} {
		_, ok := a.Route(to)
		require.False(t, ok, "%+v", to)
	}
	ports := a.Ports()
	require.Len(t, ports, 1, "with a LID")
	require.Equal(t, fabric.Port{Engine: 2, Name: ports[0].Name, Up: true, LID: 7}, ports[0])
	require.NoError(t, b.SetAddresses([]Address{{GID: later}}))
	await.Until(t, "the new address leads to it", func() bool {
		_, ok := a.Route(nic.Address{GID: later})
		return ok
	})
	_, ok := a.Route(nic.Address{GID: gid})
	require.False(t, ok)
	require.Error(t, b.SetAddresses(make([]Address, MaxAddresses+1)))
}

// Several peers on one carrier; two of them also connect to each other, both ways.
// An address leads to the engine that is up, not to one that had the address before.
func TestRouteToTheLivingEngine(t *testing.T) {
	c, port := &Carrier{}, &testDevice{}
	to := nic.Address{GID: [16]byte{15: 1}}
	peer := func(number uint32, up bool) peerState {
		return peerState{Peer: fabric.Peer{Up: up}, path: nic.Path{Port: port, Number: number}, addresses: []Address{{GID: to.GID}}}
	}
	for _, row := range []struct {
		peers []peerState
		want  uint32
	}{
		{[]peerState{peer(1, false), peer(2, true)}, 2},
		{[]peerState{peer(1, true), peer(2, false)}, 1},
		// A newcomer does not take the address of one that is there.
		{[]peerState{peer(1, true), peer(2, true)}, 1},
		{[]peerState{peer(1, false), peer(2, false)}, 2},
		{[]peerState{{Peer: fabric.Peer{Name: "not connected"}}, peer(3, false)}, 3},
	} {
		c.state.Store(&state{peers: row.peers})
		path, ok := c.Route(to)
		require.True(t, ok)
		require.Equal(t, row.want, path.Number)
		_, ok = c.Route(nic.Address{GID: [16]byte{15: 2}})
		require.False(t, ok)
	}
}

func TestSeveralPeers(t *testing.T) {
	addresses := []string{freePort(t), freePort(t)}
	hub, hubDevice := open(t, 1, Config{Listen: addresses[0], Connect: addresses[1:]})
	spokes := make([]side, 4)
	for i := range spokes {
		cfg := Config{Connect: addresses[:1]}
		if i == 0 {
			cfg.Listen = addresses[1]
		}
		s := &spokes[i]
		s.Carrier, s.d = open(t, uint64(10+i), cfg)
		s.path = upTo(t, s.Carrier, 1)
	}
	var p packetring.Packet
	for round := range 100 {
		for i, s := range spokes {
			to := upTo(t, hub, uint64(10+i))
			hubDevice.send(t, to, make([]byte, 12), []byte{byte(round), byte(i)})
			s.d.receive(t, &p)
			require.Equal(t, []byte{byte(round), byte(i)}, p.Payload)
			s.d.cfg.Receive.Free()
			s.d.send(t, s.path, make([]byte, 12), make([]byte, 1000+i))
			hubDevice.receive(t, &p)
			require.Equal(t, to, p.Path)
			require.Len(t, p.Payload, 1000+i)
			hubDevice.cfg.Receive.Free()
		}
	}
}
