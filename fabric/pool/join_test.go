package pool

import (
	"context"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/shm"
)

// Nodes that come before node 0 wait for it.
func TestNodesWaitForNode0(t *testing.T) {
	w := newWorld(t, 1)
	began := w.now
	_, err := w.start(Config{Node: 1, Wait: time.Second})
	require.EqualError(t, err, "no pool after 1s: no node has formatted it; is node 0 running, with the same file and offset=?")
	require.Equal(t, time.Second, w.now.Sub(began))

	late := w.make(Config{Node: 0})
	done := false
	w.nodes = []*node{{w: w, pool: late.pool, paused: true}}
	b := w.make(Config{Node: 1})
	b.pool.time = hookedTimer{worldTimer{w, b}, func() {
		if !done {
			done = true
			require.NoError(t, late.pool.start(context.Background()))
		}
	}}
	require.NoError(t, b.pool.start(context.Background()))
}

// A hookedTimer calls a function before each sleep.
type hookedTimer struct {
	worldTimer
	f func()
}

func (t hookedTimer) Sleep(ctx context.Context, d time.Duration) error {
	t.f()
	return t.worldTimer.Sleep(ctx, d)
}

// A file that is no pool, or another one, is refused with a sentence. Node 0 formats it, if no
// node uses it.
func TestOtherHeaders(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(b []byte)
		err    string
	}{
		{"blank", func(b []byte) { clear(b) }, "no node has formatted it"},
		{"one byte", func(b []byte) { b[20]++ }, "its header is damaged: wrong check sum"},
		{"identity 0", func(b []byte) { clear(b[24:32]); sum(b) }, "its header is damaged: size"},
		{"slots", func(b []byte) { b[35] = 3; sum(b) }, "its header is damaged: packetring: impossible size: 3 slots"},
		{"largest data area", func(b []byte) { b[40] = 0xff; sum(b) }, "its header is damaged: packetring: impossible size: data area"},
		{"data area", func(b []byte) { b[40] = 1; sum(b) }, "its header is damaged: packetring: impossible size: data area"},
		{"nodes", func(b []byte) { b[10] = 4; sum(b) }, "its header is damaged: 1040 nodes; 2 to 1024 are possible"},
		{"MTU", func(b []byte) { b[36] = 1; sum(b) }, "its header is damaged: MTU 167"},
		{"flags", func(b []byte) { b[14] = 1; sum(b) }, "its header is damaged: unknown flags"},
		{"size", func(b []byte) { b[23] = 1; sum(b) }, "its header is damaged: size 8"},
	} {
		w := newWorld(t, 1)
		a := w.mustStart(Config{Node: 0})
		w.kill(a)
		row.change(w.heap.Bytes()[:headerSize])
		_, err := w.start(Config{Node: 1, Wait: 20 * time.Millisecond})
		require.ErrorContains(t, err, row.err, row.name)
		w.mustStart(Config{Node: 0})
		_, err = w.start(Config{Node: 1})
		require.NoError(t, err, row.name)
	}
}

// A pool of another version is refused by all nodes, because none knows where the nodes of that version are.
func TestOtherVersion(t *testing.T) {
	w := newWorld(t, 1)
	w.kill(w.mustStart(Config{Node: 0}))
	w.heap.Bytes()[9] = 2
	sum(w.heap.Bytes()[:headerSize])
	for _, number := range []int{0, 1, AnyNode} {
		_, err := w.start(Config{Node: number, Wait: 20 * time.Millisecond})
		require.ErrorContains(t, err, "it has another version: 2; this is version 3, or 4 with check sums: engines of one release share a pool, so end the others and remove the file, or name another one")
		require.NotContains(t, err.Error(), "is node 0 running")
	}
}

// sum corrects the check sum of a header. The rows above write single bytes of it.
func sum(b []byte) {
	h := [headerSize]byte(b)
	be.PutUint64(h[56:], headerSum(&h))
	copy(b, h[:])
}

func TestPoolLargerThanMemory(t *testing.T) {
	w := newWorld(t, 1)
	w.mustStart(Config{Node: 0})
	_, err := w.start(Config{Node: 1, Size: 1 << 20, Wait: time.Millisecond})
	require.ErrorContains(t, err, "the pool is larger than the memory: 8327168 bytes; ")
	require.ErrorContains(t, err, "1048576 are mapped here")
}

// A node that maps less than a pool has does not format it anew: it does not see all nodes, so it does not
// know whether they live.
func TestPoolLargerThanMemoryOfTheFirst(t *testing.T) {
	w := newWorld(t, 1)
	b := w.mustStart(Config{Node: AnyNode})
	for _, number := range []int{0, AnyNode} {
		_, err := w.start(Config{Node: number, Size: 1 << 20})
		require.EqualError(t, err, "the pool is larger than the memory: 8327168 bytes; 1048576 are mapped here. "+
			"Ask for as much (size=), with the same offset= as its other nodes, or remove the file when no engine uses it")
	}
	w.pass(time.Second)
	require.Empty(t, b.pool.lost)
}

