//go:build linux && (amd64 || arm64)

package ucx

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/ucx/ucxtest"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

// An engine in these tests is only the two rings of its port.
type testDevice struct {
	guid   uint64
	cfg    nic.PortConfig
	up     atomic.Bool
	bell   chan bool
	closed atomic.Bool
	heard  sync.Map // the last report of the links, by GUID
}

func (d *testDevice) SetAnnounced(_ any, guid uint64, list []board.Entry) { d.heard.Store(guid, list) }

func (d *testDevice) GUID() uint64                                 { return d.guid }
func (d *testDevice) AddPort(cfg nic.PortConfig) (nic.Port, error) { d.cfg = cfg; return d, nil }
func (d *testDevice) Arrived() {
	select {
	case d.bell <- true:
	default:
	}
}
func (d *testDevice) SetUp(up bool)                               { d.up.Store(up) }
func (d *testDevice) SendManagement(uint32, []byte, []byte) error { return nil }
func (d *testDevice) Stats() nic.PortStats                        { return nic.PortStats{Up: d.up.Load()} }
func (d *testDevice) PathCounts() map[uint32]nic.PathCounts       { return nil }
func (d *testDevice) Trim()                                       {}
func (d *testDevice) Close() error                                { d.closed.Store(true); return nil }

// looks is how often poll looks without a pause: for longer than a packet takes to a process that has a core.
const looks = 5000

// poll waits as an engine that is awake: at first it looks again and again.
func poll(t testing.TB, what string, done func() bool) {
	t.Helper()
	for range looks {
		if done() {
			return
		}
		runtime.Gosched()
	}
	await.Until(t, what, done)
}

// send puts a packet into the ring to the carrier, and waits for room.
func (d *testDevice) send(t testing.TB, path uint32, head, payload []byte) {
	t.Helper()
	poll(t, "the ring to the carrier has room", func() bool {
		h, p, ok := d.cfg.Send.Reserve(len(head), len(payload))
		if ok {
			copy(h, head)
			copy(p, payload)
			d.cfg.Send.Publish(path)
			d.cfg.Wake()
		}
		return ok
	})
}

// receive takes a packet from the ring.
func (d *testDevice) receive(t testing.TB, p *packetring.Packet) {
	t.Helper()
	poll(t, "a packet has come", func() bool {
		ok, err := d.cfg.Receive.Next(p)
		if err != nil {
			require.NoError(t, err)
		}
		return ok
	})
}

// sleep takes a packet from the ring, and sleeps until there is one, as an engine without work.
func (d *testDevice) sleep(t testing.TB, p *packetring.Packet) {
	d.cfg.Asleep(true)
	for {
		require.NoError(t, shm.Barrier())
		ok, err := d.cfg.Receive.Next(p)
		require.NoError(t, err)
		if ok {
			break
		}
		await.Receive(t, "the process has rung", d.bell)
		d.cfg.Asleep(true) // the process answers each number once
	}
	d.cfg.Asleep(false)
	d.cfg.Receive.Free()
}

// freePort returns an address without a listener.
func freePort(t testing.TB) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.TCP(t)))
}

// testConfig adds what all tests need to a configuration.
func testConfig(t testing.TB, cfg Config) Config {
	ucxtest.NeedUCX(t)
	if cfg.Program == "" {
		cfg.Program = ucxtest.Program(t)
	}
	if cfg.Dead == 0 {
		cfg.Dead = time.Minute // a machine may be busy for longer than the usual second
	}
	if cfg.Env == nil {
		cfg.Env = []string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo"}
	}
	if testing.Verbose() && cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return cfg
}

func open(t testing.TB, guid uint64, cfg Config) (*Carrier, *testDevice) {
	t.Helper()
	d := &testDevice{guid: guid, bell: make(chan bool, 1)}
	c, err := Open(await.Context(t), d, testConfig(t, cfg))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, d
}

// peerUp reports whether a peer is up.
func peerUp(c *Carrier, guid uint64) bool {
	for _, p := range c.Peers() {
		if p.GUID == guid {
			return p.Up
		}
	}
	return false
}

func upTo(t testing.TB, c *Carrier, guid uint64) uint32 {
	t.Helper()
	await.Until(t, fmt.Sprintf("engine %d is up", guid), func() bool { return peerUp(c, guid) }, func() any { return c.Peers() })
	path, ok := c.Route(nic.Address{GUID: guid})
	require.True(t, ok)
	return path.Number
}

// A side is one end of a link in a test.
type side struct {
	*Carrier
	d    *testDevice
	path uint32 // to the other
}

// pair links two engines, 1 and 2. The second connects to the first.
func pair(t testing.TB, one, two Config) (a, b side, address string) {
	t.Helper()
	address = freePort(t)
	one.Listen, two.Connect = address, []string{address}
	a.Carrier, a.d = open(t, 1, one)
	b.Carrier, b.d = open(t, 2, two)
	a.path, b.path = upTo(t, a.Carrier, 2), upTo(t, b.Carrier, 1)
	return a, b, address
}

var _ fabric.Link = (*Carrier)(nil)

// drain empties the ring of an engine.
func drain(s side) {
	var p packetring.Packet
	for {
		if ok, _ := s.d.cfg.Receive.Next(&p); !ok {
			break
		}
	}
	s.d.cfg.Receive.Free()
}
