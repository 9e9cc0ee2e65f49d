package metrics

import (
	"bufio"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/state"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// A fake engine answers on the sockets of an engine with what a test has set.
type fake struct {
	path string

	mu      sync.Mutex
	state   state.Snapshot
	links   []links.Report
	refused string
	asked   int // questions so far
	request state.Request
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{path: filepath.Join(t.TempDir(), "e.sock")}
	l, err := net.Listen("unix", f.path+state.Suffix)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	stop, err := unixsock.Report(f.path+nicless.LinksSuffix, 0o600, func() any {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.links
	})
	require.NoError(t, err)
	t.Cleanup(stop)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.answer(c)
		}
	}()
	return f
}

func (f *fake) answer(c net.Conn) {
	defer c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	line, err := bufio.NewReader(c).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &f.request) != nil {
		return
	}
	out := json.NewEncoder(c)
	if f.refused != "" {
		_ = out.Encode(state.Line{Refused: f.refused})
		return
	}
	_ = out.Encode(state.Line{Device: &f.state.Device})
	for i := range f.state.Threads {
		_ = out.Encode(state.Line{Thread: &f.state.Threads[i]})
	}
	for i := range f.state.Clients {
		_ = out.Encode(state.Line{Client: &f.state.Clients[i]})
	}
	_ = out.Encode(state.Line{End: true})
}

// set changes what the engine answers.
func (f *fake) set(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fake) questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func (f *fake) lastRequest() state.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.request
}

// exporter returns an exporter of the fake whose clock advances by a minute at each look, so that no values
// are fresh.
func (f *fake) exporter() *Exporter {
	e := New(f.path, func(port int) string { return "nicless" + string(rune('0'+port)) },
		Build{Version: "v1.2.3", Go: "go1.26", Protocol: "2.9"})
	e.registry = prometheus.NewPedanticRegistry() // which also checks descriptions
	e.registry.MustRegister(e)
	at := time.Unix(1_800_000_000, 0)
	e.now = func() time.Time { at = at.Add(time.Minute); return at }
	return e
}

// lines returns the lines of the metrics in the text format that begin with a prefix.
func lines(t *testing.T, e *Exporter, f format, prefix string) (list []string) {
	t.Helper()
	page, err := e.page(f)
	require.NoError(t, err)
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, prefix) {
			list = append(list, strings.TrimSuffix(line, "\n"))
		}
	}
	return list
}

// sample is an engine with one of everything.
func (f *fake) sample() {
	f.state = state.Snapshot{
		Device: state.Device{GUID: "0200000000000001", Name: "nicless0", PID: 42, Sees: state.SeesAll,
			Started: time.Unix(1_799_999_000, 0), Clients: 1, Queues: 3, CQs: 2, SRQs: 1, Watches: 1, Faults: 2,
			Past: state.Counts{WQEs: 1000, Bytes: 5000}},
		Threads: []state.Thread{{Number: 0, Time: 9e9, Busy: 15e8, Ran: 8e9, Waited: 25e7, Clients: 1, Queues: 3, Warm: 2, Stalled: 1}},
		Clients: []state.Client{{Number: 7, PID: 99, UID: 1000, Program: "put", Port: 1, Queues: 3, CQs: 2, SRQs: 1, MRs: 4, PDs: 1,
			Memory: 8192, Linked: 1, Waiting: 1,
			Counts: state.Counts{WQEs: 10, Bytes: 640, CQEs: 9, Failed: 1, Receives: 5, Events: 2, Explained: 3, Stalls: 1},
			Errors: []state.Error{{Time: time.Unix(1_799_999_500, 0), Code: "receive-short", Queue: 0x69712c, Index: 3, Text: "receive 0 takes 1024 bytes"}}}},
	}
	f.links = []links.Report{{Link: "roce:10.0.0.1", Peers: []fabric.Peer{
		{Name: "10.0.0.2", Up: true}, {Name: "10.0.0.3", Why: "no answer"},
		{Name: "node 5", Why: "node 5 has not joined the pool"}}}}
	f.links[0].Peers[0].Stats.Sent = 20
	f.links[0].Peers[0].Stats.Resent = 2
	f.links[0].Peers[0].Stats.WrongKeys = 4
}
