//go:build linux && (amd64 || arm64)

package netdev

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/tun"
)

// HeaderSize is the size of the virtio header before each packet, and MaxPacket the most bytes of both.
const (
	HeaderSize = tun.HeaderSize
	MaxPacket  = HeaderSize + 1<<16 - 1
)

// A Device is a network interface of the kernel, such as a TUN device. Read and Write may be called at the
// same time.
type Device interface {
	// Read reads the virtio header and the packet that the kernel sends next, and waits for them.
	Read(b []byte) (int, error)

	// Write gives the kernel one packet, in two pieces: a virtio header, and at least the packet's IP header,
	// and what follows.
	Write(head, rest []byte) error

	// Close ends Read.
	Close() error
}

// A Config says what an interface is. Addresses must be set.
type Config struct {
	Name      string       // name in the log and for peers, at most 16 bytes
	MTU       int          // MTU of the Device, which peers are told
	Addresses []netip.Addr // addresses of the Device: 1 to MaxAddresses; SetAddresses changes them
	Slots     *Slots       // shared memory for packets; nil: none

	// AllUsers says that interfaces of other users find this one, too. If it is false, those of the user do,
	// as nicless.Context.Announce has it. An announcement has the number and the first PSN of each of the
	// interface's queue pairs, but no keys.
	AllUsers bool

	Log *slog.Logger // gets a line when a peer comes or goes; can be nil
}

// An Interface carries the packets of a Device to the peers of the fabric and back.
type Interface struct {
	c     *nicless.Context
	dev   Device
	cfg   Config
	log   *slog.Logger
	life  uint64 // random number of the time from Open to the end of this Interface
	slots *slots // nil: none

	own     atomic.Pointer[[]netip.Addr] // addresses; replaced, never changed
	setting sync.Mutex                   // held while own is replaced

	pd             *nicless.PD
	sendCQ, recvCQ *nicless.CQ
	srq            *nicless.SRQ
	send, receive  buffers
	free           freeList // numbers of the free buffers of send
	freeSlots      freeList // numbers of the free slots of this interface

	// The goroutine that sends owns these.
	timer        *time.Timer
	answersSince time.Time // when the current span of ICMP errors began (unreachable.go)
	answers      int       // number of ICMP errors in the current span
	tag          uint32    // of the last message with a slot; each such message has a new tag

	// Locked while completions of sends are polled, and while a queue pair is closed. Lock it before peer.mu.
	sending sync.Mutex
	ended   [32]nicless.Completion // completions of sends; reused

	// The goroutine that receives owns these.
	peers     map[id]*peer
	ignored   map[id]string    // for each announcement that is of no peer: why
	offers    uint32           // number of queue pairs that were offered to peers
	lookTook  time.Duration    // how long the last look took
	lookShare time.Duration    // the constant lookShare, except in tests
	announced []byte           // last announcement of this interface
	head      [headLength]byte // first bytes of the packet that is being checked
	linger    lingerer

	routes   atomic.Pointer[routes]
	changed  atomic.Bool        // look has to be called: announcements or the state of a session have changed
	waiting  context.Context    // context of the wait for completions; the goroutine that receives owns it
	mu       sync.Mutex         // guards the fields below
	wake     context.CancelFunc // ends waiting
	lookDue  bool               // a timer will call again
	nextLook time.Time          // the timer calls again at this time or later

	stats struct{ unreachable, dropped atomic.Uint64 }
}

// An id names the client behind an announcement.
type id struct {
	device uint64
	client uint32
}

// routes map addresses and queue pairs to peers. They are replaced, never changed.
type routes struct {
	all       []route // by address
	byAddress map[netip.Addr]*peer
	byQPN     map[uint32]*peer
}

// A route is a peer, and what was known of it when the routes were made.
type route struct {
	*peer
	announced announcement
	why       string
}

