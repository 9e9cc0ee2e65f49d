//go:build linux && (amd64 || arm64)

package web

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nicless/nicless/cmd/nicless/internal/latency"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// unread asks for frames, and reads none of them.
func unread(t *testing.T, address string) net.Conn {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	c, err := net.Dial("tcp", u.Host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(64<<10))
	_, err = fmt.Fprintf(c, "GET /events?rows=200 HTTP/1.1\r\nHost: %s\r\n\r\n", u.Host)
	require.NoError(t, err)
	return c
}

// A browser that reads nothing is dropped, with a reason in the log, after what the kernel keeps for it. A
// page that reads goes on meanwhile, and the place is free again.
func TestUnreadPage(t *testing.T) {
	said := make(chan string, mostStreams)
	s := New(Options{Socket: fakeEngine(t, manyQueues(1000), nil), CPU: func() time.Duration { return 0 },
		Log: func(text string) { said <- text }})
	s.looker.interval, s.readTime = time.Millisecond, 200*time.Millisecond
	address := serveIt(t, s)
	next := frames(t, address+"events?rows=200")
	require.EqualValues(t, 1000, next()["found"])

	c := unread(t, address)
	await.Until(t, "both are served", func() bool { return len(s.streams) == 2 || len(said) > 0 })
	await.Until(t, "the page that reads nothing is dropped", func() bool {
		require.Len(t, next()["rows"], 200)
		return len(said) > 0
	})
	require.Contains(t, <-said, fmt.Sprintf("the page at %s has read nothing for 200ms", c.LocalAddr()))
	await.Until(t, "its place is free", func() bool { return len(s.streams) == 1 })
	require.Len(t, next()["rows"], 200)
}

// A keeper is a listener that keeps the connections that it has accepted.
type keeper struct {
	net.Listener
	mu  sync.Mutex
	all []*net.TCPConn
}

func (k *keeper) Accept() (net.Conn, error) {
	c, err := k.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.all = append(k.all, tcp)
	}
	return c, err
}

// sending returns the bytes that the kernel keeps to be sent, on each connection.
func (k *keeper) sending(t *testing.T) (list []int) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.all {
		raw, err := c.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
			require.NoError(t, err)
			list = append(list, n)
		}))
	}
	return list
}

// memory returns the bytes of the heap that are in use, and of stacks.
func memory() int {
	for range 2 { // what a sync.Pool keeps is gone after the second one
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// Pages that are never read keep a frame each here and some in the kernel, however large the engine is: this
// one has 10,000 queues, and more clients and errors than a frame.
func TestMemoryOfUnreadPages(t *testing.T) {
	const most = 512 << 10 // bytes for each page, here; a snapshot of this engine has more
	engine := manyQueues(10_000)
	for i := range uint32(2 * mostClients) {
		engine.Clients = append(engine.Clients, state.Client{Number: 10 + i, PID: 99200 + int(i), Program: "a client",
			Errors: []state.Error{{Time: time.Unix(1e9, 0), Code: "key-stale", Queue: i, Text: strings.Repeat("why ", 50)}}})
	}
	var asked atomic.Int64
	s := New(Options{Socket: countingEngine(t, engine, nil, &asked), CPU: func() time.Duration { return 0 }})
	s.looker.interval, s.readTime = time.Millisecond, time.Hour
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k := &keeper{Listener: l}
	address := serveAt(t, s, k)
	require.NotNil(t, s.looker.look(t.Context()).now)

	before := memory()
	for range mostStreams {
		unread(t, address)
	}
	await.Until(t, "all wait for their browsers", func() bool {
		return len(s.streams) == mostStreams && !slices.Contains(k.sending(t), 0) &&
			!await.Moves(300*time.Millisecond, func() bool { return false }, func() any { return asked.Load() })
	})
	kept := (memory() - before) / mostStreams
	sending := slices.Max(k.sending(t))
	t.Logf("after %d looks each of %d pages keeps %d KiB here and %d KiB in the kernel", asked.Load(), mostStreams,
		kept>>10, sending>>10)
	require.Less(t, kept, most)
	require.Less(t, sending, 3*sendBuffer, "twice what is asked for, and a little")
	require.Len(t, s.streams, mostStreams, "none was dropped meanwhile")
}

// A pause follows from the processor time of all that is done for a page, its latency sample included.
func TestPauseCountsTheSample(t *testing.T) {
	var cpu time.Duration
	engine := manyQueues(1)
	s := New(Options{Socket: fakeEngine(t, engine, nil), CPU: func() time.Duration { return cpu }})
	s.looker.interval = time.Nanosecond
	s.measure = func(_ context.Context, _ string, queue uint32) (latency.Sample, error) {
		cpu += 30 * time.Millisecond
		return latency.Sample{Queue: queue, Latencies: []time.Duration{1234}}, nil
	}
	next := func(queue uint32) (event string, pause time.Duration) {
		b, pause, err := s.next(t.Context(), &view{Rows: 1, Queue: queue}, true)
		require.NoError(t, err)
		engine.Queues[0].Time += 1e9
		engine.Queues[0].WQEs += 1000
		return string(b), pause
	}
	_, pause := next(1)
	require.Equal(t, time.Nanosecond, pause, "nothing is sampled without a rate")
	_, pause = next(0)
	require.Equal(t, time.Nanosecond, pause, "nothing is selected")
	event, pause := next(1)
	require.Equal(t, dilution*30*time.Millisecond, pause)
	require.True(t, strings.HasPrefix(event, `data: {"pause":3000,"socket":`), "%.40q", event)
	require.True(t, strings.HasSuffix(event, "}\n\n"))
	require.Equal(t, 2, strings.Count(event, "\n"), "an event has one line")
	require.Contains(t, event, `"latency":[1234]`)
}
