package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nicless/nicless/engine/internal/request"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/fabric/pool"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
)

// A poolNode is the rig's engine as one node of a pool. A pool takes two nodes with one GUID for
// a mistake.
type poolNode struct {
	request.Device
	guid uint64
}

func (n poolNode) GUID() uint64 { return n.guid }

// neverDead is how long a carrier's peer may say nothing where that is not the subject of the test. A
// thread that says so may have to wait for a core.
const neverDead = 10 * time.Minute

// newPool joins two new ports of the rig's engine by a pool, in which the engine is both nodes.
func (r *rig) newPool(cfg pool.Config) *cable {
	r.Helper()
	cfg.Path, cfg.Nodes, cfg.Dead = filepath.Join(r.TempDir(), "pool"), 2, neverDead
	c := &cable{}
	var pools [2]*pool.Pool
	var opened sync.WaitGroup
	for i := range pools {
		opened.Go(func() {
			cfg := cfg
			cfg.Node = i
			var err error
			pools[i], err = pool.Open(context.Background(), poolNode{r.d.nic(), uint64(i + 1)}, cfg)
			if err != nil {
				r.Error(err)
			}
		})
	}
	opened.Wait()
	require.False(r, r.Failed())
	for i, p := range pools {
		r.Cleanup(func() { require.NoError(r, p.Close()) })
		to := nic.Address{GUID: uint64(2 - i)}
		var path nic.Path
		r.until("the link is up", func() (up bool) {
			r.step()
			path, up = openPath(p, to)
			return up
		})
		c.ports[i], c.paths[i] = path.Port.(*transport.PortHandle), path
	}
	c.await = func() int { return 0 } // the other end of each ring is the other port
	r.cable = c
	return c
}

// openPath returns the path to the other node of a pool, and whether it is open and up.
func openPath(p *pool.Pool, to nic.Address) (nic.Path, bool) {
	path, ok := p.Route(to)
	peers := p.Peers()
	return path, ok && path.Port != nil && len(peers) == 1 && peers[0].Up
}

// The operations over a pool of memory, with and without coherence and check sums.
func TestOverAPool(t *testing.T) {
	for kind, cfg := range map[string]pool.Config{
		"coherent": {}, "incoherent": {Incoherent: true, MTU: 1024, Sums: pool.SumsOff},
		"sums": {Sums: pool.SumsOn}, "incoherent, sums": {Incoherent: true, Sums: pool.SumsOn, MTU: 1024},
	} {
		if testing.Short() && (cfg.Incoherent || cfg.Sums == pool.SumsOn) {
			continue
		}
		overCable = func(r *rig) *cable { return r.newPool(cfg) }
		defer func() { overCable = nil }()
		for name, test := range overCarriers() {
			t.Run(name+" "+kind, test)
		}
	}
}

// A listener is a node of a pool without an engine: it only has the rings.
type listener struct {
	up  chan bool
	cfg nic.PortConfig
}

func (l *listener) GUID() uint64                                 { return 99 }
func (l *listener) AddPort(cfg nic.PortConfig) (nic.Port, error) { l.cfg = cfg; return l, nil }
func (l *listener) SetAnnounced(any, uint64, []board.Entry)      {}
func (l *listener) Arrived()                                     {}
func (l *listener) SetUp(up bool)                                { l.up <- up }
func (l *listener) SendManagement(uint32, []byte, []byte) error  { return nil }
func (l *listener) Stats() nic.PortStats                         { return nic.PortStats{} }
func (l *listener) PathCounts() map[uint32]nic.PathCounts        { return nil }
func (l *listener) Trim()                                        {}
func (l *listener) Close() error                                 { return nil }

// A pool's file is made shorter, to different lengths, while the engines sleep and wake each other. They
// give their ports up, and live.
func TestPoolLosesItsFile(t *testing.T) {
	for _, size := range []int64{0, 4096, 128 << 10, 1 << 20} {
		t.Run(fmt.Sprint(size, " bytes"), func(t *testing.T) {
			t.Parallel() // most of the time is waiting
			a, b := newRig(t, Config{}), newRig(t, Config{})
			path := filepath.Join(t.TempDir(), "pool")
			var pools []*pool.Pool
			for i, r := range []*rig{a, b} {
				r.start()
				p, err := pool.Open(context.Background(), r.d.nic(), pool.Config{Path: path, Nodes: 2, Node: i, Dead: neverDead})
				require.NoError(t, err)
				pools = append(pools, p)
			}
			var to nic.Path
			a.until("the links are up", func() bool {
				path, ok := openPath(pools[0], nic.Address{GUID: b.d.nic().GUID()})
				_, back := openPath(pools[1], nic.Address{GUID: a.d.nic().GUID()})
				to = path
				return ok && back
			})
			for _, r := range []*rig{a, b} {
				r.until("the engine sleeps", r.d.runner.Loops[0].Asleep.Load)
			}
			require.NoError(t, os.Truncate(path, size))
			for range 100 { // each of them wakes the engine
				_ = to.Port.SendManagement(to.Number, make([]byte, 20), make([]byte, 200))
				a.e.Do(func() {})
				b.e.Do(func() {})
			}
			a.until("the links are down", func() bool { return !pools[0].Peers()[0].Up && !pools[1].Peers()[0].Up })
			for _, p := range pools {
				require.NoError(t, p.Close())
			}
			for _, r := range []*rig{a, b} {
				r.e.Do(func() { require.Empty(t, r.d.runner.Loops[0].Ports) })
			}
		})
	}
}

// A peer wakes an engine that sleeps, at whatever moment of its falling asleep packets come.
func TestPoolWakesTheEngine(t *testing.T) {
	if !shm.CanBarrier() {
		t.Skip("no membarrier here")
	}
	r := newRig(t, Config{})
	r.e.Hooks.SleepBound, r.e.Hooks.Uncontended = never, true
	r.start()
	path := filepath.Join(t.TempDir(), "pool")
	p, err := pool.Open(context.Background(), r.d.nic(), pool.Config{Path: path, Nodes: 2, Dead: neverDead})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	l := &listener{up: make(chan bool, 8)}
	other, err := pool.Open(context.Background(), l, pool.Config{Path: path, Node: 1, Dead: neverDead})
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	var to nic.Path
	r.until("the link is up", func() (up bool) {
		to, up = openPath(p, nic.Address{GUID: 99})
		return up
	})
	require.True(t, await.Receive(t, "the listener's link is up", l.up))
	received := func() uint64 { return to.Port.Stats().Received }
	rounds := rounds(200, 2000)
	slept := 0
	for i := range rounds {
		if i%10 == 0 {
			r.until("the engine sleeps", r.d.runner.Loops[0].Asleep.Load)
		}
		if r.d.runner.Loops[0].Asleep.Load() {
			slept++
		}
		_, _, ok := l.cfg.Send.Reserve(8, 0) // shorter than a BTH: counted, and dropped
		require.True(t, ok)
		l.cfg.Send.Publish(0)
		l.cfg.Wake()
		// The engine takes it without being asked: Stats would wake it.
		r.until("the packet is taken", func() bool {
			return l.cfg.Send.Free() > 0 && !to.Port.(*transport.PortHandle).Settings.Receive.Waiting()
		})
	}
	require.EqualValues(t, rounds, received())
	require.Greater(t, slept, rounds/20)
}
