//go:build linux && (amd64 || arm64)

package web

import (
	"bufio"
	"encoding/json"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

// fakeEngine answers on the sockets of an engine with what a real one would clean, or has seldom. It returns
// the path of the socket.
func fakeEngine(t *testing.T, s *state.Snapshot, reports []links.Report) string {
	t.Helper()
	return countingEngine(t, s, reports, new(atomic.Int64))
}

// countingEngine is fakeEngine, and counts how often it is asked for its state.
func countingEngine(t *testing.T, s *state.Snapshot, reports []links.Report, asked *atomic.Int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "e.sock")
	l, err := net.Listen("unix", path+state.Suffix)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	stop, err := unixsock.Report(path+nicless.LinksSuffix, 0o600, func() any { return reports })
	require.NoError(t, err)
	t.Cleanup(stop)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			tellAll(c, s)
		}
	}()
	return path
}

// tellAll answers any request with all objects.
func tellAll(c net.Conn, s *state.Snapshot) {
	defer c.Close()
	if _, err := bufio.NewReader(c).ReadBytes('\n'); err != nil {
		return
	}
	w := bufio.NewWriter(c)
	defer w.Flush()
	out := json.NewEncoder(w)
	_ = out.Encode(state.Line{Device: &s.Device})
	for i := range s.Threads {
		_ = out.Encode(state.Line{Thread: &s.Threads[i]})
	}
	for i := range s.Clients {
		_ = out.Encode(state.Line{Client: &s.Clients[i]})
	}
	for i := range s.Queues {
		_ = out.Encode(state.Line{Queue: &s.Queues[i]})
	}
	_ = out.Encode(state.Line{End: true})
}

// manyQueues returns a snapshot with n queues of two clients; number i has done i WQEs.
func manyQueues(n int) *state.Snapshot {
	s := &state.Snapshot{
		Device:  state.Device{GUID: "00000000000000aa", Name: "nicless0", PID: 4711, Started: time.Unix(1e9, 0), Queues: n},
		Threads: []state.Thread{{Time: 1e9}},
		Clients: []state.Client{{Number: 1, PID: 99100, Program: "even"}, {Number: 2, PID: 99101, Program: "odd"}},
	}
	for i := range uint32(n) {
		s.Queues = append(s.Queues, state.Queue{Number: i + 1, Client: 1 + i%2, Time: 1e9, Transport: "RC", State: "RTS",
			WQEs: uint64(i + 1)})
	}
	return s
}
