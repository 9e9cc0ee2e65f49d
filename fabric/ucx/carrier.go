//go:build linux && (amd64 || arm64)

package ucx

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/auth"
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/nic"
)

// A Device is the part of an engine that a carrier uses; nic.Device has it.
type Device interface {
	GUID() uint64
	AddPort(nic.PortConfig) (nic.Port, error)
	SetAnnounced(link any, guid uint64, list []board.Entry)
}

// A Carrier is one port of an engine, behind which are the engines that UCX reaches. It
// implements fabric.Link.
type Carrier struct {
	cfg         Config
	dev         Device
	log         *slog.Logger
	strangerLog *slog.Logger    // for lines that strangers cause; it has its own limit
	keysLog     *slog.Logger    // for keys that are refused; it has its own limit too
	life        context.Context // ends when Close is called
	cancel      context.CancelFunc
	party       *auth.Party   // nil: there are no keys
	keyTime     time.Duration // as the constants, except in tests
	overlap     time.Duration
	program     string // path of the program
	release     func() // ends the use of the program's file
	mem         *memory
	port        nic.Port

	strangers strangers              // connections whose meeting is not over
	restarts  [endings]atomic.Uint64 // how often the process was started again, by cause

	mu             sync.Mutex
	listening      *port                         // of Config.Listen, where peers may connect; nil: none
	ports          map[netip.Addr]*port          // ports for connections of libucx only, by local address
	ready          chan struct{}                 // closed when process is set
	tickets        map[[ticketSize]byte]struct{} // tickets that were issued and not used
	bans           bans
	lastConnNumber uint32 // the number that was given to a connection last
	hello          hello
	process        *process      // nil: there is no process, or it is not ready
	down           string        // if process is nil: why
	startPause     time.Duration // the pause before the process was started last
	targets        []*target
	peers          map[uint64]*peer         // by GUID
	conns          map[uint32]*conn         // connections of the process, by number
	lastPathNumber uint32                   // the path number that was given to a peer last
	up             bool                     // whether the engine's port is up
	reported       map[uint64][]board.Entry // announcements that the engine was given, by GUID of the peer

	state atomic.Pointer[state]
	first chan error // result of the first start of the process
	once  sync.Once  // for first
	stop  chan struct{}
	ends  sync.Once
	loops sync.WaitGroup
}

// A state is what Route and Peers return. It is replaced, never changed.
type state struct {
	peers []peerState
}

type peerState struct {
	fabric.Peer
	path      nic.Path
	addresses []Address
	counts    *counts
}

var _ fabric.Link = (*Carrier)(nil)