// Open makes an interface. The context must not have announced anything. Close the context after the
// interface.
func Open(c *nicless.Context, dev Device, cfg Config) (*Interface, error) {
	if n := len(cfg.Addresses); n == 0 || n > MaxAddresses {
		return nil, fmt.Errorf("netdev: %d addresses; 1 to %d are possible", n, MaxAddresses)
	}
	if len(cfg.Name) > maxName {
		return nil, fmt.Errorf("netdev: name %q of %d bytes; %d are possible", cfg.Name, len(cfg.Name), maxName)
	}
	in := &Interface{
		c: c, dev: dev, cfg: cfg, log: fabric.LimitLog(cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))),
		life: newLife(), free: newFreeList(sendBuffers), timer: time.NewTimer(time.Hour), peers: make(
			map[id]*peer), ignored: make(map[id]string), wake: func() {}, lookShare: lookShare,
	}
	own := slices.Clone(cfg.Addresses)
	in.own.Store(&own)
	in.routes.Store(&routes{})
	if cfg.Slots != nil {
		if err := in.openSlots(cfg.Slots); err != nil {
			return nil, err
		}
	}
	if err := in.unclaimed(); err != nil {
		return nil, err
	}
	if in.slots != nil {
		if err := guard(func() error { in.slots.sign(in.life); return nil }); err != nil {
			return nil, err
		}
	}
	if err := in.makeQueues(); err != nil {
		return nil, fmt.Errorf("netdev: %w", err)
	}
	return in, nil
}

func newLife() (life uint64) {
	for life == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:])
		life = binary.NativeEndian.Uint64(b[:])
	}
	return life
}

func (in *Interface) openSlots(s *Slots) (err error) {
	in.slots, err = newSlots(s.region, s.areas, s.own, s.incoherent)
	if err != nil {
		return err
	}
	in.freeSlots = newFreeList(in.slots.count)
	return nil
}

// unclaimed returns an error if an interface of the fabric has an address or the slots of this one.
func (in *Interface) unclaimed() error {
	list, err := in.c.Announcements()
	if err != nil {
		return fmt.Errorf("netdev: %w", err)
	}
	for _, a := range list {
		found, err := parseAnnouncement(a.Value)
		if err != nil {
			continue
		}
		for _, ip := range found.addresses {
			if slices.Contains(in.cfg.Addresses, ip) {
				return fmt.Errorf("netdev: address %v is taken: interface %s of engine %016x has it", ip, found.name, a.Device)
			}
		}
		var taken bool
		err = guard(func() error {
			taken = in.slots != nil && in.slots.signed(in.slots.own, found.life)
			return nil
		})
		if err != nil {
			return err
		}
		if taken {
			return fmt.Errorf("netdev: slots: node %d is taken: interface %s of engine %016x has it", in.slots.own, found.name, a.Device)
		}
	}
	return nil
}

// makeQueues makes what all peers share.
func (in *Interface) makeQueues() (err error) {
	in.pd, err = in.c.AllocPD()
	if err != nil {
		return err
	}
	in.recvCQ, err = in.c.CreateCQ(nicless.CQConfig{Entries: receiveBuffers})
	if err != nil {
		return err
	}
	// Completions of sends cause no events, which would cost more than the sends: no thread waits for them.
	in.sendCQ, err = in.c.CreateCQ(nicless.CQConfig{Entries: MaxPeers * 2 * sendQueue, PollOnly: true})
	if err != nil {
		return err
	}
	in.srq, err = in.pd.CreateSRQ(nicless.SRQConfig{MaxWR: receiveBuffers, MaxSGE: 1})
	if err != nil {
		return err
	}
	in.send, err = newBuffers(in.pd, sendBuffers)
	if err != nil {
		return err
	}
	in.receive, err = newBuffers(in.pd, receiveBuffers)
	if err != nil {
		return err
	}
	for n := range receiveBuffers {
		if err := in.postReceive(n); err != nil {
			return err
		}
	}
	return nil
}

// Run carries packets until ctx ends, the device is closed or the engine is gone. It closes the device.
func (in *Interface) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, f := range []func(context.Context) error{in.readDevice, in.readFabric, in.watch} {
		all.Go(func() { cancel(guard(func() error { return f(ctx) })) })
	}
	<-ctx.Done()
	in.again() // so that readFabric sees the end
	err := in.dev.Close()
	all.Wait()
	_ = in.c.Announce(nil)
	in.timer.Stop()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

// watch waits for news of the fabric.
func (in *Interface) watch(ctx context.Context) error {
	for {
		ev, err := in.c.NextEvent(ctx)
		if err != nil {
			return err
		}
		switch {
		case ev.Kind == nicless.EventExplanation:
		case ev.Kind == nicless.EventLastWQE && ev.QP != nil:
			in.failed(ev.QP)
		default:
			in.news()
		}
	}
}

// failed ends the session of a queue pair that is in error, unless the session has ended already.
func (in *Interface) failed(qp *nicless.QP) {
	for _, r := range in.routes.Load().all {
		r.mu.Lock()
		its := r.qp == qp
		r.mu.Unlock()
		if its {
			r.fail()
		}
	}
}

// again makes the goroutine that receives look at the announcements now.
func (in *Interface) again() {
	in.changed.Store(true)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.wake()
}
