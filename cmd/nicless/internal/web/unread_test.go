//go:build linux && (amd64 || arm64)

package web

import (
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

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

	u, err := url.Parse(address)
	require.NoError(t, err)
	c, err := net.Dial("tcp", u.Host)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(64<<10))
	_, err = fmt.Fprintf(c, "GET /events?rows=200 HTTP/1.1\r\nHost: %s\r\n\r\n", u.Host)
	require.NoError(t, err)
	await.Until(t, "both are served", func() bool { return len(s.streams) == 2 || len(said) > 0 })
	await.Until(t, "the page that reads nothing is dropped", func() bool {
		require.Len(t, next()["rows"], 200)
		return len(said) > 0
	})
	require.Contains(t, <-said, fmt.Sprintf("the page at %s has read nothing for 200ms", c.LocalAddr()))
	await.Until(t, "its place is free", func() bool { return len(s.streams) == 1 })
	require.Len(t, next()["rows"], 200)
}
