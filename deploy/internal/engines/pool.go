//go:build linux && (amd64 || arm64)

package engines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nicless/nicless/verbs"
	"golang.org/x/sys/unix"
)

// A Pool has the devices of a node. Its methods may be called by any goroutine at any time.
type Pool struct {
	cfg  Config
	lock *os.File

	mu      sync.Mutex
	claims  map[int]*claim // by device; a claim of several devices is there several times
	changed chan struct{}  // closed when the health of a device changes
	closed  bool
}

// A Device is a device and its health.
type Device struct {
	ID      string
	Healthy bool // false: its engine has ended and does not serve again yet
}

// Errors of names of devices.
var (
	ErrUnknown = errors.New("there is no such device")
	ErrNumber  = errors.New("an engine cannot have so many devices")
)

// Open makes a pool, and starts the engines of containers that a former process has left. Close ends it.
// It fails with ErrTaken if another process has the directory.
func Open(ctx context.Context, cfg Config) (*Pool, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.pause == 0 {
		cfg.pause = firstPause
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o711); err != nil {
		return nil, err
	}
	lock, err := tryLock(filepath.Join(cfg.Dir, "lock"), unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	p := &Pool{cfg: cfg, lock: lock, claims: make(map[int]*claim), changed: make(chan struct{})}
	if err := p.resume(ctx); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return p, nil
}

// resume starts the engines of the claims of the former process, whose own engines end.
func (p *Pool) resume(ctx context.Context) error {
	if err := p.cfg.makeTree(); err != nil {
		return err
	}
	if err := p.cfg.outlive(ctx); err != nil {
		return err
	}
	claims, err := p.cfg.readClaims()
	if err != nil {
		// Containers that run have lost their engine until they start again; others are not concerned.
		p.cfg.Log.Warn("the claims of the former process cannot be read: its containers have no engines", "error", err)
	}
	for _, ids := range claims {
		c, err := p.claim(ids)
		if err != nil {
			p.cfg.Log.Warn("a claim of the former process is dropped", "devices", ids, "error", err)
			continue
		}
		if err := c.resume(); err != nil {
			p.cfg.Log.Error("no engine for a container that may run", "devices", ids, "error", err)
		}
	}
	return nil
}

// outlive waits until the engines of the former process have ended: they hold the locks of their devices
// until then.
func (c *Config) outlive(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endTime, errors.New("an engine of the former process does not end"))
	defer cancel()
	list, err := os.ReadDir(filepath.Join(c.Dir, "users"))
	for _, e := range list {
		f, failed := waitLock(ctx, filepath.Join(c.Dir, "users", e.Name()))
		if failed != nil {
			return failed
		}
		_ = f.Close()
	}
	return err
}

// endTime is how long an engine may take to end.
const endTime = 10 * time.Second

// Libraries returns the directory that has the library to preload.
func (p *Pool) Libraries() string { return filepath.Join(p.cfg.Dir, "lib") }

// Devices returns all devices, and a channel that is closed when one of them has changed.
func (p *Pool) Devices() ([]Device, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Device, p.cfg.Devices)
	for i := range list {
		c := p.claims[i]
		list[i] = Device{ID: strconv.Itoa(i), Healthy: c == nil || !c.broken}
	}
	return list, p.changed
}

// Directory returns the directory of the engine of a claim with this lead.
func (p *Pool) Directory(lead string) (string, error) {
	id, err := p.parse(lead)
	return p.cfg.directory(id), err
}

// Allocate gives devices to a container, and returns their lead. A container that has had one of them
// before has ended: its engine ends, and nothing of it is left. The engine starts with Start.
func (p *Pool) Allocate(names []string) (lead string, err error) {
	c, err := p.named(names)
	if err != nil {
		return "", err
	}
	return strconv.Itoa(c.ids[0]), c.prepare()
}

// Start makes the engine of a container that is about to start, and waits until it serves. If the devices
// have an engine, of a container that has ended, it ends first.
func (p *Pool) Start(ctx context.Context, names []string) error {
	c, err := p.named(names)
	if err != nil {
		return err
	}
	return c.start(ctx)
}

// Check returns an error if a container cannot have these devices together.
func (p *Pool) Check(names []string) error {
	_, err := p.numbers(names)
	return err
}

// named returns the claim of these devices.
func (p *Pool) named(names []string) (*claim, error) {
	ids, err := p.numbers(names)
	if err != nil {
		return nil, err
	}
	return p.claim(ids)
}

func (p *Pool) numbers(names []string) (ids []int, err error) {
	for _, name := range names {
		id, err := p.parse(name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, p.checkNumbers(ids)
}

func (p *Pool) checkNumbers(ids []int) error {
	n := len(slices.Compact(slices.Clone(ids)))
	switch {
	case n != len(ids):
		return fmt.Errorf("%w: devices %v: one is named twice", ErrNumber, ids)
	case n == 0 || n > verbs.MaxDevices:
		return fmt.Errorf("%w: %d; 1 to %d are possible", ErrNumber, n, verbs.MaxDevices)
	case ids[0] < 0 || ids[n-1] >= p.cfg.Devices:
		return fmt.Errorf("%w: devices %v: this node has 0 to %d", ErrUnknown, ids, p.cfg.Devices-1)
	}
	return nil
}

func (p *Pool) parse(name string) (int, error) {
	id, err := strconv.Atoi(name)
	if err != nil || id < 0 || id >= p.cfg.Devices || strconv.Itoa(id) != name {
		return 0, fmt.Errorf("%w: %q: this node has 0 to %d", ErrUnknown, name, p.cfg.Devices-1)
	}
	return id, nil
}

// claim returns the claim of exactly these devices, in order. A new one replaces all that have one of them.
func (p *Pool) claim(ids []int) (*claim, error) {
	if err := p.checkNumbers(ids); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, os.ErrClosed
	}
	if c := p.claims[ids[0]]; c != nil && slices.Equal(c.ids, ids) {
		return c, nil
	}
	c := &claim{p: p, ids: ids}
	for _, id := range ids {
		former := p.claims[id]
		if former == nil {
			continue
		}
		c.former = append(c.former, former)
		for _, other := range former.ids {
			delete(p.claims, other)
		}
	}
	for _, id := range ids {
		p.claims[id] = c
	}
	p.notify()
	return c, p.cfg.writeClaims(p.list())
}

// list returns the devices of all claims. The caller has locked p.mu.
func (p *Pool) list() (claims [][]int) {
	for id, c := range p.claims {
		if c.ids[0] == id {
			claims = append(claims, c.ids)
		}
	}
	slices.SortFunc(claims, slices.Compare)
	return claims
}

// notify wakes those who wait for a change. The caller has locked p.mu.
func (p *Pool) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Close ends all engines. Containers keep their devices: the next process that opens the directory starts
// their engines again.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	var all []*claim
	for _, c := range p.claims {
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	p.mu.Unlock()
	failed := make([]error, len(all))
	var group sync.WaitGroup
	for i, c := range all {
		group.Go(func() { failed[i] = c.end() })
	}
	group.Wait()
	return errors.Join(errors.Join(failed...), p.lock.Close())
}

// CheckOnce returns an error if a device is named twice.
func CheckOnce(names []string) error {
	seen := make(map[string]bool)
	for _, name := range names {
		if seen[name] {
			return fmt.Errorf("%w: device %s is named twice", ErrNumber, name)
		}
		seen[name] = true
	}
	return nil
}
