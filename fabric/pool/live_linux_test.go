package pool

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
)

// A liveEngine is a thread that sends a packet on each link and echoes what comes: the payload
// is the number of the packet again and again, inverted; the header says whether it is an echo.
type liveEngine struct {
	guid  uint64
	mu    sync.Mutex // the thread's
	ports []*livePort
	stop  atomic.Bool
	ended chan struct{}
}

type livePort struct {
	e       *liveEngine
	cfg     nic.PortConfig
	up      bool
	asked   bool // a packet is on the way
	echoes  atomic.Uint64
	arrived atomic.Uint64
	wrong   atomic.Uint64
	damaged atomic.Uint64 // packets that nobody has sent
	poke    atomic.Bool   // the thread sends a packet more
}

func newLiveEngine(guid uint64) *liveEngine {
	e := &liveEngine{guid: guid, ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		for !e.stop.Load() {
			e.mu.Lock()
			for _, p := range e.ports {
				p.survive(p.step)
			}
			e.mu.Unlock()
			runtime.Gosched()
		}
	}()
	return e
}

func (e *liveEngine) end() {
	e.stop.Store(true)
	<-e.ended
}

// damaged returns how many packets have come that nobody has sent.
func (e *liveEngine) damaged() (n uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.ports {
		n += p.damaged.Load()
	}
	return n
}

func (e *liveEngine) GUID() uint64 { return e.guid }

func (e *liveEngine) SetAnnounced(any, uint64, []board.Entry) {}

func (e *liveEngine) AddPort(cfg nic.PortConfig) (nic.Port, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := &livePort{e: e, cfg: cfg}
	e.ports = append(e.ports, p)
	return p, nil
}

// survive calls f, and gives the port up if memory of its rings is lost, as an engine does.
func (p *livePort) survive(f func()) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if fault, ok := r.(interface{ Addr() uintptr }); ok {
			p.up = false
			go p.cfg.Failed(nic.LostMemory(fault.Addr()))
		} else if r != nil {
			panic(r)
		}
	}()
	f()
}

// step is what the engine's thread does for a port.
func (p *livePort) step() {
	if !p.up {
		return
	}
	var k packetring.Packet
	if ok, err := p.cfg.Receive.Next(&k); err != nil {
		p.up = false
		p.wrong.Add(1)
		go p.cfg.Failed(err)
		return
	} else if ok {
		number := ^be.Uint64(k.Payload)
		for i := 0; i < len(k.Payload); i += 8 {
			if word := be.Uint64(k.Payload[i:]); word == 0 || word != ^number {
				p.damaged.Add(1)
				break
			}
		}
		p.cfg.Receive.Free()
		switch {
		case k.Head[0] == request:
			p.send(echo, number)
		case number != p.echoes.Load():
			p.wrong.Add(1)
		default:
			p.echoes.Add(1)
			p.asked = false
		}
	}
	if p.poke.CompareAndSwap(true, false) {
		p.send(request, 0)
	}
	if !p.asked {
		p.asked = p.send(request, p.echoes.Load())
	}
}

// Kinds of packets.
const (
	request = 1
	echo    = 2
)

func (p *livePort) send(kind byte, number uint64) bool {
	h, payload, ok := p.cfg.Send.Reserve(1, 1000)
	if ok {
		h[0] = kind
		for i := 0; i < len(payload); i += 8 {
			be.PutUint64(payload[i:], ^number)
		}
		p.cfg.Send.Publish(0)
		if p.cfg.Wake != nil {
			p.cfg.Wake()
		}
	}
	return ok
}

func (p *livePort) Arrived() { p.arrived.Add(1) }

func (p *livePort) SetUp(up bool) {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	p.up, p.asked = up, false
}

func (p *livePort) SendManagement(uint32, []byte, []byte) error {
	return errors.New("not in this double")
}
func (p *livePort) Stats() nic.PortStats { return nic.PortStats{Received: p.echoes.Load()} }

func (p *livePort) PathCounts() map[uint32]nic.PathCounts { return nil }
func (p *livePort) Trim()                                 {}
func (p *livePort) Close() error {
	p.SetUp(false)
	return nil
}

const liveDead = 500 * time.Millisecond

