//go:build linux && (amd64 || arm64)

package netdev

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
)

// looks is how often poll looks without a pause: for longer than an interface needs that has a core.
const looks = 1000

// poll waits for what comes at once on a machine that is not busy.
func poll(t *testing.T, what string, done func() bool, state ...func() any) {
	t.Helper()
	for range looks {
		if done() {
			return
		}
		runtime.Gosched()
	}
	await.Until(t, what, done, state...)
}

// A wire stands for the kernel: packets that it sends, and packets that it is given.
type wire struct {
	in     chan []byte
	out    chan []byte
	closed chan struct{}
	once   sync.Once
}

func newWire() *wire {
	return &wire{in: make(chan []byte), out: make(chan []byte, 1024), closed: make(chan struct{})}
}

func (w *wire) Read(b []byte) (int, error) {
	select {
	case p := <-w.in:
		return copy(b, p), nil
	case <-w.closed:
		return 0, os.ErrClosed
	}
}

// Write waits while out is full, as a program that is stopped does.
func (w *wire) Write(head, rest []byte) error {
	select {
	case w.out <- bytes.Join([][]byte{head, rest}, nil):
		return nil
	case <-w.closed:
		return os.ErrClosed
	}
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

// serve runs an engine for the test.
func serve(t *testing.T) (socket string) {
	t.Helper()
	socket, _ = serveUntil(t)
	return socket
}

// serveUntil runs an engine until stop is called, or the test ends.
func serveUntil(t *testing.T) (socket string, stop func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "nd")
	require.NoError(t, err)
	socket = filepath.Join(dir, "e")
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- nicless.Serve(ctx, socket, 0o600, nicless.Config{}, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		require.NoError(t, err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
		_ = os.RemoveAll(dir)
	})
	t.Cleanup(stop)
	return socket, stop
}

// A node is an interface with a wire in place of the kernel.
type node struct {
	t      *testing.T
	socket string
	addr   netip.Addr
	wire   *wire
	c      *nicless.Context
	in     *Interface
	stop   func()
	ahead  atomic.Int64              // how far the interface's clock is ahead, in nanoseconds
	looked atomic.Int64              // how often the interface has looked at its clock: once in each look
	still  atomic.Pointer[time.Time] // where its clock stands; nil: it goes
}

// start starts an interface on an engine.
func start(t *testing.T, socket, address string, change ...func(*Config)) *node {
	t.Helper()
	c, err := nicless.Dial(socket)
	require.NoError(t, err)
	n := startOn(t, c, address, change...)
	n.socket = socket
	return n
}

func startOn(t *testing.T, c *nicless.Context, address string, change ...func(*Config)) *node {
	t.Helper()
	n := openOn(t, c, address, change...)
	n.run()
	return n
}

// openOn opens an interface that does not run yet.
func openOn(t *testing.T, c *nicless.Context, address string, change ...func(*Config)) *node {
	t.Helper()
	n := &node{t: t, addr: netip.MustParseAddr(address), wire: newWire(), c: c}
	cfg := Config{Name: "test" + address[len(address)-1:], MTU: 65520, Addresses: []netip.Addr{n.addr}}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	n.in, err = Open(c, n.wire, cfg)
	require.NoError(t, err)
	n.in.lookShare = 0 // tests have nothing else to do
	// An interface or an engine that has no core loses no packet for that.
	n.in.openTime, n.in.endTime = time.Hour, time.Hour
	n.in.now = func() time.Time {
		n.looked.Add(1)
		now := n.still.Load()
		if now == nil {
			real := time.Now()
			now = &real
		}
		return now.Add(time.Duration(n.ahead.Load()))
	}
	return n
}

// run runs the interface until stop is called, or the test ends.
func (n *node) run() {
	t, c := n.t, n.c
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.in.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, c.Close())
	})
	t.Cleanup(n.stop)
}

