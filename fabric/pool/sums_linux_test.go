package pool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
)

// A file becomes shorter, and longer again before anybody has touched the pages: packets on the way are
// zeros, and no error says so. Without check sums zeros are data. With them the packet is looked at again,
// the link is given up with words, and comes back after its rest.
func TestShorterAndLongerAgain(t *testing.T) {
	for _, sums := range []Sums{SumsOff, SumsOn} {
		w, n := lossyWorld(t, 2, Config{Slots: 8, Data: 8192, MTU: 1024, Sums: sums})
		w.same = &sameSize{1, 512}
		talk(t, w, n[0], n[1])
		from, to := n[1].link(0).pair.port.(*port), n[0].link(1).pair.port.(*port)
		w.quiet = true
		w.pass(2 * tick) // the rings are empty
		require.Equal(t, from.sent, to.got)
		w.quiet = false
		from.step()
		w.quiet = true
		require.Equal(t, from.sent, to.got+1, "a packet is on the way")
		data := n[1].ringAt(0) + 8*packetring.SlotSize
		require.NoError(t, os.Truncate(w.path, int64(data)))
		require.NoError(t, os.Truncate(w.path, int64(w.size)))
		if sums == SumsOff {
			to.step()
			require.Contains(t, strings.Join(to.problems, " "), "payload of packet")
			continue
		}
		for range packetring.MostLooks - 1 {
			to.survive(to.step)
		}
		require.Empty(t, w.problems())
		require.EqualValues(t, packetring.MostLooks-1, n[0].pool.Peers()[0].WrongSums)
		to.survive(to.step)
		require.True(t, to.closed)
		require.Equal(t, from.sent, to.got+1, "zeros are no data")
		to.problems = nil
		w.pass(tick)
		why := n[0].pool.Why(nic.Address{GUID: n[1].guid})
		require.Regexp(t, `^node 1: its packet is not what it sent: is memory stale, lost or damaged\? `+
			`.*wrong check sum: packet \d+ has the sum 0x\w+, and the bytes in its place have 0x\w+, after 256 looks$`, why)
		w.quiet = false
		w.pass(2 * firstRest)
		talk(t, w, n[0], n[1])
		p := n[0].pool.Peers()[0]
		require.EqualValues(t, 1, p.Faults)
		require.EqualValues(t, packetring.MostLooks, p.WrongSums)
	}
}

// The same with two processes that exchange packets all the time: neither takes zeros for data, and they go
// on when the link has rested.
func TestProcessesTakeNoZeros(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	e := newLiveEngine(1)
	defer e.end()
	cfg := Config{Path: path, Dead: time.Minute, Nodes: 2, Size: 2 << 20, Sums: SumsOn}
	p, err := Open(t.Context(), e, cfg)
	require.NoError(t, err)
	cmd, end := child(t, path, 11, time.Minute)
	require.NoError(t, cmd.Start())
	defer func() {
		end()
		require.NoError(t, cmd.Wait(), "it has taken no zeros either")
	}()
	state := func() any { return p.Peers() }
	peer := func() (up bool, echoes uint64) {
		p.Route(nic.Address{GUID: 11})
		for _, s := range p.Peers() {
			if s.GUID == 11 {
				return s.Up && s.Stats.Received > 0, s.Stats.Received
			}
		}
		return false, 0
	}
	size := int64(p.header.size)
	for _, node := range []int{1, 0} {
		before := uint64(0)
		await.Until(t, "the link is up", func() (up bool) { up, before = peer(); return up }, state)
		await.Until(t, "packets are echoed", func() bool { _, n := peer(); return n > before+50 }, state)
		slots := int64(p.header.ring.Slots) * packetring.SlotSize
		data := int64(p.header.partAt(node)+p.header.ringsAt()) + slots
		await.Until(t, "the link is given up", func() bool {
			require.NoError(t, os.Truncate(path, data))
			require.NoError(t, os.Truncate(path, size))
			up, _ := peer()
			return !up
		}, state)
	}
	await.Until(t, "the link is up again", func() bool { up, _ := peer(); return up }, state)
	require.NoError(t, p.Close())
	require.Zero(t, e.damaged())
}
