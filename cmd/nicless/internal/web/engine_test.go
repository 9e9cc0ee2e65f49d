//go:build linux && (amd64 || arm64)

package web

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cmd/nicless/internal/enginetest"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// serveEngine runs an engine in this process, and returns the path of its socket.
func serveEngine(t *testing.T) string {
	t.Helper()
	t.Chdir(t.TempDir()) // pages and pictures show the path
	path := "engine.sock"
	t.Cleanup(enginetest.Run(t, path, nicless.Config{}))
	return path
}

// serve serves the page of an engine, and returns its address.
//
// Engine and programs are in the process of the test, and their processor time would pace the page.
func serve(t *testing.T, o Options) string {
	t.Helper()
	if o.CPU == nil {
		o.CPU = func() time.Duration { return 0 }
	}
	return serveIt(t, New(o))
}

// serveIt serves until the test ends, and returns the address.
func serveIt(t *testing.T, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serveAt(t, s, l)
}

// serveAt serves at a listener until the test ends, and returns the address.
func serveAt(t *testing.T, s *Server, l net.Listener) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, await.Receive(t, "the server ends", ended))
	})
	return "http://" + l.Addr().String() + "/"
}

// writer posts WRITEs until the test ends, and returns the number of its queue.
func writer(t *testing.T, path string) uint32 {
	t.Helper()
	queue, stop := enginetest.Writer(t, path)
	t.Cleanup(stop)
	return queue
}

// frames returns a function that reads the next frame of a stream.
func frames(t *testing.T, address string) func() map[string]any {
	t.Helper()
	r, err := http.Get(address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Body.Close() })
	require.Equal(t, "text/event-stream", r.Header.Get("Content-Type"))
	in := bufio.NewScanner(r.Body)
	in.Buffer(nil, 1<<24)
	return func() (f map[string]any) {
		for in.Scan() {
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				require.NoError(t, json.Unmarshal([]byte(data), &f))
				return f
			}
		}
		t.Fatalf("the stream has ended: %v", in.Err())
		return nil
	}
}

func TestServeNeedsAToken(t *testing.T) {
	for _, c := range []struct {
		address string
		o       Options
	}{{"0.0.0.0:0", Options{}}, {"127.0.0.1:0", Options{Control: true}}} {
		l, err := net.Listen("tcp", c.address)
		require.NoError(t, err)
		require.ErrorContains(t, New(c.o).Serve(t.Context(), l), "needs a token")
		require.ErrorIs(t, l.Close(), net.ErrClosed)
	}
}

func TestEvents(t *testing.T) {
	path := serveEngine(t)
	queue := writer(t, path)
	next := frames(t, serve(t, Options{Socket: path})+"events?rows=1&sort=wqes&down=1&queue="+fmtUint(queue))
	for {
		f := next()
		require.NotContains(t, f, "error")
		require.Len(t, f["rows"], 1)
		require.EqualValues(t, 2, f["found"])
		chosen := f["chosen"].(map[string]any)
		require.EqualValues(t, queue, chosen["number"])
		if len(chosen["latency"].([]any)) > 0 {
			require.EqualValues(t, queue, f["rows"].([]any)[0].(map[string]any)["number"], "the busiest")
			require.Positive(t, chosen["ring"].(map[string]any)["producer"])
			return
		}
	}
}

// Streams are bounded, and one that ends gives its place back.
func TestMostStreams(t *testing.T) {
	s := New(Options{Socket: filepath.Join(t.TempDir(), "none")})
	for range mostStreams {
		s.streams <- struct{}{}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	address := "http://" + l.Addr().String() + "/events"
	r, err := http.Get(address)
	require.NoError(t, err)
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, r.StatusCode)
	require.Contains(t, string(text), "8 pages")
	<-s.streams
	require.Contains(t, frames(t, address)()["error"], "no such file")
	stop()
	require.NoError(t, await.Receive(t, "the server ends", ended))
}

func TestTraceAndEntry(t *testing.T) {
	path := serveEngine(t)
	queue := writer(t, path)
	address := serve(t, Options{Socket: path})
	post := func(to string) (v struct {
		Text, Error string
		Events      []recorded
	}) {
		r, err := http.NewRequest("POST", address+to, nil)
		require.NoError(t, err)
		r.Header.Set("Origin", strings.TrimSuffix(address, "/"))
		a, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer a.Body.Close()
		require.NoError(t, json.NewDecoder(a.Body).Decode(&v))
		return v
	}
	number := fmtUint(queue)
	await.Until(t, "a trace with completions", func() bool {
		v := post("trace?ms=50&queue=" + number)
		require.Empty(t, v.Error)
		seen := map[string]bool{}
		for _, e := range v.Events {
			seen[e.Lane] = true
			require.NotEmpty(t, e.Text)
		}
		return seen["poster"] && seen["engine"] && seen["completion"]
	})
	require.Contains(t, post("entry?entry=0&queue="+number).Text, "RDMA_WRITE")
	require.Contains(t, post("entry?entry=0&ring=cq&queue="+number).Text, "wqe_counter")
	require.Contains(t, post("entry?entry=9223372036854775807&queue="+number).Error, "entry")
	require.Contains(t, post("entry?entry=0&queue=77").Error, "0x4d does not exist")
	require.Contains(t, post("trace?ms=1&queue=77").Error, "0x00004d")
}

func fmtUint(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