// A node's options must agree with the pool. Node 0 formats a pool anew, but not under the
// feet of others.
func TestOptionsAgree(t *testing.T) {
	w := newWorld(t, 1)
	a := w.mustStart(Config{Node: 0, Nodes: 3, Slots: 64, Data: 64 << 10})
	b := w.mustStart(Config{Node: 1})
	for _, row := range []struct {
		cfg Config
		err string
	}{
		{Config{Node: 3}, "it has 3 nodes, 0 to 2, and this is to be node 3"},
		{Config{Node: 2, Nodes: 4}, "it has nodes=3, and nodes=4 is asked for"},
		{Config{Node: 2, Slots: 128}, "it has slots=64, and slots=128 is asked for"},
		{Config{Node: 2, Data: 128 << 10}, "it has data=65536, and data=131072 is asked for"},
		{Config{Node: 2, Incoherent: true}, "the node that formats it needs coherence=none too"},
		{Config{Node: 2, Sums: SumsOn}, "its packets have no check sums: the node that formats it needs sums=on too"},
	} {
		began := w.now
		_, err := w.start(row.cfg)
		require.ErrorContains(t, err, row.err)
		require.ErrorContains(t, err, ", and it is in use by node 0 and node 1; end these engines, or ask for what it is")
		require.Less(t, w.now.Sub(began), defaultWait, "it does not wait for a pool that nobody will make")
	}
	w.kill(a)
	_, err := w.start(Config{Node: 0, Nodes: 4})
	require.EqualError(t, err, "it does not suit this node: it has nodes=3, and nodes=4 is asked for, and it is in use by node 1; end these engines, or ask for what it is")
	w.until(time.Second, func() bool { return !b.up(0) }, "node 0 is gone")
	b.paused = true // it does not live now, but comes back
	a = w.mustStart(Config{Node: 0, Nodes: 4, Slots: 128})
	b.paused = false
	w.until(time.Second, func() bool { return a.up(1) && b.up(0) }, "node 1 joins the new pool")
	works(t, w, a, b)
	require.Equal(t, 4, b.pool.header.nodes)
}

// A node that leaves room in its options finds it in the pool again after a restart of node 0.
func TestRestartKeepsPool(t *testing.T) {
	w := newWorld(t, 1)
	a := w.mustStart(Config{Node: 0, Nodes: 3, Slots: 64, Data: 64 << 10})
	identity := a.pool.header.identity
	w.kill(a)
	a = w.mustStart(Config{Node: 0})
	require.Equal(t, identity, a.pool.header.identity)
	require.Equal(t, 3, a.pool.header.nodes)
}

// Two engines cannot be one node, whether one starts later or both start together.
func TestTwoNodesWithOneNumber(t *testing.T) {
	w := newWorld(t, 1)
	a, b := couple(t, w)
	_, err := w.start(Config{Node: 1})
	require.EqualError(t, err, `node 1 lives already: it is engine 000000000000abc1 "engine 1"; each engine needs a number of its own: another node=, or none`)
	works(t, w, a, b)

	// Both look before either has written its block.
	w = newWorld(t, 1)
	w.mustStart(Config{Node: 0})
	first, second := w.make(Config{Node: 1, Name: "first"}), w.make(Config{Node: 1, Name: "second"})
	w.nodes = append(w.nodes, first, second)
	first.paused, second.paused = true, true
	started := false
	first.pool.time = hookedTimer{worldTimer{w, first}, func() {
		if !started {
			started = true
			assert.NoError(t, second.pool.start(context.Background()), "the one that wrote last")
		}
	}}
	err = first.pool.start(context.Background())
	require.EqualError(t, err, `another engine has become node 1: it is engine 000000000000abc1 "second"; each engine needs a number of its own (node=)`)
}

// A node that stood still for so long that another took its number leaves.
func TestNumberIsTaken(t *testing.T) {
	w := newWorld(t, 1)
	a, b := couple(t, w)
	b.paused = true
	c := w.mustStart(Config{Node: 1, Name: "next"})
	b.paused = false
	w.until(time.Second, func() bool { return b.pool.lost != "" && a.up(1) }, "the old node leaves, the new one stays")
	require.Contains(t, b.pool.lost, `another engine has become node 1: it is engine 000000000000abc1 "next"`)
	require.Empty(t, b.open())
	w.pass(time.Second)
	require.True(t, c.up(0))
	works(t, w, a, c)
	require.NoError(t, b.pool.Close())
	w.pass(time.Second)
	require.True(t, c.up(0), "the old node's Close says nothing in the new one's name")
}

