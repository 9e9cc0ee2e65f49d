package pool

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
)

// Times. A node's heartbeat counts up once per tick. A node that dies is found dead after
// Config.Dead and one more tick.
const (
	tick        = 20 * time.Millisecond
	defaultDead = 2 * time.Second
	leastDead   = 100 * time.Millisecond
	defaultWait = 30 * time.Second
	claimTime   = 3 * tick // how long a node waits after joining, to see another engine with its number
)

// A Device is the part of an engine that a pool uses; nic.Device has it.
type Device interface {
	GUID() uint64
	AddPort(nic.PortConfig) (nic.Port, error)
	SetAnnounced(link any, guid uint64, list []board.Entry)
}

// A Pool is this engine's part in a pool: one node, which has links to the others. It implements
// fabric.Link.
type Pool struct {
	cfg   Config
	dev   Device
	time  timer
	draw  func() uint64 // returns a random number
	view  view
	host  uint64       // identifies the running kernel of this host; 0: not known
	wakes bool         // threads of this process take part in memory barriers of others (wake.go)
	close func() error // unmaps the memory

	waiting waiting // the wait for node 0, until start has ended
	file    mapped  // whose memory is mapped

	// aside calls a function that may wait for the engine's thread. The heartbeat moves meanwhile.
	aside func(func())

	// Only the goroutine of watch uses these.
	header   header
	links    []*link         // by the number of the node; nil: this one, or one that has not been seen
	turn     int             // the node that is looked at first in this tick, of those without rings
	searches int             // of tables in this tick
	unseen   []time.Duration // by the number of the node: until when it is not looked at, as memory is lost
	share    share
	named    nameSet // the nodes that this node's table names
	strays   strays
	fences   []fence
	sessions uint64  // how many sessions this node has offered in this life
	lost     string  // why this node is not in the pool at the moment; "": it is
	changed  bool    // something of the state is old
	stale    []*link // what the state has of these is old
	boards   []*link // whose announcements the device is to be given
	damaged  bool    // the header is damaged, and the log says so
	rival    rival
	absence  absence
	clock    clock // of this node's own run
	pace     pace

	number int    // of this node; set by start
	part   uint64 // where this node's part of the pool begins

	epoch  atomic.Uint64 // epoch of this life of the node
	gone   atomic.Bool   // this node's own pages are lost (absent.go)
	ousted atomic.Bool   // another engine is this node now: this one writes nothing into its part
	alarm  *alarm        // ends the pause between two looks: a queue pair needs rings

	looked    atomic.Bool   // another node has looked at summaries (summary.go)
	summarize chan struct{} // has a signal when the summary is to be written

	// own is held while this node writes what it says of itself. It guards the fields below.
	own         sync.Mutex
	joined      bool      // the heartbeat moves
	life        life      // what this node's first line is to have
	repairs     uint64    // how often others had overwritten this node's part
	mended      time.Time // when this node looked last whether they have
	description description
	board       []byte // the announcements that the other nodes read

	state atomic.Pointer[state]
	run   context.Context // ends when the pool is closed
	stop  context.CancelFunc
	loops sync.WaitGroup

	once sync.Once
}

// A timer has the time and lets it pass. Tests have one of their own.
type timer interface {
	Now() time.Time
	Sleep(context.Context, time.Duration) error
}

// Open joins the pool. It waits until node 0 has formatted the pool, at most for cfg.Wait, and
// for some tenths of a second to see that no other engine has this node's number. The other nodes
// need not be there: links come up when they are. The caller closes the Pool before the device.
func Open(ctx context.Context, dev Device, cfg Config) (*Pool, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	var w waiting
	region, err := attach(ctx, &cfg, &w, systemTimer{})
	if err != nil {
		return nil, fmt.Errorf("pool %s: %w", cfg.Path, err)
	}
	p := newPool(dev, cfg, region.Bytes(), systemTimer{})
	p.close, p.waiting, p.file = region.Close, w, newMapped(cfg.Path)
	p.host, p.wakes = bootID(), shm.JoinBarrier() == nil
	if err := p.guard(func() error { return p.start(ctx) }); err != nil {
		_ = region.Close()
		return nil, fmt.Errorf("pool %s: %w", cfg.Path, err)
	}
	p.alarm.system = newSystemAlarm()
	p.run, p.stop = context.WithCancel(context.Background())
	p.aside = p.tickDuring
	p.loops.Go(func() { p.repeat(p.run, p.tick, p.watch) })
	return p, nil
}

