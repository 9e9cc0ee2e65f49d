//go:build linux && (amd64 || arm64)

package roce

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
)

// A Carrier connects one port of an engine to IP networks. Its methods are safe for concurrent
// use.
type Carrier struct {
	cfg       Config
	log       *slog.Logger
	config    nic.PortConfig
	paths     *table
	namespace uint64 // network namespace of the process

	locals        atomic.Pointer[[]*local] // replaced under mu
	sender        *sender
	receiver      *receiver
	sendWaiter    *waiter
	guard         *guard  // nil: no keys
	receiveWaiter *waiter // the same as sendWaiter if there is one goroutine
	looks         lookRequests

	engine  atomic.Pointer[nic.Port] // nil before Start
	closing atomic.Bool
	done    sync.WaitGroup
	stop    chan struct{} // closed by Close
	changed chan struct{} // signals that the state of a local address has changed
	moved   chan struct{} // signals that a local address or its device has changed
	peers   chan struct{} // signals that addresses have become known, or are not known any more
	secret  [4]uint32     // for the sets of known addresses (screen.go)

	neighboursFull [len(neighbourTables)]atomic.Uint64 // how often the host's tables had no room

	screening screening // of addresses that become known

	mu      sync.Mutex
	started bool
	closed  bool
	up      bool
	numbers uint32 // the number that was given to a local address last
}

var errClosed = errors.New("roce: the carrier is closed")

// New returns a carrier without local addresses. The engine gets its port from
// [Carrier.PortConfig]; then Start begins.
func New(cfg Config) (*Carrier, error) {
	cfg = cfg.withDefaults()
	c := &Carrier{
		cfg: cfg, log: cfg.Log.With("link", cfg.Name), paths: newTable(cfg),
		stop: make(chan struct{}), changed: make(chan struct{}, 1), peers: make(chan struct{}, 1),
		moved: make(chan struct{}, 1),
	}
	for i := range c.secret {
		c.secret[i] = rand.Uint32() | 1
	}
	c.paths.changed = c.peersChanged
	c.locals.Store(&[]*local{})
	c.guard = newGuard(c)
	c.paths.guard = c.guard
	c.config = nic.PortConfig{
		Name: cfg.Name, MTU: maxMTU, Window: cfg.Window, Wakes: true, Loses: true,
		Failed: c.engineFailed, Management: cfg.Management,
	}
	if err := c.makeRings(); err != nil {
		return nil, err
	}
	buffer, err := c.probe()
	if err != nil {
		return nil, err
	}
	if c.config.Window == 0 {
		c.config.Window = defaultWindow(buffer)
	}
	c.receiveWaiter, err = newWaiter()
	if err != nil {
		return nil, err
	}
	c.sendWaiter = c.receiveWaiter
	if cfg.Threads == 2 {
		c.sendWaiter, err = newWaiter()
		if err != nil {
			c.receiveWaiter.close()
			return nil, err
		}
	}
	c.config.Wake, c.config.Look = c.sendWaiter.wake, c.requestLook
	return c, nil
}

// makeRings makes the two rings. The engine is the producer of the one and the consumer of the
// other.
func (c *Carrier) makeRings() error {
	ring := func(g packetring.Geometry) (*packetring.Producer, *packetring.Consumer, error) {
		if err := g.Check(); err != nil {
			return nil, nil, err
		}
		if most := g.Data / 2; most < maxMTU+grhSize {
			return nil, nil, fmt.Errorf("roce: a data area of %d bytes does not hold two packets", g.Data)
		}
		r, err := shm.Heap(g.Size())
		if err != nil {
			return nil, nil, err
		}
		p, err := packetring.NewProducer(r.Bytes(), g, nil)
		if err != nil {
			return nil, nil, err
		}
		consumer, err := packetring.NewConsumer(r.Bytes(), g, nil)
		return p, consumer, err
	}
	toWire, fromEngine, err := ring(c.cfg.Send)
	if err != nil {
		return err
	}
	fromWire, toEngine, err := ring(c.cfg.Receive)
	if err != nil {
		return err
	}
	c.config.Send, c.config.Receive = toWire, toEngine
	c.sender, c.receiver = newSender(c, fromEngine), newReceiver(c, fromWire)
	return nil
}

// probe finds out what the kernel gives: the size of a receive buffer. It also names the
// process's network namespace.
func (c *Carrier) probe() (buffer int, err error) {
	fd, err := newSocket(netip.IPv4Unspecified())
	if err != nil {
		return 0, fmt.Errorf("roce: UDP socket: %w", err)
	}
	s := Sockets{Receive: fd}
	defer s.Close()
	c.namespace = namespaceOf(fd)
	buffer, _, err = prepareReceive(fd, false, bufferWanted)
	return buffer, err
}

// PortConfig returns what the engine needs to make its port.
func (c *Carrier) PortConfig() nic.PortConfig { return c.config }

// Start begins to carry packets. The port is the one that the engine has made from PortConfig;
// Close closes it.
func (c *Carrier) Start(port nic.Port) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	if c.started {
		return errors.New("roce: the carrier is started already")
	}
	c.started = true
	c.engine.Store(&port)
	c.done.Add(2)
	if c.cfg.Threads == 2 {
		c.done.Add(1)
		go c.run(c.sendWaiter, c.sender, nil)
		go c.run(c.receiveWaiter, nil, c.receiver)
	} else {
		go c.run(c.sendWaiter, c.sender, c.receiver)
	}
	c.done.Add(1)
	go c.maintain()
	go c.watchChanges()
	if c.guard != nil {
		c.done.Add(1)
		go c.guard.run()
	}
	c.updateUp()
	return nil
}

// port returns the engine's port; nil before Start.
func (c *Carrier) port() nic.Port {
	if p := c.engine.Load(); p != nil {
		return *p
	}
	return nil
}

// updateUp reports to the engine whether the link works: whether packets can be sent from any local
// address. The caller holds the carrier's lock.
func (c *Carrier) updateUp() {
	up := false
	for _, l := range *c.locals.Load() {
		up = up || l.up()
	}
	if p := c.port(); p != nil && up != c.up {
		c.up = up
		p.SetUp(up)
		c.log.Info("link state", "up", up)
	}
}

// engineFailed is called when the engine does not use the port any more.
func (c *Carrier) engineFailed(err error) {
	c.log.Error("the engine has given up the port", "error", err)
}

// Close closes the engine's port and all sockets. Packets that are in the rings are lost.
func (c *Carrier) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	var err error
	if p := c.port(); p != nil {
		err = p.Close()
	}
	c.closing.Store(true)
	close(c.stop)
	c.sendWaiter.signal()
	c.receiveWaiter.signal()
	if c.started {
		c.mu.Unlock() // maintain and the loops may need it
		c.done.Wait()
		c.mu.Lock()
	}
	for _, l := range *c.locals.Load() {
		c.remove(l)
	}
	c.receiveWaiter.close()
	if c.sendWaiter != c.receiveWaiter {
		c.sendWaiter.close()
	}
	return err
}
