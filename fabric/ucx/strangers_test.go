//go:build linux && (amd64 || arm64)

package ucx

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Connections whose meeting is not over: each source has some places, and a source that floods keeps out only
// its own connections.
func TestPendingConnections(t *testing.T) {
	c := &strangers{sources: map[netip.Addr]*bucket{}}
	address := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}) }
	var conns []net.Conn
	enter := func(from netip.Addr) (*pendingConn, bool) {
		one, two := net.Pipe()
		t.Cleanup(func() { one.Close(); two.Close() })
		conns = append(conns, one)
		return c.add(one, from)
	}
	honest, _ := enter(address(1))
	for n := range 3 * mostPendingEach {
		_, closed := enter(address(2))
		require.Equal(t, n >= mostPendingEach, closed)
	}
	require.Len(t, c.pending, 1+mostPendingEach)
	for n := range 3 * mostPending {
		enter(netip.AddrFrom16([16]byte{0x20, 1, 15: byte(n), 14: byte(n >> 8)})) // one network of IPv6
	}
	require.Len(t, c.pending, 1+2*mostPendingEach)
	for n := range mostPending - len(c.pending) + 2*mostPendingEach - 2 {
		_, _ = enter(address(1000 + n)) // each from another: those with many make room
	}
	require.Len(t, c.pending, mostPending)
	require.True(t, c.remove(honest), "it was not displaced")
	require.False(t, c.remove(honest))
	c.closeAll()
	_, err := conns[len(conns)-1].Write([]byte{0})
	require.ErrorIs(t, err, io.ErrClosedPipe, "who is still there is closed")
}

// Very many sources with one connection each get no more places than a few sources with many: the oldest
// connection makes room.
func TestManySources(t *testing.T) {
	c := &strangers{sources: map[netip.Addr]*bucket{}}
	var first net.Conn
	for n := range 4 * mostPending {
		one, two := net.Pipe()
		t.Cleanup(func() { one.Close(); two.Close() })
		if n == 0 {
			first = one
		}
		_, closed := c.add(one, netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)}))
		require.Equal(t, n >= mostPending, closed, n)
	}
	require.Len(t, c.pending, mostPending)
	_, err := first.Write([]byte{0})
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// The key to which the GUID of an engine that was up belongs
// is not dropped because of engines that never were.
func TestProvenPeersAreRemembered(t *testing.T) {
	c := &Carrier{peers: map[uint64]*peer{}, log: slog.New(slog.DiscardHandler)}
	q, err := c.admitPeer(hello{guid: 7, life: 1}, "its key")
	require.NoError(t, err)
	q.proven = true
	for n := range uint64(2 * mostPeers) {
		_, err := c.admitPeer(hello{guid: 100 + n, life: 1}, "another key")
		require.NoError(t, err)
	}
	require.Len(t, c.peers, mostPeers)
	_, err = c.admitPeer(hello{guid: 7, life: 2}, "another key")
	require.ErrorContains(t, err, "another key")
}

// Meetings of one source have a budget that is filled again. Others have their own, up to a bound.
func TestMeetingsHaveABudget(t *testing.T) {
	c := &strangers{sources: map[netip.Addr]*bucket{}}
	now := time.Now()
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:10.0.0.2")
	spend := func(a netip.Addr) (n int) {
		for c.takeMeeting(a, now) {
			n++
		}
		return n
	}
	require.Equal(t, meetings, spend(one))
	require.Equal(t, meetings, spend(two))
	require.Zero(t, spend(netip.MustParseAddr("10.0.0.2")), "the same address")
	now = now.Add(time.Second)
	require.Equal(t, meetingsRate, spend(one))
	now = now.Add(time.Hour)
	require.Equal(t, meetings, spend(one))
	for n := range 2 * mostSources {
		c.takeMeeting(netip.AddrFrom4([4]byte{11, byte(n >> 16), byte(n >> 8), byte(n)}), now)
	}
	require.LessOrEqual(t, len(c.sources), mostSources+1)
	now = now.Add(time.Hour)
	require.True(t, c.takeMeeting(netip.MustParseAddr("12.0.0.1"), now))
	require.LessOrEqual(t, len(c.sources), 3, "those who have not met for long are forgotten")
}

// However often the process ends, it starts again at once, and peers are back.
func TestRestartsDoNotBackOff(t *testing.T) {
	a, b, _ := pair(t, Config{}, Config{})
	const rounds = 6
	for n := range rounds {
		pid, why := a.Process()
		require.NotZero(t, pid, why)
		require.NoError(t, unix.Kill(pid, []unix.Signal{unix.SIGKILL, unix.SIGABRT, unix.SIGSEGV}[n%3]))
		await.Until(t, "another process", func() bool { now, _ := a.Process(); return now != 0 && now != pid })
		a.mu.Lock()
		require.Equal(t, firstPause, a.startPause)
		a.mu.Unlock()
		upTo(t, a.Carrier, 2)
		upTo(t, b.Carrier, 1)
	}
	require.Contains(t, a.About(), fmt.Sprintf("restarts: %d (2 assertion, 2 signal, 2 killed)", rounds))
	require.Empty(t, a.bans)
	exchange(t, a, b, 1)
}

// A ban does not double without end, and ends.
func TestBans(t *testing.T) {
	b, now := bans{}, time.Now()
	for _, want := range []time.Duration{firstBan, 2 * firstBan, 4 * firstBan} {
		require.Equal(t, want, b.add("x", now))
	}
	for range 100 {
		require.LessOrEqual(t, b.add("x", now), mostBan)
	}
	require.True(t, b.has("x", now.Add(mostBan-1)))
	require.False(t, b.has("x", now.Add(mostBan)))
	for n := range 2 * mostBans {
		b.add(fmt.Sprint(n), now)
	}
	require.LessOrEqual(t, len(b), mostBans)
	now = now.Add(time.Hour)
	require.Equal(t, firstBan, b.add("y", now))
}

// lines is a log that a test reads while a carrier writes to it.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// count returns how many lines have a text.
func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// The log has each key that is refused, because its owner may be meant to be a peer; of other strangers it
// has one a minute.
func TestLogOfRefusedKeys(t *testing.T) {
	log := new(lines)
	c := newCarrier(&testDevice{}, Config{Log: slog.New(slog.NewTextHandler(log, nil))}.withDefaults())
	from := netip.MustParseAddr("192.0.2.1")
	for range 3 {
		c.recordDropped(from, causeJunk, errJunk)
		c.recordDropped(from, causeKeys, fmt.Errorf("%w: refused", errKeys))
	}
	require.Equal(t, 1, log.count(errJunk.Error()))
	require.Equal(t, 3, log.count("keys: refused"))
	require.EqualValues(t, 3, c.dropsOf(causeKeys))
}

// A peer that does not allow this address is one line of the log, however often it is tried: the port from
// which it is tried changes each time.
func TestExcludedPeerIsSaidOnce(t *testing.T) {
	log := new(lines)
	address := freePort(t)
	a, _ := open(t, 1, Config{Listen: address, Peers: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	b, _ := open(t, 2, Config{Connect: []string{address}, Log: slog.New(slog.NewTextHandler(log, nil))})
	await.Until(t, "it has tried several times", func() bool { return a.dropsOf(causeAddress) > 4 }, func() any { return b.Peers() })
	require.Equal(t, 1, log.count("not connected"))
	require.Equal(t, "connection reset by peer", b.Peers()[0].Why)
}
