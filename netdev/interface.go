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
	Host      string       // name under which peers find the interface (CheckHost); "": under none

	// Picked is what Pick has returned for the same Context, with the Addresses. Run then returns a Clash
	// when another interface has one of them that comes before this one.
	Picked *Picked

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
	running    context.Context      // of Run
	peers      map[id]*peer         // all that are known
	byBox      map[boxID]*peer      // those of peers
	byLife     map[uint64]*peer     // those of peers
	taken      map[netip.Addr]*peer // the addresses of peers
	ignored    map[id]ignored       // announcements that are of no peer
	kept       kept                 // what others do not get in this look; nil: nothing
	checkedFor []netip.Addr         // the addresses of this interface when ignored was checked
	seen       map[id][]byte        // the announcements of the last look
	active     map[*peer]bool       // those with a session, or that want one
	opened     int                  // number of sessions that are not closed
	calls      []call               // dials that have come and are not answered
	unreported []*peer              // those to which consumed packets are to be reported
	nextSweep  time.Time            // sessions are not looked at before this time
	lookTook   time.Duration        // how long the last look took
	announced  []byte               // last announcement of this interface
	head       [headLength]byte     // first bytes of the packet that is being checked
	linger     lingerer

	// Constants, except in tests.
	maxPeers, maxSessions    int
	lookShare                time.Duration
	quiet, openTime, endTime time.Duration
	now                      func() time.Time

	listener   *nicless.Listener
	incoming   chan *nicless.IncomingDial
	connecting sync.WaitGroup // of the goroutines that connect queue pairs

	routes   atomic.Pointer[routes]
	sessions atomic.Pointer[map[uint32]*peer] // by number of the queue pair; replaced, never changed
	board    atomic.Bool                      // announcements have changed
	short    atomic.Bool                      // no buffer was free for stallTime
	heads    atomic.Int32                     // number of messages without a packet that have no completion
	changed  atomic.Bool                      // look has to be called
	wait     context.Context                  // of the wait for completions, of the goroutine that receives
	mu       sync.Mutex                       // guards the fields below
	wake     context.CancelFunc               // ends wait
	results  []result                         // dials and answers that have ended
	requests []*peer                          // peers for which packets wait
	lookDue  bool                             // a timer will call lookNow
	nextLook time.Time                        // the timer calls lookNow at this time or later
	due      map[time.Duration]bool           // when steps are taken, since begun (later)
	begun    time.Time                        // constant

	waiting struct{ bytes atomic.Int64 } // of the packets that wait for sessions
	stats   struct{ unreachable, dropped, waited atomic.Uint64 }
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
	if cfg.Host != "" {
		if err := CheckHost(cfg.Host); err != nil {
			return nil, err
		}
	}
	in := newInterface(c, dev, cfg)
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
	var err error
	in.listener, err = c.ListenName(dialled, nicless.ListenConfig{ToAll: cfg.AllUsers})
	if err != nil {
		return nil, fmt.Errorf("netdev: %w", err)
	}
	return in, nil
}

func newInterface(c *nicless.Context, dev Device, cfg Config) *Interface {
	in := &Interface{
		c: c, dev: dev, cfg: cfg, log: fabric.LimitLog(cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))),
		life: newLife(), free: newFreeList(sendBuffers), timer: time.NewTimer(time.Hour), wake: func() {},
		peers: make(map[id]*peer), byBox: make(map[boxID]*peer), byLife: make(map[uint64]*peer),
		taken: make(map[netip.Addr]*peer), ignored: make(map[id]ignored), seen: make(map[id][]byte),
		active: make(map[*peer]bool), incoming: make(chan *nicless.IncomingDial, nicless.MaxBacklog),
		maxPeers: MaxPeers, maxSessions: MaxSessions, lookShare: lookShare, now: time.Now,
		quiet: quietTime, openTime: openTime, endTime: endTime,
		due: make(map[time.Duration]bool), begun: time.Now(),
	}
	if cfg.Picked != nil {
		in.life = cfg.Picked.life
	}
	in.sessions.Store(&map[uint32]*peer{})
	return in
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
		if err := in.clash(&found, a.Device); err != nil {
			return err
		}
		for _, ip := range found.addresses {
			if found.claim != bid && in.cfg.Picked == nil && slices.Contains(in.cfg.Addresses, ip) {
				return fmt.Errorf("netdev: address %v %w: interface %s of engine %016x has it", ip, ErrTaken, found.name, a.Device)
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
	entries := sendBuffers + mostHeads
	if in.slots != nil {
		entries += 2 * in.slots.count // a slot can be back before the completion of its message was taken
	}
	in.sendCQ, err = in.c.CreateCQ(nicless.CQConfig{Entries: entries, PollOnly: true})
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
	for _, f := range []func(context.Context) error{in.readDevice, in.readFabric, in.watch, in.takeCalls} {
		all.Go(func() { cancel(guard(func() error { return f(ctx) })) })
	}
	<-ctx.Done()
	in.again() // so that readFabric sees the end
	err := in.dev.Close()
	all.Wait()
	_ = in.c.Announce(nil)
	_ = in.listener.Close()
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
	p := (*in.sessions.Load())[qp.QPN()]
	if p == nil {
		return
	}
	p.mu.Lock()
	its := p.qp == qp
	p.mu.Unlock()
	if its {
		p.fail()
	}
}

// again makes the goroutine that receives take the next step of all sessions now.
func (in *Interface) again() {
	in.changed.Store(true)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.wake()
}
