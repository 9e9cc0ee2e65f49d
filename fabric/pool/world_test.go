package pool

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/incoherent"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
)

// A world is some nodes, their engines and a clock, in one goroutine. Each node runs its loops once per tick.
type world struct {
	t     testing.TB
	now   time.Time
	rng   *rand.Rand
	size  int
	heap  *shm.Region        // the memory, if it is coherent
	path  string             // of its file, if it has one
	mem   *incoherent.Memory // the memory, if not
	sides [MaxNodes]*incoherent.Side
	side  func(number int) *incoherent.Side // makes one
	skip  func(string) bool
	nodes []*node

	// interleave lets other nodes run while a node is in the middle of its loops, at any of its
	// loads and stores.
	interleave bool
	odds       int // one of so many loads and stores does so
	depth      int
	evict      bool                // caches drop lines at any time
	unnumbered int                 // nodes that were made without a number
	quiet      bool                // engines send nothing
	byNeed     bool                // rings are opened by the tests, not between all nodes
	late       time.Duration       // how much longer than they choose their pauses are
	paced      bool                // nodes make the pauses that they choose, and do not run in each tick
	lazy       int                 // engines send in one step of so many only, so that rings do not go round
	around     func(*node) func()  // called by the loops of a node, which defer what it returns
	looked     func(*node, uint64) // called after a node has invalidated lines at an offset
	stored     func(*node)         // called before and after a node writes lines back
	sums       Sums                // of nodes that say nothing of check sums
	checked    bool                // after each look, what others see of each link is compared with the link
	same       *sameSize           // what engines send in each step; nil: something random
}

// sameSize is so many packets with so many bytes of payload, a multiple of 8.
type sameSize struct{ packets, payload int }

// A node is an engine in a world, and its pool.
type node struct {
	w      *world
	number int
	pool   *Pool
	ports  []*port
	guid   uint64
	paused bool                     // no thread of the process runs
	inside bool                     // of its loops
	ran    time.Time                // when the node ran last, if nodes make pauses
	refuse int                      // how many ports the engine refuses
	board  map[uint64][]board.Entry // the links' reports about other engines
	told   int                      // how often
	astray int                      // how often there was no way to the engine then
}

// A port is what an engine has of a link. It sends numbered packets and checks those that come.
type port struct {
	cfg      nic.PortConfig
	node     *node
	up       bool
	closed   bool
	arrived  int
	run      uint64 // sessions so far
	sent     uint64 // in this session
	got      uint64 // packets in this session
	from     uint64 // whose they are: the sender's GUID and run, as its packets say
	problems []string

	queuePairs int  // that use the port
	greedy     bool // it sends as long as there is room
}

const worldSize = 8 << 20

func newWorld(t testing.TB, seed uint64) *world { return newSizedWorld(t, seed, worldSize) }

// newSizedWorld returns a world with so many bytes of memory.
func newSizedWorld(t testing.TB, seed uint64, size int) *world {
	heap, err := shm.Heap(size)
	require.NoError(t, err)
	w := &world{t: t, odds: 8, now: time.Unix(1e9, 0), rng: rand.New(rand.NewPCG(seed, 0)), size: size, heap: heap}
	garbage(w.rng, heap.Bytes()[:min(size, 1<<20)&^7])
	return w
}

// garbage fills memory, so that no code relies on a blank pool.
func garbage(rng *rand.Rand, b []byte) {
	for i := 0; i < len(b); i += 8 {
		binary.BigEndian.PutUint64(b[i:], rng.Uint64())
	}
}

func newIncoherentWorld(t testing.TB, seed uint64) *world {
	w := newWorld(t, seed)
	w.heap, w.size, w.sums, w.checked = nil, 1<<20, sumsOf(seed), true
	w.side = func(i int) *incoherent.Side { return w.mem.Side(fmt.Sprintf("node %d", i), w.rng.Uint64()) }
	w.mem = incoherent.New(w.size, seed)
	w.mem.Helpers = []string{"memory.go", "world_test.go"}
	return w
}