// newPool returns a pool in this memory that has not started.
func newPool(dev Device, cfg Config, mem []byte, t timer) *Pool {
	cfg = cfg.withDefaults()
	cfg.Log = fabric.LimitLog(cfg.Log)
	p := &Pool{
		cfg: cfg, dev: dev, time: t, draw: random, view: view{mem: mem},
		close: func() error { return nil }, aside: func(f func()) { f() }, alarm: newAlarm(),
		summarize: make(chan struct{}, 1),
		run:       context.Background(),
	}
	if canFlush {
		p.view.cache = flusher{} // until the header says whether it is needed
	}
	p.state.Store(newState(0, 0))
	return p
}

// cache returns the Cache of the rings.
func (p *Pool) cache() packetring.Cache {
	if p.header.incoherent {
		return p.view.cache
	}
	return nil
}

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return be.Uint64(b[:])
}

var _ fabric.Link = (*Pool)(nil)

// Name returns what the pool is called in the log.
func (p *Pool) Name() string { return "pool:" + p.cfg.Path }

// Route returns the path to a node with this address. The path has no port if there are no rings yet: then
// they are opened, and Route is to be called again.
func (p *Pool) Route(to nic.Address) (nic.Path, bool) {
	peer := p.state.Load().find(&to)
	if peer == nil {
		return nic.Path{}, false
	}
	if !peer.link.wanted.Load() && !peer.link.wanted.Swap(true) && peer.path.Port == nil {
		p.alarm.ring()
	}
	return peer.path, true
}

// Look is Route for a question that is no reason to open rings.
func (p *Pool) Look(to nic.Address) (nic.Path, bool) {
	peer := p.state.Load().find(&to)
	if peer == nil {
		return nic.Path{}, false
	}
	return peer.path, true
}

// Opening reports whether a path has a port already, but rings that are still being opened, for the first
// time.
func (p *Pool) Opening(to nic.Address) bool {
	peer := p.state.Load().find(&to)
	return peer != nil && peer.opening
}

// Why returns why there is no path to an address, or why it is down, as a sentence without a full stop; "" if
// nothing is known of that.
func (p *Pool) Why(to nic.Address) string {
	for s := range p.state.Load().peers {
		named := s.guid == to.GUID
		if to.GUID == 0 {
			named = slices.ContainsFunc(s.addresses, func(a Address) bool {
				return (a.GID == to.GID && a.GID != [16]byte{}) || (a.LID == to.LID && a.LID != 0)
			})
		}
		if named {
			return s.why
		}
	}
	return ""
}

// Peers returns what is known of the other nodes.
func (p *Pool) Peers() []fabric.Peer {
	var peers []fabric.Peer
	s := p.state.Load()
	if lost := s.lost.Load(); lost != nil {
		peers = append(peers, fabric.Peer{Name: "this node", Why: *lost})
	}
	for peer := range s.peers {
		peers = append(peers, peer.peer())
	}
	return peers
}

// Ports returns the InfiniBand ports of the nodes to which there is a path.
func (p *Pool) Ports() (list []fabric.Port) {
	for s := range p.state.Load().peers {
		for _, a := range s.addresses {
			if a.LID != 0 && (s.path.Port != nil || s.up) {
				name := fmt.Sprintf("node %d", s.link.peer)
				list = append(list, fabric.Port{Engine: s.guid, Name: name, Up: s.up, GID: a.GID, LID: a.LID})
			}
		}
	}
	return list
}

// SetAddresses sends the other nodes the addresses of this engine, in place of those before.
func (p *Pool) SetAddresses(list []Address) error {
	if len(list) > MaxAddresses {
		return fmt.Errorf("pool %s: %d addresses; at most %d are possible", p.cfg.Path, len(list), MaxAddresses)
	}
	return p.guard(func() error {
		p.own.Lock()
		defer p.own.Unlock()
		p.description.addresses = list
		if p.joined {
			p.describe()
		}
		return nil
	})
}

// Announce sends the other nodes the announcements of this engine's clients, in place of those before, and
// returns how many entries have no room.
func (p *Pool) Announce(list []board.Entry) (left int, err error) {
	b, left := board.Append(nil, list, board.Max)
	return left, p.guard(func() error {
		p.own.Lock()
		defer p.own.Unlock()
		p.board = b
		if p.joined {
			p.post()
		}
		return nil
	})
}

// Close reports to the other nodes that this one leaves, and closes all ports.
func (p *Pool) Close() (err error) {
	p.once.Do(func() {
		if p.stop != nil {
			p.stop()
		}
		p.loops.Wait()
		p.alarm.close()
		leave := func() error { p.leave(closedHere); return nil }
		if p.guard(leave) != nil {
			p.gone.Store(true) // its own pages are lost, so nothing is written there
			_ = p.guard(leave)
		}
		err = p.close()
	})
	return err
}
