package pool

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/model/rack"
)

// The model of a rack says what these say.
func TestHabits(t *testing.T) {
	require.Equal(t, rack.Tick, tick)
	require.Equal(t, rack.IdleTick, idleTick)
	require.Equal(t, rack.LookAt, lookAt)
	require.Equal(t, rack.OwnPeriod, ownPeriod)
	require.Equal(t, rack.StandPeriod, min(ownPeriod, defaultDead/4))
	require.Equal(t, rack.FullLook, packetring.FullLook)
	require.Equal(t, rack.MinNodes, MinNodes)
	require.Equal(t, rack.MaxNodes, MaxNodes)
	require.Equal(t, rack.MaxSlots, mostSlots)
	r, h := rack.New(MinNodes, 1), startHeader(t, MinNodes)
	require.Equal(t, r.Slots, h.ring.Slots)
	require.Equal(t, r.Data, h.ring.Data)
}

func startHeader(t *testing.T, nodes int) header {
	h, err := plan(&Config{Nodes: nodes}, uint64(nodes)<<20+4096)
	require.NoError(t, err)
	return h
}

// A counter counts the lines that nodes read and write, by what the lines are for. It is the Cache of nodes
// whose memory is coherent all the same.
type counter struct {
	heap  *shm.Region
	h     header
	node  int
	lines map[string]*rack.Lines
}

func (c *counter) WriteBack(b []byte)  { c.count(b, func(l *rack.Lines, n float64) { l.Write += n }) }
func (c *counter) Invalidate(b []byte) { c.count(b, func(l *rack.Lines, n float64) { l.Read += n }) }

func (c *counter) count(b []byte, add func(*rack.Lines, float64)) {
	at, ok := c.heap.Offset(b)
	if !ok {
		return // no bytes at all
	}
	name := c.purpose(at, len(b))
	if c.lines[name] == nil {
		c.lines[name] = &rack.Lines{}
	}
	n := float64((at+uint64(len(b))-1)/line - at/line + 1)
	if name == rack.Standing {
		n /= slotBytes / line // only the first line of each slot is loaded then
	}
	add(c.lines[name], n)
}

// packets is what lines of rings are for, and counts of packets, unless somebody looks whether a ring stands
// still.
const packets = "packets"

// purpose returns what bytes at an offset are for.
func (c *counter) purpose(at uint64, n int) string {
	if at < partsAt {
		return rack.Header
	}
	of, in := int((at-partsAt)/c.h.part()), (at-partsAt)%c.h.part()
	switch {
	case in < line && of == c.node:
		return rack.Heartbeat
	case in < line:
		return rack.Directory
	case in < pairsAt:
		return rack.Own
	case in < c.h.ringsAt() && in%pairSize >= countAt:
		return packets
	case in < c.h.ringsAt():
		return rack.Sessions
	case n == c.h.ring.Slots*slotBytes:
		return rack.Standing
	}
	return packets
}

const slotBytes = 2 * line

// pricedWorld is a rack of nodes that count the lines that they read and write. Each talks with 2 * following
// others.
func pricedWorld(t *testing.T, nodes int) (*world, []*counter) {
	w := newSizedWorld(t, 1, nodes<<20+4096)
	w.byNeed, w.paced, w.quiet = true, true, true
	all, list := make([]*node, nodes), make([]*counter, nodes)
	for i := range all {
		all[i] = w.make(Config{Node: i, Nodes: nodes, Dead: defaultDead, Incoherent: true})
		all[i].pool.cfg.Addresses = append(all[i].pool.cfg.Addresses, Address{LID: uint16(i + 1)})
		list[i] = &counter{heap: w.heap, h: startHeader(t, nodes), node: i}
		list[i].reset()
		all[i].pool.view.cache = list[i]
		require.NoError(t, all[i].pool.prepareAndJoin())
		w.nodes = append(w.nodes, all[i])
	}
	require.Equal(t, list[0].h.part(), all[0].pool.header.part())
	w.until(time.Second, func() bool { return reached(all, all) }, "all have their rings")
	for _, n := range all {
		for _, p := range n.ports {
			p.queuePairs = 1 // so nobody gives them back
		}
	}
	return w, list
}