// sumsOf returns with which seeds packets carry check sums: the even ones.
func sumsOf(seed uint64) Sums { return SumsOn + Sums(seed%2) }

// make returns a node that has not started.
func (w *world) make(cfg Config) *node {
	side := max(cfg.Node, 0)
	if cfg.Node == AnyNode {
		w.unnumbered++
		side = MaxNodes/2 + w.unnumbered
	}
	cfg.Sums = cmp.Or(cfg.Sums, w.sums)
	n := &node{w: w, number: cfg.Node, guid: uint64(0xabc0 + side)}
	var mem []byte
	if w.mem != nil {
		cfg.Incoherent = true
		if cfg.Nodes == 0 && cfg.Node == 0 {
			cfg.Nodes, cfg.Slots, cfg.Data, cfg.MTU = 3, 8, 4096, 256
		}
		w.sides[side] = w.side(side)
		w.sides[side].Skip = w.skip
		if w.evict {
			w.sides[side].Evict = rand.New(rand.NewPCG(w.rng.Uint64(), 0))
		}
		mem = w.sides[side].Bytes()
	} else {
		mem = w.heap.Bytes()[cfg.Offset:]
		if cfg.Size != 0 {
			mem = mem[:cfg.Size]
		}
	}
	cfg.Addresses = []Address{{GID: [16]byte{15: byte(cfg.Node + 1)}, LID: uint16(cfg.Node + 100)}}
	if cfg.Name == "" {
		cfg.Name = fmt.Sprintf("engine %d", cfg.Node)
	}
	n.pool = newPool(n, cfg, mem, worldTimer{w, n})
	n.pool.draw = w.rng.Uint64
	if w.mem != nil {
		n.pool.view.cache = &worldCache{w, n, w.sides[side]}
	}
	return n
}

// start makes a node and joins.
func (w *world) start(cfg Config) (*node, error) {
	if cfg.Dead == 0 {
		cfg.Dead = soonDead
	}
	n := w.make(cfg)
	if err := n.pool.start(context.Background()); err != nil {
		return nil, err
	}
	w.nodes = append(w.nodes, n)
	return n, nil
}

func (w *world) mustStart(cfg Config) *node {
	w.t.Helper()
	n, err := w.start(cfg)
	require.NoError(w.t, err)
	return n
}

// kill ends a node as kill -9 does.
func (w *world) kill(n *node) {
	w.nodes = slices.DeleteFunc(w.nodes, func(o *node) bool { return o == n })
}

// pass lets time pass: all nodes run their loops once per tick.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(tick) {
		w.round(nil)
	}
}

// round lets all nodes but one run once.
func (w *world) round(except *node) {
	for _, i := range w.rng.Perm(len(w.nodes)) {
		if i < len(w.nodes) && w.nodes[i] != except {
			w.nodes[i].loops()
		}
	}
}

// until lets time pass until f is true, and fails after d.
func (w *world) until(d time.Duration, f func() bool, what string) {
	w.t.Helper()
	for end := w.now.Add(d); !f(); {
		require.True(w.t, w.now.Before(end), "%s: not after %v", what, d)
		w.pass(tick)
	}
}

// loops runs the loops of the node, and its engine.
func (n *node) loops() {
	if n.paused || n.inside {
		return
	}
	n.inside = true
	defer func() { n.inside = false }()
	if n.w.around != nil {
		defer n.w.around(n)()
	}
	if !n.due() {
		n.work()
		return
	}
	n.pool.guarded(n.pool.tick)
	if !n.w.byNeed {
		n.want()
	}
	n.pool.guarded(n.pool.watch)
	if n.w.checked {
		n.checkState()
	}
	n.work()
}

// due reports whether the node's pause is over.
func (n *node) due() bool {
	if !n.w.paced {
		return true
	}
	if !n.pool.alarm.rung() && n.w.now.Sub(n.ran) < n.pool.pace.pause+n.w.late {
		return false
	}
	n.ran = n.w.now
	return true
}

// work is a step of the engine's thread.
func (n *node) work() {
	for _, p := range n.ports {
		p.survive(p.step)
	}
}

