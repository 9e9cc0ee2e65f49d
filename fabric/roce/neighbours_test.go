//go:build linux && (amd64 || arm64)

package roce

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The counters are those of Linux 6.18, of two processors.
func TestNeighbourCounters(t *testing.T) {
	const head = "entries  allocs   destroys hash_grows lookups  hits     res_failed rcv_probes_mcast rcv_probes_ucast periodic_gc_runs forced_gc_runs unresolved_discards table_fulls\n"
	const rows = "00000006 00001064 00001142 00000007   0000004a 00000024 0000000b   00000024         00000000         00000000         00000005       00000000            000000ff\n" +
		"00000006 00001064 00001142 00000007   0000004a 00000024 0000000b   00000024         00000000         00000000         00000005       00000000            00000024\n"
	n, ok := parseNeighbourStat([]byte(head + rows))
	require.True(t, ok)
	require.EqualValues(t, 0xff+0x24, n)
	for _, bad := range []string{"", head, rows, head + "1 2 3\n", head + strings.Replace(rows, "000000ff", "00000xff", 1)} {
		_, ok := parseNeighbourStat([]byte(bad))
		require.False(t, ok, bad)
	}
	for i := range neighbourTables {
		_, ok := neighbourTables[i].full()
		t.Log(neighbourTables[i].family, "the counters can be read here:", ok)
	}
}

// A full table takes a line in the log, another after a minute, and a sentence in the report. Drops from
// before the carrier was made do not count.
func TestNeighboursInTheLog(t *testing.T) {
	var b bytes.Buffer
	h := newHost(t, Config{Log: slog.New(slog.NewTextHandler(&b, nil))})
	b.Reset()
	var w neighbourWatch
	now, counts := time.Now(), map[string]uint64{"ipv4": 1000}
	looks := 0
	second := func(more uint64) {
		now = now.Add(time.Second)
		counts["ipv4"] += more
		h.sender.counts.calls.Add(more) // a carrier that sends nothing does not look
		w.look(h.Carrier, now, func(t *neighbourTable) (n uint64, ok bool) {
			looks++
			n, ok = counts[t.family]
			return n, ok
		})
	}
	second(0)
	second(0)
	require.Empty(t, b.String())
	require.Empty(t, h.Notes())
	require.Equal(t, len(neighbourTables), looks, "only the first look is one")
	for range 62 {
		second(2)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Len(t, lines, 2, b.String())
	require.Contains(t, lines[0], "table of neighbours is full")
	require.Contains(t, lines[0], "dropped=2 ")
	require.Contains(t, lines[0], "sysctl -w net.ipv4.neigh.default.gc_thresh3=16384")
	require.Len(t, h.Notes(), 1)
	require.Contains(t, h.Notes()[0], "124 packets, because its table of neighbours (ipv4) was full: sysctl -w")
}

// Over IPv6, the error that the table of neighbours is full closes the path and not the local address, which
// has other paths. Over IPv4, the same error says that the address has gone.
func TestNeighboursAreFull(t *testing.T) {
	if !inNamespace(t) { // where nobody has the port of ::1
		return
	}
	for _, c := range []struct {
		own netip.Addr
		up  bool
	}{{netip.IPv6Loopback(), true}, {freeport.Loopback(t, 1)[0], false}} {
		h := newHost(t, Config{})
		stopped(t, h)
		require.NoError(t, h.AddAddress(c.own))
		path := h.to(c.own, c.own)
		h.send(path.Number, head(writeOnly, 1), nil)
		s := h.sender
		s.take()
		s.now = time.Now()
		s.make(0)
		s.trouble(unix.EINVAL)
		require.Equal(t, c.up, h.Addresses()[0].Up, c.own)
		require.False(t, h.Peers()[0].Up)
		if c.up {
			require.Contains(t, h.Peers()[0].Why, "invalid argument: the kernel's table of neighbours may be full (sysctl -w net.ipv6.neigh.default.gc_thresh3=16384")
			require.Contains(t, h.Paths()[0].Reason, "gc_thresh3")
		}
		s.ring.Free()
		s.n = 0
		require.NoError(t, h.Close())
	}
}