func (c *counter) reset() { c.lines = make(map[string]*rack.Lines) }

// measure returns what a node has read and written in a second, in the mean of all nodes, in some time.
func (w *world) measure(list []*counter, d time.Duration) map[string]rack.Lines {
	for _, c := range list {
		c.reset()
	}
	w.pass(d)
	sum := make(map[string]rack.Lines)
	for _, c := range list {
		for name, l := range c.lines {
			s, per := sum[name], d.Seconds()*float64(len(list))
			sum[name] = rack.Lines{Read: s.Read + l.Read/per, Write: s.Write + l.Write/per}
		}
	}
	return sum
}

// byPurpose returns what the nodes of a rack do in a second as the counter names it. The lines of packets are
// added.
func byPurpose(r rack.Rack, s rack.State, more rack.Lines) map[string]rack.Lines {
	m := make(map[string]rack.Lines)
	for _, p := range r.Second(s) {
		m[p.Name] = p.Lines
	}
	// A look whether a ring stands still reads a count, and perhaps the next slot.
	some := float64(r.Talks) * float64(time.Second/rack.StandPeriod)
	if !s.Moving {
		some *= 2
	}
	m[packets] = rack.Lines{Read: m[rack.Looks].Read + some + more.Read, Write: more.Write}
	m[rack.Standing] = rack.Lines{Read: m[rack.Standing].Read - some}
	delete(m, rack.Looks)
	return m
}

// off is how far counts may be from the model, in parts of it: periods begin and end within the time of a
// measurement, and the order of nodes is random.
const off = 0.02

func requireLines(t *testing.T, want, got map[string]rack.Lines) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w, g := want[name], got[name]
		t.Logf("%-10s reads %9.1f, model %9.1f; writes %8.1f, model %8.1f", name, g.Read, w.Read, g.Write, w.Write)
		require.InDelta(t, w.Read, g.Read, off*w.Read+1e-9, "%s: lines read", name)
		require.InDelta(t, w.Write, g.Write, off*w.Write+1e-9, "%s: lines written", name)
	}
	for name := range got {
		require.Contains(t, want, name)
	}
}

// The nodes of a rack read and write as many lines as the model says: idle, while something happens, and with
// packets.
func TestPriceAtScale(t *testing.T) {
	nodes := explore.Rounds(150, 1000)
	w, list := pricedWorld(t, nodes)
	r := rack.New(nodes, 2*following)
	const looks = float64(time.Second / tick) // the engines of a world look at each ring once per tick

	w.pass(briskTime + 2*idleTick)
	idle := w.measure(list, packetring.FullLook*ownPeriod)
	t.Log("idle")
	requireLines(t, byPurpose(r, rack.State{Looks: looks}, rack.Lines{}), idle)

	for _, n := range w.nodes {
		n.pool.pace.brisk = time.Hour
	}
	w.pass(2 * idleTick)
	brisk := w.measure(list, 2*time.Second)
	t.Log("brisk")
	want := byPurpose(r, rack.State{Brisk: true, Looks: looks}, rack.Lines{})
	delete(brisk, rack.Standing) // once in FullLook * ownPeriod, and as when idle
	delete(want, rack.Standing)
	requireLines(t, want, brisk)

	for _, n := range w.nodes {
		n.pool.pace.brisk = 0
	}
	w.quiet = false
	for _, c := range []rack.Traffic{{Head: 24, Payload: 8}, {Head: 24, Payload: 64}, {Head: 24, Payload: 1024}} {
		w.same = &sameSize{packets: 3, payload: c.Payload}
		w.pass(ownPeriod + 2*idleTick)
		moving := w.measure(list, time.Second)
		// Of two nodes each runs first in half of the rounds, so a quarter of the looks finds no packet and
		// another quarter those of two rounds.
		c.Batch = float64(w.same.packets) * 4 / 3
		p := r.Packet(c)
		rate := looks * float64(w.same.packets*r.Talks)
		t.Logf("%d bytes, %.0f packets a second", c.Payload, rate)
		more := rack.Lines{Read: rate * p.Read, Write: rate * p.Write}
		requireLines(t, byPurpose(r, rack.State{Moving: true, Looks: looks}, more), moving)
	}
	require.Empty(t, w.problems())
}