// survive calls f, and gives the port up if memory of its rings is lost, as an engine does.
func (p *port) survive(f func()) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if fault, ok := r.(interface{ Addr() uintptr }); ok {
			p.closed, p.up = true, false
			p.cfg.Failed(nic.LostMemory(fault.Addr()))
		} else if r != nil {
			panic(r)
		}
	}()
	f()
}

// link returns a node's link with another, a blank one if they have not met.
func (n *node) link(to int) *link {
	if l := n.pool.links[to]; l != nil {
		return l
	}
	return newLink(n.pool, to)
}

func (n *node) up(to int) bool { return n.link(to).up }

// want makes queue pairs of the node need all nodes that it knows.
func (n *node) want() {
	for _, l := range n.pool.links {
		if l != nil && l.pair == nil {
			l.wanted.Store(true)
		}
	}
}

// claimNews says that the node's board and description have changed, whether they have or not.
func (n *node) claimNews() {
	n.pool.report(func(l *life) { l.posted++; l.described++ })
}

// ringAt returns where the ring is that a node sends to another one into.
func (n *node) ringAt(to int) int {
	return int(n.pool.part + n.pool.header.ringsAt() + uint64(n.link(to).pair.growth.now.at)<<12)
}

// describe publishes the node's description again.
func (n *node) describe() {
	n.pool.own.Lock()
	defer n.pool.own.Unlock()
	n.pool.describe()
}

func (n *node) GUID() uint64 { return n.guid }

// SetAnnounced keeps a link's report, as an engine does.
func (n *node) SetAnnounced(link any, guid uint64, list []board.Entry) {
	n.told++
	if n.board == nil {
		n.board = make(map[uint64][]board.Entry)
	}
	n.board[guid] = list
	if len(list) > 0 && n.pool != nil { // nil: Open has made the pool
		if _, found := n.pool.Look(nic.Address{GUID: guid}); !found {
			n.astray++
		}
	}
	if len(list) == 0 {
		delete(n.board, guid)
	}
}

func (n *node) AddPort(cfg nic.PortConfig) (nic.Port, error) {
	if n.refuse > 0 {
		n.refuse--
		return nil, errors.New("it is closed")
	}
	p := &port{cfg: cfg, node: n}
	n.ports = append(n.ports, p)
	return p, nil
}

// open returns the ports that are not closed.
func (n *node) open() (open []*port) {
	for _, p := range n.ports {
		if !p.closed {
			open = append(open, p)
		}
	}
	return open
}

// step sends some packets and takes those that are there. The first 24 bytes of each are the
// sender's GUID, the number of its session, and the number of the packet in the session.
func (p *port) step() {
	if !p.up || p.closed {
		return
	}
	w := p.node.w
	for range p.burst() {
		if w.lazy > 0 && w.rng.IntN(w.lazy) > 0 {
			break
		}
		h, payload, ok := p.cfg.Send.Reserve(24, p.payload())
		if !ok {
			break
		}
		be.PutUint64(h[0:], p.node.guid)
		be.PutUint64(h[8:], p.run)
		be.PutUint64(h[16:], p.sent)
		for i := 0; i < len(payload); i += 8 {
			be.PutUint64(payload[i:], p.sent<<16+uint64(i))
		}
		p.cfg.Send.Publish(0)
		p.sent++
	}
	if p.cfg.Wake != nil {
		p.cfg.Wake()
	}
	p.take()
	p.cfg.Receive.Free()
}

// burst is how many packets the port sends in a step at most.
func (p *port) burst() int {
	switch {
	case p.node.w.quiet:
		return 0
	case p.greedy:
		return 2 * mostSlots
	case p.node.w.same != nil:
		return p.node.w.same.packets
	}
	return p.node.w.rng.IntN(4)
}

// payload is how many bytes of payload the next packet has.
func (p *port) payload() int {
	if s := p.node.w.same; s != nil {
		return s.payload
	}
	return 8 * p.node.w.rng.IntN(p.cfg.MTU/8)
}