const childNode = "NICLESS_POOL_CHILD"

// The other process: node 1 of the pool whose path is in the environment. It ends when its standard
// input does.
func TestChildNode(t *testing.T) {
	path := os.Getenv(childNode)
	if path == "" {
		t.Skip("runs as a child of TestProcesses")
	}
	guid, err := strconv.ParseUint(os.Getenv(childNode+"_GUID"), 10, 64)
	require.NoError(t, err)
	e := newLiveEngine(guid)
	defer e.end()
	dead, err := time.ParseDuration(os.Getenv(childNode + "_DEAD"))
	require.NoError(t, err)
	number := 1
	if s := os.Getenv(childNode + "_NUMBER"); s != "" {
		number, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	p, err := Open(context.Background(), e, Config{Path: path, Node: number, Dead: dead})
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	require.NoError(t, p.Close())
	if p.header.sums {
		require.Zero(t, e.damaged())
	}
}

// child starts node 1 in a process of its own. end closes its standard input.
func child(t *testing.T, path string, guid uint64, dead time.Duration) (cmd *exec.Cmd, end func()) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^TestChildNode$", "-test.v")
	cmd.Env = append(os.Environ(), childNode+"="+path, childNode+"_GUID="+strconv.FormatUint(guid, 10), childNode+"_DEAD="+dead.String())
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close() })
	return cmd, func() { _ = in.Close() }
}

// Two processes exchange packets. One is killed, started again, stopped and continued, and ends.
func TestProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	e := newLiveEngine(1)
	defer e.end()
	p, err := Open(context.Background(), e, Config{Path: path, Dead: liveDead, Nodes: 2})
	require.NoError(t, err)
	peer := func() (up bool, why string, guid, echoes uint64) {
		s := p.Peers()
		if len(s) == 0 {
			return false, "", 0, 0
		}
		p.Route(nic.Address{GUID: s[0].GUID}) // opens the rings
		return s[0].Up, s[0].Why, s[0].GUID, s[0].Stats.Received
	}
	eventually := func(what string, f func() bool) {
		t.Helper()
		await.Until(t, what, f, func() any { return p.Peers() })
	}
	talks := func(guid uint64) {
		t.Helper()
		eventually("the link is up", func() bool { up, _, g, _ := peer(); return up && g == guid })
		_, _, _, before := peer()
		eventually("packets are echoed", func() bool { _, _, _, echoes := peer(); return echoes > before+50 })
	}

	first, _ := child(t, path, 11, liveDead)
	require.NoError(t, first.Start())
	talks(11)

	second, _ := child(t, path, 12, time.Minute) // it is over when it sees the heartbeat of the first
	out, err := second.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "node 1 lives already: it is engine 000000000000000b")
	talks(11)

	require.NoError(t, first.Process.Kill())
	eventually("the link is down", func() bool { up, _, _, _ := peer(); return !up })
	_ = first.Wait()

	third, end := child(t, path, 13, liveDead)
	require.NoError(t, third.Start())
	talks(13)

	require.NoError(t, third.Process.Signal(unix.SIGSTOP))
	eventually("the link is down", func() bool { up, _, _, _ := peer(); return !up })
	require.NoError(t, third.Process.Signal(unix.SIGCONT))
	talks(13)

	end()
	require.NoError(t, third.Wait())
	eventually("node 1 has left", func() bool { _, why, _, _ := peer(); return why == "node 1 has left the pool" })
	require.NoError(t, p.Close())
	for _, port := range e.ports {
		assert.Zero(t, port.wrong.Load())
		assert.False(t, port.up)
	}
}

