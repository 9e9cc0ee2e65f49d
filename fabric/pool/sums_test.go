package pool

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/packetring"
)

// With coherence=none packets carry check sums unless the options say otherwise. Such a pool has a version
// that is refused by nodes that know nothing of check sums.
func TestSumsByDefault(t *testing.T) {
	for _, row := range []struct {
		cfg     Config
		version uint16
	}{
		{Config{}, 3}, {Config{Coherent: true}, 3}, {Config{Incoherent: true}, 4},
		{Config{Sums: SumsOn}, 4}, {Config{Incoherent: true, Sums: SumsOff}, 3},
	} {
		h, err := plan(&row.cfg, 64<<20)
		require.NoError(t, err)
		var b [headerSize]byte
		h.put(&b)
		require.Equal(t, row.version, be.Uint16(b[8:]))
		got, err := parseHeader(&b, 64<<20)
		require.NoError(t, err)
		require.Equal(t, h, got)
		require.NoError(t, got.suits(&row.cfg))
		require.NoError(t, got.suits(&Config{}))
		b[9] = 5
		be.PutUint64(b[56:], headerSum(&b))
		_, err = parseHeader(&b, 64<<20)
		require.ErrorContains(t, err, "5; this is version 3, or 4 with check sums: engines of one release share")
	}
}

// A node cannot have a pool with check sums without them.
func TestSumsOffInAPoolWithSums(t *testing.T) {
	w := newWorld(t, 1)
	a := w.mustStart(Config{Nodes: 3, Sums: SumsOn})
	b := w.mustStart(Config{Node: 1})
	_, err := w.start(Config{Node: 2, Sums: SumsOff, Wait: time.Millisecond})
	require.ErrorContains(t, err, "its packets have check sums, and sums=off is asked for")
	talk(t, w, a, b)
}

// A node that writes wrong sums for ever costs the others that pair, 256 looks for each time that the link
// comes up, and these become rare. All other pairs notice nothing.
func TestWrongSumsForEver(t *testing.T) {
	w, n := needWorld(t, 1, 1<<20, 3, Config{Sums: SumsOn, Slots: 8, Data: 4096, MTU: 256})
	talk(t, w, n[0], n[2])
	mem := w.heap.Bytes()
	for end := w.now.Add(5 * time.Minute); w.now.Before(end); w.pass(tick) {
		n[0].link(1).wanted.Store(true)
		r := n[1].link(0).pair
		if r == nil {
			continue
		}
		for i := range r.growth.ring.Slots {
			clear(mem[n[1].ringAt(0)+i*packetring.SlotSize+8:][:4])
		}
		for range packetring.MostLooks {
			n[0].work() // an engine takes many steps in a tick
		}
	}
	tried := 0
	for _, p := range n[0].ports {
		if p != n[0].link(2).pair.port {
			tried++
			for _, problem := range p.problems {
				require.Contains(t, problem, "wrong check sum")
			}
			p.problems = nil
		}
	}
	for _, p := range n[1].ports {
		p.problems = nil
	}
	l := n[0].link(1)
	require.InDelta(t, 7, tried, 3, "the rests become longer")
	require.Contains(t, l.why, "wrong check sum")
	require.LessOrEqual(t, l.wrongSums.Load(), uint64(tried*packetring.MostLooks))
	require.Greater(t, l.wrongSums.Load(), uint64(2*packetring.MostLooks))
	same(t, w, n[0], n[2])
}

// FuzzParse gives Parse any options. They are refused with words, or can be planned and written.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"p,sums=on", "p,sums=off,coherence=none", "p,sums=,sums=on", "p,size=1M,dead=1s,wait=0s,offset=4096",
		"p,node=0,nodes=3,slots=8,data=4K,mtu=256,sums=on",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		cfg, err := Parse(s)
		if err != nil {
			require.ErrorContains(t, err, "pool: ")
			return
		}
		cfg = cfg.withDefaults()
		h, err := plan(&cfg, 1<<20)
		if err != nil {
			return
		}
		var b [headerSize]byte
		h.put(&b)
		got, err := parseHeader(&b, 1<<20)
		require.NoError(t, err)
		require.Equal(t, h, got)
		require.NoError(t, got.suits(&cfg))
	})
}

// A pool without coherence that an older release has formatted has no check sums. An engine that says nothing
// of them uses it, and says so.
func TestOlderPoolHasNoSums(t *testing.T) {
	const words = "packets in this pool have no check sums"
	for _, row := range []struct {
		before, asked Sums
		says, sums    bool
	}{
		{SumsOff, SumsByCoherence, true, false}, {SumsOff, SumsOff, false, false},
		{SumsOff, SumsOn, false, true}, {SumsOn, SumsByCoherence, false, true},
	} {
		w := newIncoherentWorld(t, 1)
		w.sums = SumsByCoherence
		a := w.mustStart(Config{Incoherent: true, Sums: row.before})
		require.NoError(t, a.pool.Close())
		w.kill(a)
		var out strings.Builder
		b := w.mustStart(Config{Incoherent: true, Sums: row.asked, Log: slog.New(slog.NewTextHandler(&out, nil))})
		require.Equal(t, row.says, strings.Contains(out.String(), words), "%+v", row)
		require.Equal(t, row.sums, b.pool.header.sums, "%+v", row)
	}
}