// passes lets time pass for the interface, which sees before and after it that nothing happens.
func (n *node) passes(d time.Duration) {
	n.t.Helper()
	for _, step := range []time.Duration{sweepPause, d} {
		n.ahead.Add(int64(step))
		for range 2 { // the first look may have begun before
			before := n.looked.Load()
			n.in.again()
			poll(n.t, "it looks", func() bool { return n.looked.Load() > before })
		}
	}
}

// stand stops the interface's clock: then time passes for it by passes only, however long the test takes. A
// dial that has failed is not repeated meanwhile.
func (n *node) stand() {
	now := time.Now()
	n.still.Store(&now)
}

// goOn lets the clock go on.
func (n *node) goOn() { n.still.Store(nil) }

// slotsOf returns what gives a node slots in a file.
func slotsOf(t *testing.T, path string, node int) func(*Config) {
	t.Helper()
	s, err := OpenSlots(SlotsConfig{Path: path, Size: 4 << 20, Node: node, Nodes: 4})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) }) // after the node has stopped
	return func(cfg *Config) { cfg.Slots = s }
}

// peer waits until other is a peer, and returns it.
func (n *node) peer(other netip.Addr) (p *peer) {
	n.t.Helper()
	await.Until(n.t, n.addr.String()+": it finds "+other.String(), func() bool {
		p = n.in.routes.Load().byAddress[other]
		return p != nil
	}, func() any { return n.in.Stats() })
	return p
}

// meets waits until other is a peer, and opens a session.
func (n *node) meets(other *node) {
	n.t.Helper()
	p := n.peer(other.addr)
	p.want()
	n.until("it meets "+other.addr.String(), func(s Stats) bool {
		for _, p := range s.Peers {
			if p.Up && p.Addresses[0] == other.addr {
				return true
			}
		}
		return false
	})
}

func (n *node) until(what string, enough func(s Stats) bool) {
	n.t.Helper()
	await.Until(n.t, n.addr.String()+": "+what, func() bool { return enough(n.in.Stats()) }, func() any { return n.in.Stats() })
}

// sends has the kernel send a packet with size bytes of payload.
func (n *node) sends(to netip.Addr, size int, number uint32) {
	n.t.Helper()
	p := packet(n.addr, to, size, number)
	poll(n.t, "the interface reads", func() bool {
		select {
		case n.wire.in <- p:
			return true
		default:
			return false
		}
	}, func() any { return n.in.Stats() })
}

// gets waits for the next packet for the kernel, and returns it.
func (n *node) gets() (b []byte) {
	n.t.Helper()
	poll(n.t, "a packet has come", func() bool {
		select {
		case b = <-n.wire.out:
			return true
		default:
			return false
		}
	}, func() any { return n.in.Stats() })
	return b
}

// packet returns a virtio header and a packet of UDP whose payload repeats a number.
func packet(from, to netip.Addr, size int, number uint32) []byte {
	const udp = 8
	var b []byte
	if from.Is4() {
		b = make([]byte, HeaderSize+20+udp+size)
		p := b[HeaderSize:]
		p[0], p[8], p[9] = 0x45, 64, 17
		be.PutUint16(p[2:], uint16(len(p)))
		copy(p[12:], from.AsSlice())
		copy(p[16:], to.AsSlice())
		be.PutUint16(p[10:], checksum(p[:20]))
		be.PutUint16(p[24:], uint16(udp+size))
	} else {
		b = make([]byte, HeaderSize+40+udp+size)
		p := b[HeaderSize:]
		p[0], p[6], p[7] = 0x60, 17, 64
		be.PutUint16(p[4:], uint16(udp+size))
		copy(p[8:], from.AsSlice())
		copy(p[24:], to.AsSlice())
		be.PutUint16(p[44:], uint16(udp+size))
	}
	for i := len(b) - size; i < len(b); i++ {
		b[i] = byte(number>>(i&3*8)) + byte(i>>2)
	}
	return b
}

// client returns a client of an engine that other interfaces can dial. It does not answer.
func client(t *testing.T, socket string) *nicless.Context {
	t.Helper()
	c, err := nicless.Dial(socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = c.ListenName(dialled, nicless.ListenConfig{})
	require.NoError(t, err)
	return c
}