// If the header is damaged, the links that are up stay up. Node 0 writes it again.
func TestHeaderIsDamaged(t *testing.T) {
	w := newWorld(t, 1)
	a, b := couple(t, w)
	good := [headerSize]byte(w.heap.Bytes())
	a.paused = true
	garbage(w.rng, w.heap.Bytes()[:headerSize])
	w.pass(5 * tick)
	require.Empty(t, b.pool.lost)
	a.paused = false
	w.pass(2 * tick)
	require.Equal(t, good, [headerSize]byte(w.heap.Bytes()))
	works(t, w, a, b)
	require.EqualValues(t, 1, a.open()[0].run, "the link was up all the time")

	// It is another pool now, and node 0 is not there to say what this one was.
	w.kill(a)
	other := a.pool.header
	other.identity++
	a.pool.format(&other)
	w.pass(2 * tick)
	require.Equal(t, other.identity, b.pool.header.identity, "the other nodes follow")
}

// A node that lives, but in another pool that was here before, is no peer.
func TestOldIdentity(t *testing.T) {
	w := newWorld(t, 1)
	a, b := couple(t, w)
	shm.BE64At(w.heap.Bytes(), b.pool.part+identityAt).Publish(5)
	a.loops()
	require.Equal(t, "node 1 has not joined the pool", a.pool.Peers()[0].Why)
}

// The two nodes of a link use the smaller MTU.
func TestMTU(t *testing.T) {
	w := newWorld(t, 1)
	a := w.mustStart(Config{Node: 0, MTU: 4096})
	b := w.mustStart(Config{Node: 1, MTU: 1024})
	w.until(time.Second, func() bool { return a.up(1) && b.up(0) }, "both are up")
	require.Equal(t, 1024, a.pool.Peers()[0].MTU)
	require.Equal(t, 1024, b.pool.Peers()[0].MTU)
	require.Equal(t, 4096, a.open()[0].cfg.MTU, "what the engine accepts")
}

// A node whose description is impossible has no link, and reports why.
func TestImpossibleDescriptions(t *testing.T) {
	for _, row := range []struct {
		change func(d *description)
		err    string
	}{
		{func(d *description) { d.guid = 0 }, "node 1: its GUID is 0"},
		{func(d *description) { d.guid = 0xabc0 }, "node 1: it says that it is this engine, 000000000000abc0"},
		{func(d *description) { d.mtu = 255 }, "node 1: it accepts an MTU of 255 only; 256 are the least"},
		{func(d *description) { d.mtu = 300 }, "node 1: it has changed what cannot change: GUID, MTU or host"},
	} {
		w := newWorld(t, 1)
		a, b := couple(t, w)
		row.change(&b.pool.description)
		b.describe()
		w.pass(2 * tick)
		require.Equal(t, row.err, a.pool.Peers()[0].Why)
		require.False(t, a.open()[0].up)
	}
	w := newWorld(t, 1)
	a, b := couple(t, w)
	at := b.pool.part + describeAt
	w.heap.Bytes()[at+70]++ // of the name
	shm.BE64At(w.heap.Bytes(), at).Publish(100)
	b.claimNews()
	w.pass(2 * tick)
	require.True(t, a.up(1), "as if it were being written")
	b.describe()
	w.pass(2 * tick)
	require.True(t, a.up(1))

	shm.BE32At(w.heap.Bytes(), at+28).Publish(MaxAddresses + 1)
	shm.BE64At(w.heap.Bytes(), at).Publish(200)
	b.claimNews()
	w.pass(2 * tick)
	require.Equal(t, "node 1: it says that it has 129 addresses; 128 are possible", a.pool.Peers()[0].Why)
}

func TestEngineTakesNoPort(t *testing.T) {
	w := newWorld(t, 1)
	a := w.mustStart(Config{Node: 0})
	a.refuse = 2
	w.mustStart(Config{Node: 1})
	w.pass(5 * tick)
	require.Equal(t, "the engine takes no port: it is closed", a.pool.Peers()[0].Why)
	w.until(3*time.Second, func() bool { return a.up(1) }, "it is tried again")
}

// The name of a node is clean in errors and in the log, whatever bytes it has.
func TestNamesAreClean(t *testing.T) {
	for _, name := range []string{"\x1b[31mred", "two\nlines", "\u202egnp.exe", "\xff\xfe", "\u2066x\u2069", "a\x00b\x07"} {
		d := description{guid: 1, mtu: MinMTU, name: name}
		var b [describeSize]byte
		got, err := parseDescription(b[:d.put(&b)])
		require.NoError(t, err)
		for _, r := range got.name {
			require.True(t, unicode.IsPrint(r), "%q in the name %q", r, got.name)
		}
	}
}
