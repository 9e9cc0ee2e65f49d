//go:build linux && (amd64 || arm64)

package links

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/auth"
	"github.com/nicless/nicless/fabric/pool"
	"github.com/nicless/nicless/fabric/roce"
	"github.com/nicless/nicless/fabric/ucx"
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
)

// A Device is the part of an engine that links use; nic.Device has it.
type Device interface {
	GUID() uint64
	AddPort(nic.PortConfig) (nic.Port, error)
	SetRouter(nic.Router)
	Announced() []board.Entry
	OnAnnounce(func())
	SetAnnounced(link any, guid uint64, list []board.Entry)
	OnMessage(func(to nic.BoxMessage, from uint64, who nic.User) error)
	Deliver(to uint64, m nic.BoxMessage) error
}

// A Table has the links of an engine. Its methods are safe for concurrent use.
type Table struct {
	dev     Device
	log     *slog.Logger
	options Options
	party   *auth.Party // keys of RoCE; nil: none. Set by Open

	boardLog *slog.Logger // of announcements: clients cause its lines
	openLog  *slog.Logger // of addresses that open: clients cause its lines

	resolveTime time.Duration // as the constant, except in tests

	current    atomic.Pointer[snapshot] // the links that are open
	local      atomic.Pointer[func(gid [16]byte, lid uint16) bool]
	management atomic.Pointer[func(packet []byte, network bool)]
	notes      atomic.Pointer[func() []string]
	answerer   atomic.Pointer[answerer]     // of other engines' questions; nil: they get no answer
	questions  atomic.Pointer[chan request] // to the answerer
	survey     survey

	mu     sync.Mutex // not held while the engine's thread is waited for, except to open RoCE
	held   map[netip.Addr]*holding
	own    netip.Addr // what Own has chosen
	closed bool

	announcing sync.WaitGroup // the goroutine of startAnnouncing
	answering  sync.WaitGroup // that of SetSummary
	ends       chan struct{}  // closed when these goroutines have to end
	end        sync.Once      // closes ends

	opening sync.Mutex // held while RoCE, or a local address of it, is opened or closed
}

// A snapshot has the links that are open. Route reads it. It is replaced, never changed.
type snapshot struct {
	links []fabric.Link // without RoCE
	roce  *roce.Carrier // nil: not open
}

func newTable(dev Device, o Options, log *slog.Logger) *Table {
	t := &Table{
		dev: dev, log: log, boardLog: fabric.LimitLog(log), openLog: fabric.LimitLog(log), options: o,
		resolveTime: resolveTime, held: make(map[netip.Addr]*holding), ends: make(chan struct{}),
	}
	t.current.Store(&snapshot{})
	return t
}

// Open opens links. It also reads the files of keys of RoCE, even if RoCE opens later. It waits for a pool
// that is not formatted yet. Close must be called before the engine stops. log can be nil.
func Open(ctx context.Context, dev Device, o Options, log *slog.Logger) (*Table, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := newTable(dev, o, log)
	// The files are read now even if RoCE opens later: the user who starts the engine can mend them, and the
	// programs that connect later cannot.
	var err error
	t.party, err = o.Auth.Open(log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("roce: %w", err), t.Close())
	}
	for _, c := range o.Pools {
		c.Log, c.Management = log, t.fromPeer
		p, err := pool.Open(ctx, dev, c)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.add(p)
	}
	for _, c := range o.UCX {
		c.Log, c.Management = log, t.fromPeer
		u, err := ucx.Open(ctx, dev, c)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.add(u)
	}
	for _, a := range o.Local {
		if err := t.open(a, byName, "all clients"); err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.held[a.Unmap()] = &holding{count: 1, uses: map[string]int{byName: 1}, named: true}
	}
	t.announce()
	t.startAnnouncing()
	t.dev.OnMessage(t.sendMessage)
	return t, nil
}

// byName is why an address is open that --link names.
const byName = "it was asked for by --link"

var errStops = errors.New("the engine stops")

// add puts a link into the table.
func (t *Table) add(l fabric.Link) {
	s := *t.current.Load()
	s.links = append(s.links[:len(s.links):len(s.links)], l)
	t.current.Store(&s)
}

// announce makes the engine ask for paths anew. An engine without links does not ask at all.
func (t *Table) announce() {
	if s := t.current.Load(); len(s.links) > 0 || s.roce != nil || t.options.Auto {
		t.dev.SetRouter(t)
	}
}

// Close closes all links. The queue pairs that use them fail.
func (t *Table) Close() (err error) {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.opening.Lock()
	defer t.opening.Unlock()
	t.stopAnnouncing()
	t.answering.Wait()
	t.dev.OnMessage(nil)
	t.dev.SetRouter(nil)
	s := t.current.Swap(&snapshot{})
	for _, l := range s.links {
		err = errors.Join(err, l.Close())
	}
	if s.roce != nil {
		err = errors.Join(err, s.roce.Close())
	}
	return err
}

// open opens a local address of RoCE, and RoCE itself if it is not open yet.
func (t *Table) open(a netip.Addr, why, who string) error {
	t.opening.Lock()
	defer t.opening.Unlock()
	t.mu.Lock()
	closed := t.closed
	t.mu.Unlock()
	if closed {
		return errStops
	}
	c := t.current.Load().roce
	if c == nil {
		var err error
		if c, err = t.openRoCE(); err != nil {
			return err
		}
	}
	if err := c.AddAddress(a); err != nil {
		return err
	}
	// At the level that is logged by default: from now on the network reaches this engine.
	t.openLog.Warn("RoCE opened", "address", a.String(), "port", packet.Port, "peers", t.peers(),
		"because", why, "for", who)
	t.announce()
	return nil
}

// peers says which remote addresses RoCE exchanges packets with.
func (t *Table) peers() string {
	if t.options.Peers == nil {
		return "all"
	}
	return fmt.Sprint(t.options.Peers)
}

func (t *Table) openRoCE() (*roce.Carrier, error) {
	if t.party != nil {
		t.party.Peers.Refresh() // the file was read when the engine started
	}
	c, err := roce.New(roce.Config{
		Allowed: t.options.Peers, Auth: t.party, Management: t.fromRoCE, Log: t.log,
	})
	if err != nil {
		return nil, err
	}
	port, err := t.dev.AddPort(c.PortConfig())
	if err == nil {
		err = c.Start(port)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("roce: %w", err), c.Close())
	}
	s := *t.current.Load()
	s.roce = c
	t.current.Store(&s)
	return c, nil
}