func (p *port) take() {
	var k packetring.Packet
	for {
		ok, err := p.cfg.Receive.Next(&k)
		if err != nil {
			p.problem("%v", err)
			p.closed, p.up = true, false // as the engine does it
			p.cfg.Failed(err)
			return
		}
		if !ok {
			return
		}
		from, number := be.Uint64(k.Head[0:])<<32|be.Uint64(k.Head[8:]), be.Uint64(k.Head[16:])
		if p.got == 0 {
			p.from = from
		}
		if from != p.from || number != p.got {
			p.problem("packet %d of %x; packet %d of %x is next", number, from, p.got, p.from)
		}
		for i := 0; i+8 <= len(k.Payload); i += 8 {
			if be.Uint64(k.Payload[i:]) != number<<16+uint64(i) {
				p.problem("payload of packet %d, byte %d", number, i)
				break
			}
		}
		p.got++
	}
}

func (p *port) problem(format string, args ...any) {
	if len(p.problems) < 4 {
		p.problems = append(p.problems, fmt.Sprintf("%v: %s", p.cfg.Name, fmt.Sprintf(format, args...)))
	}
}

func (p *port) Arrived() { p.arrived++ }

func (p *port) SetUp(up bool) {
	if p.up == up {
		return
	}
	p.up = up
	if up {
		p.run, p.sent, p.got = p.run+1, 0, 0
	}
}

func (p *port) SendManagement(uint32, []byte, []byte) error { return errors.New("not in this double") }
func (p *port) Stats() nic.PortStats {
	return nic.PortStats{Up: p.up, Sent: p.sent, Received: p.got, QueuePairs: p.queuePairs}
}
func (p *port) PathCounts() map[uint32]nic.PathCounts { return nil }
func (p *port) Trim()                                 {}
func (p *port) Close() error                          { p.closed, p.up = true, false; return nil }

// describe lists what each node reports of each other.
func (w *world) describe() (s string) {
	for _, n := range w.nodes {
		s += fmt.Sprintf("[node %d, paused %v, lost %q:", n.number, n.paused, n.pool.lost)
		for _, l := range n.pool.links {
			if l != nil {
				s += fmt.Sprintf(" %d up %v %q", l.peer, l.up, l.why)
			}
			if l != nil && l.pair != nil {
				s += fmt.Sprintf(" %+v", l.pair.session)
			}
		}
		for _, p := range n.open() {
			s += fmt.Sprintf(" sent %d got %d", p.sent, p.got)
		}
		s += "] "
	}
	return s
}

// problems returns what the engines of the world have found wrong.
func (w *world) problems() (all []string) {
	for _, n := range w.nodes {
		for _, p := range n.ports {
			all = append(all, p.problems...)
		}
	}
	if w.mem != nil {
		all = append(all, w.mem.Faults()...)
	}
	return all
}

// worldTimer is the clock of a world. While a node sleeps, the others run.
type worldTimer struct {
	w *world
	n *node
}

func (t worldTimer) Now() time.Time { return t.w.now }

func (t worldTimer) Sleep(ctx context.Context, d time.Duration) error {
	for end := t.w.now.Add(d); t.w.now.Before(end); t.w.now = t.w.now.Add(tick) {
		t.w.round(t.n)
	}
	return ctx.Err()
}

// worldCache is the cache of a side, during whose operations other nodes may run.
type worldCache struct {
	w    *world
	node *node
	side *incoherent.Side
}

func (c *worldCache) WriteBack(b []byte) {
	if c.w.stored != nil {
		c.w.stored(c.node)
	}
	c.side.WriteBack(b)
	if c.w.stored != nil {
		c.w.stored(c.node)
	}
	c.others()
}

func (c *worldCache) Invalidate(b []byte) {
	c.others()
	c.side.Invalidate(b)
	if c.w.looked != nil {
		at, _ := c.side.Offset(b)
		c.w.looked(c.node, at)
	}
}

func (c *worldCache) others() {
	if c.w.interleave && c.w.depth < 3 && c.w.rng.IntN(c.w.odds) == 0 && len(c.w.nodes) > 0 {
		c.w.depth++
		c.w.nodes[c.w.rng.IntN(len(c.w.nodes))].loops()
		c.w.depth--
	}
}