// An engine that sleeps is woken through the pool, by one system call for each sleep. The test takes the
// place of the engine's thread, so the link must not be reset meanwhile: no node counts as dead.
func TestWake(t *testing.T) {
	if !shm.CanBarrier() {
		t.Skip("this kernel has no membarrier: engines take naps")
	}
	path := filepath.Join(t.TempDir(), "pool")
	var pools [2]*Pool
	var engines [2]*liveEngine
	for i := range pools {
		engines[i] = newLiveEngine(uint64(i + 1))
		defer engines[i].end()
		p, err := Open(context.Background(), engines[i], Config{Path: path, Node: i, Nodes: 2, Dead: time.Hour})
		require.NoError(t, err)
		pools[i] = p
	}
	port := func(i int) *livePort {
		path, ok := pools[i].Route(nic.Address{GUID: engines[1-i].guid})
		require.True(t, ok)
		return path.Port.(*livePort)
	}
	await.Until(t, "both links are up", func() bool {
		up := 0
		for i := range pools {
			path, ok := pools[i].Route(nic.Address{GUID: engines[1-i].guid})
			if ok && path.Port != nil && pools[i].Peers()[0].Up {
				up++
			}
		}
		return up == len(pools)
	})
	sleeper, other := port(0), port(1)
	require.NotNil(t, sleeper.cfg.Asleep)
	for range 20 {
		before := sleeper.arrived.Load()
		engines[0].mu.Lock() // this goroutine is the engine's thread now
		sleeper.cfg.Asleep(true)
		require.NoError(t, shm.Barrier())
		for sleeper.cfg.Receive.Ready() {
			var k packetring.Packet
			_, err := sleeper.cfg.Receive.Next(&k)
			require.NoError(t, err)
		}
		sleeper.cfg.Receive.Free()
		sleeper.asked = false
		other.poke.Store(true)
		await.Until(t, "it is woken", func() bool { return sleeper.arrived.Load() > before })
		sleeper.cfg.Asleep(false)
		engines[0].mu.Unlock()
	}
	for i := range pools {
		require.NoError(t, pools[i].Close())
	}
}

// If the pool's file is made shorter, the node leaves, and its process lives.
func TestMemoryIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	w := newWorld(t, 1)
	d := &node{w: w, guid: 1}
	p, err := Open(context.Background(), d, Config{Path: path, Nodes: 2})
	require.NoError(t, err)
	require.NoError(t, os.Truncate(path, 0))
	await.Until(t, "it is said that the memory is gone", func() bool {
		s := p.Peers()
		return len(s) == 1 && strings.Contains(s[0].Why, "is gone: has somebody made the file shorter")
	}, func() any { return p.Peers() })
	require.NoError(t, p.SetAddresses(nil))
	require.NoError(t, p.Close())
}

// Another process, which has mapped the pool's file, writes wrong words into the block of a node, into
// its line about the other node, and into a ring. Each time the two nodes come back by themselves.
func TestRealFileIsOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	var pools [2]*Pool
	var engines [2]*liveEngine
	for i := range pools {
		engines[i] = newLiveEngine(uint64(i + 1))
		defer engines[i].end()
		p, err := Open(context.Background(), engines[i], Config{Path: path, Node: i, Nodes: 2, Dead: liveDead})
		require.NoError(t, err)
		pools[i] = p
	}
	talk := func(what string) {
		t.Helper()
		for i := range pools {
			echoes := func() uint64 {
				pools[i].Route(nic.Address{GUID: engines[1-i].guid}) // opens the rings
				s := pools[i].Peers()
				if len(s) != 1 || !s[0].Up {
					return 0
				}
				return s[0].Stats.Received
			}
			var before uint64
			state := func() any { return pools[i].Peers() }
			await.Until(t, what+": the link is up", func() bool { before = echoes(); return before > 0 }, state)
			await.Until(t, what+": packets are echoed", func() bool { return echoes() > before+50 }, state)
		}
	}
	talk("at first")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, int(pools[0].header.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(m)) }()
	for _, row := range []struct {
		name string
		at   uint64
		n    int
	}{
		{"the epoch of node 1", pools[1].part + epochAt, 8},
		{"the state of node 1", pools[1].part + stateAt, 8},
		{"the pair of node 1 and node 0", pools[1].header.pairAt(1, 0), 16},
		{"the description of node 1", pools[1].part + describeAt, 64},
		{"the ring from node 1 to node 0", pools[1].part + pools[1].header.ringsAt(), 4096},
	} {
		for i := range row.n / 8 {
			shm.BE64At(m, row.at+uint64(8*i)).Publish(0x1234567800000000 + uint64(i))
		}
		talk(row.name)
	}
	for i := range pools {
		require.NoError(t, pools[i].Close())
	}
}