// Open starts the carrier's process and gives the device a port. It returns when UCX works, or an
// error that says why it does not. Peers need not be there: they come up when they are. The
// caller closes the Carrier before the device.
func Open(ctx context.Context, dev Device, cfg Config) (*Carrier, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := newCarrier(dev, cfg)
	c.changed()
	err := c.prepare(ctx, dev)
	if err == nil {
		c.loops.Add(1)
		go c.supervise()
		select {
		case err = <-c.first:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	for _, t := range c.targets {
		c.loops.Add(1)
		go c.pursue(t)
	}
	return c, nil
}

// newCarrier returns a carrier that is not open. cfg has its defaults.
func newCarrier(dev Device, cfg Config) *Carrier {
	c := &Carrier{
		cfg: cfg, dev: dev, reported: map[uint64][]board.Entry{}, peers: map[uint64]*peer{},
		conns: map[uint32]*conn{}, first: make(chan error, 1), stop: make(chan struct{}),
		release: func() {}, ready: make(chan struct{}),
		ports: map[netip.Addr]*port{}, tickets: map[[ticketSize]byte]struct{}{}, bans: bans{},
		keyTime: keyTime, overlap: overlap, strangers: strangers{sources: map[netip.Addr]*bucket{}},
		hello: hello{
			guid: dev.GUID(), life: random(), mtu: cfg.MTU, name: cfg.Name, addresses: cfg.Addresses,
		},
	}
	c.life, c.cancel = context.WithCancel(context.Background())
	c.log = fabric.LimitLog(cfg.Log).With("link", c.Name())
	c.keysLog = fabric.LimitLog(cfg.Log).With("link", c.Name())
	c.strangerLog = fabric.LimitLog(cfg.Log).With("link", c.Name())
	for _, to := range cfg.Connect {
		c.targets = append(c.targets, &target{
			to: to, why: "not connected yet", since: time.Now(),
			pause: firstPause, pausing: true, again: make(chan struct{}, 1),
		})
	}
	return c
}

// prepare does everything before the first start of the process.
func (c *Carrier) prepare(ctx context.Context, dev Device) (err error) {
	c.party, err = c.cfg.Auth.Open(c.cfg.Log)
	if err != nil {
		return fmt.Errorf("ucx: %w", err)
	}
	if c.cfg.Listen != "" {
		a, err := net.ResolveTCPAddr("tcp", c.cfg.Listen)
		if err != nil {
			return fmt.Errorf("ucx: listen at %s: %w", c.cfg.Listen, err)
		}
		c.listening, err = c.listenAt(a, true)
		if err != nil {
			return err
		}
	}
	c.program, c.release, err = findProgram(c.cfg.Program)
	if err != nil {
		return err
	}
	c.mem, err = newMemory(c.cfg.geometry())
	if err != nil {
		return err
	}
	cfg := nic.PortConfig{
		Name: c.Name(), Send: c.mem.toProcess, Receive: c.mem.fromProcess,
		MTU: c.cfg.MTU, Jumbo: true, GRH: true,
		Wake: c.mem.wake, Asleep: c.mem.setAsleep, Failed: c.engineFailed,
	}
	if c.cfg.Management != nil {
		cfg.Management = func(number uint32, packet []byte) {
			if path, ok := c.pathOf(number); ok {
				c.cfg.Management(path, packet)
			}
		}
	}
	c.port, err = dev.AddPort(cfg)
	if err != nil {
		return fmt.Errorf("ucx: the engine takes no port: %w", err)
	}
	go c.mem.awaitBell(c.port)
	return nil
}

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return max(1, be.Uint64(b[:]))
}

// engineFailed is called when the engine has given up the port.
func (c *Carrier) engineFailed(err error) {
	c.log.Error("the engine has given up the port; the link is down until it is opened again", "error", err)
}

// Name returns what the carrier is called in the log.
func (c *Carrier) Name() string {
	names := c.cfg.Connect
	if c.cfg.Listen != "" {
		names = append([]string{"listen=" + c.cfg.Listen}, names...)
	}
	return "ucx:" + strings.Join(names, ",")
}

// Route returns the path to a peer with this address: one that is up, or else the newest. An engine
// that has ended and the one in its place, which has another GUID, have the same addresses.
func (c *Carrier) Route(to nic.Address) (path nic.Path, ok bool) {
	peers := c.state.Load().peers
	for i := range peers {
		p := &peers[i]
		if p.path.Port == nil || !p.has(to) {
			continue
		}
		if p.Up {
			return p.path, true
		}
		path, ok = p.path, true // the newest, if none is up: peers are in the order of their numbers
	}
	return path, ok
}

// has reports whether an address is the peer's.
func (p *peerState) has(to nic.Address) bool {
	if to.GUID != 0 {
		return to.GUID == p.GUID
	}
	for _, a := range p.addresses {
		if (a.GID == to.GID && a.GID != [16]byte{}) ||
			(to.LID != 0 && a.LID == to.LID && to.GID == [16]byte{}) {
			return true
		}
	}
	return false
}

// pathOf returns the path with this number.
func (c *Carrier) pathOf(number uint32) (nic.Path, bool) {
	for _, p := range c.state.Load().peers {
		if p.path.Port != nil && p.path.Number == number {
			return p.path, true
		}
	}
	return nic.Path{}, false
}

// Peers returns what is known of the other engines, and of those to which no connection was made
// yet. The counts of a peer are packets.
func (c *Carrier) Peers() []fabric.Peer {
	var peers []fabric.Peer
	for _, s := range c.state.Load().peers {
		if s.counts != nil {
			s.Stats = nic.PortStats{Up: s.Up, Sent: s.counts.sent.Load(), Received: s.counts.received.Load()}
		}
		peers = append(peers, s.Peer)
	}
	return peers
}

// Dropped returns how many packets for a peer were dropped because it was not there or did not take them.
func (c *Carrier) Dropped(guid uint64) uint64 {
	for _, s := range c.state.Load().peers {
		if s.GUID == guid && s.counts != nil {
			return s.counts.dropped.Load()
		}
	}
	return 0
}

// Process returns the process number of nicless-ucx, or 0 and why there is no process.
func (c *Carrier) Process() (pid int, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0, c.down
	}
	return c.process.pid, ""
}

// SetAddresses sends the peers the addresses of this engine, in place of those before.
func (c *Carrier) SetAddresses(list []Address) error {
	if len(list) > MaxAddresses {
		return fmt.Errorf("ucx: %d addresses; at most %d are possible", len(list), MaxAddresses)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hello.addresses = list
	c.helloAgain()
	return nil
}

// Announce sends the peers the announcements of this engine's clients, in place of those before,
// and returns how many entries have no room.
func (c *Carrier) Announce(list []board.Entry) (left int, err error) {
	_, left = board.Append(nil, list, board.Max)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(list, c.hello.announced) {
		c.hello.announced = list
		c.helloAgain()
	}
	return left, nil
}

// helloAgain sends the peers the changed hello. The caller holds c.mu.
func (c *Carrier) helloAgain() {
	c.hello.sequence++
	for _, k := range c.conns {
		select {
		case k.helloChanged <- struct{}{}:
		default:
		}
	}
}

// Close reports to the peers that this engine leaves, ends the process and closes the port.
func (c *Carrier) Close() (err error) {
	c.ends.Do(func() {
		close(c.stop)
		c.cancel()
		c.mu.Lock()
		for _, p := range c.ports {
			_ = p.listener.Close()
		}
		if c.listening != nil {
			_ = c.listening.listener.Close()
		}
		c.mu.Unlock()
		c.strangers.closeAll()
		c.loops.Wait()
		if c.port != nil {
			err = c.port.Close()
		}
		if c.mem != nil {
			c.mem.close()
		}
		c.release()
	})
	return err
}

// leave reports to the peers that this engine leaves, and waits a moment until they have received it.
func (c *Carrier) leave() {
	c.mu.Lock()
	var all []*conn
	for _, k := range c.conns {
		all = append(all, k)
	}
	c.mu.Unlock()
	late := time.After(leaveTime)
	for _, k := range all {
		k.wire.leave()
	}
	for _, k := range all {
		select {
		case <-k.gone:
		case <-late:
			return
		}
	}
}
