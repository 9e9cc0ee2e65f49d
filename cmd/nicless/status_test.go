//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

// statusOf returns an engine with two clients, of which one is named to deceive, and queues in several
// states.
func statusOf(now time.Time) *engineStatus {
	s := &state.Snapshot{
		Device: state.Device{GUID: "00000000000000aa", Name: "mlx5_0", PID: 4711, Started: now.Add(-90 * time.Minute),
			Sees: state.SeesAll, Watches: 1, Faults: 2, Past: state.Counts{WQEs: 1, Explained: 1},
			Errors: []state.Error{{Time: now.Add(-time.Hour), Code: "key-unknown", Queue: 0x42, Client: "old (pid 9)",
				Text: "lkey 0x00001234 is not a key of this client"}}},
		Threads: []state.Thread{{Time: 1e9, Busy: 5e8, Waited: 1e8, Queues: 3, Stalled: 1,
			Stuck: "for 3s: waits for a core"}},
		Clients: []state.Client{
			{Number: 1, Time: 1e9, PID: 100, Program: "ib_write_bw", Queues: 2, CQs: 1, MRs: 1, Memory: 266240,
				Counts: state.Counts{WQEs: 2_000_000, Bytes: 128_000_000}},
			{Number: 2, Time: 1e9, PID: 101, Program: "\x1b[31mred\n<b>", Name: "pid 101", Queues: 1, Waiting: 1,
				Errors: []state.Error{{Time: now.Add(-12 * time.Second), Code: "receive-short", Queue: 0x51, Index: 3,
					Text: "receive 0 takes 1024 bytes, the message has 4096, and this sentence goes on for a while \x1b[2J"}}},
		},
		Queues: []state.Queue{
			{Number: 0x11, Client: 1, Time: 1e9, Transport: "RC", State: "RTS", Peer: 0x12, WQEs: 2_000_000, Bytes: 128_000_000},
			{Number: 0x12, Client: 1, Time: 1e9, Transport: "UD", State: "INIT"},
			{Number: 0x51, Client: 2, Time: 1e9, Transport: "XRC-INI", State: "RTS", Peer: 0xffffff, Announced: 128,
				Wait: "the peer has no receive posted", WaitTime: 3e9},
			{Number: 0x52, Client: 2, Time: 1e9, Transport: "RC", State: "ERR", Peer: 0x53, Failed: true},
		},
	}
	old := &state.Snapshot{Threads: []state.Thread{{}}, Clients: []state.Client{{Number: 1}, {Number: 2}},
		Queues: []state.Queue{{Number: 0x11, Client: 1}, {Number: 0x12, Client: 9}}}
	return &engineStatus{Socket: "/run/nicless/engine.sock", Snapshot: s, Change: s.Since(old),
		Links: []links.Report{{Link: "pool /dev/shm/p", Peers: []fabric.Peer{{Name: "node 1", Up: true}}}}}
}

// The text for people, whole: rates, queues in trouble first, and no character of a hostile name reaches the
// terminal.
func TestStatusText(t *testing.T) {
	now := time.Now()
	var b bytes.Buffer
	require.NoError(t, writeStatus(&b, statusOf(now), now))
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile("testdata/status.txt", b.Bytes(), 0o644))
	}
	want, err := os.ReadFile("testdata/status.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), columns, "%q", line)
		require.NotContains(t, line, "\x1b")
	}
}

// Many queues take few lines, and the last says how many are left out.
func TestStatusOfManyQueues(t *testing.T) {
	e := statusOf(time.Now())
	for i := range uint32(10_000) {
		e.Queues = append(e.Queues, state.Queue{Number: 0x1000 + i, Client: 1, Transport: "RC", State: "RTS"})
	}
	var b bytes.Buffer
	require.NoError(t, writeStatus(&b, e, time.Now()))
	require.Less(t, strings.Count(b.String(), "\n"), 60)
	require.Contains(t, b.String(), "and 9988 queue pairs more: nicless top, or --json\n")
	require.Contains(t, b.String(), "0x000052", "trouble comes first")
}

// Whatever the values are, no table is wider than 80 columns, and no answer sends a terminal characters that
// move its cursor.
func TestStatusOfExtremes(t *testing.T) {
	const most = math.MaxInt
	wide := strings.Repeat("\u6c34\u0301", 30)
	e := statusOf(time.Now())
	e.Clients = []state.Client{{Number: 1, PID: 1 << 22, Program: wide, Queues: most, CQs: most, MRs: most, Memory: most,
		Counts: state.Counts{WQEs: most, Bytes: most, CQEs: most, Failed: most, Explained: most}}}
	e.Queues = []state.Queue{{Number: 0xffffff, Client: 1, Transport: "XRC\x1b[2J\tINITIATOR", State: "\nINIT\x1b[2J",
		Peer: math.MaxUint32, Announced: math.MaxUint32, Posted: math.MaxUint32, WQEs: most, Bytes: most}}
	e.Change.Clients[1] = state.Rate{WQEs: 999_949, Bytes: most}
	e.Change.Queues = map[uint32]state.Rate{0xffffff: {WQEs: 999_949, Bytes: most}}
	var b bytes.Buffer
	require.NoError(t, writeStatus(&b, e, time.Now()))
	require.NotContains(t, b.String(), "\x1b")
	require.NotContains(t, b.String(), "\u6c34", "two columns wide")
	var rows []int
	for line := range strings.Lines(b.String()) {
		line = strings.TrimRight(line, "\n")
		require.LessOrEqual(t, utf8.RuneCountInString(line), columns, "%q", line)
		if strings.Contains(line, "WQE/S") || strings.Contains(line, "????") {
			rows = append(rows, len(strings.Fields(line)))
		}
	}
	require.Equal(t, []int{9, 9, 9, 9}, rows, "a row is one line: %s", b.String())
}

// JSON has everything, one object for each engine, and says why an engine has none.
func TestStatusJSON(t *testing.T) {
	text, err := json.Marshal([]*engineStatus{statusOf(time.Now()), {Socket: "s", Error: "no answer", err: errors.New("x")}})
	require.NoError(t, err)
	var list []map[string]any
	require.NoError(t, json.Unmarshal(text, &list))
	require.Equal(t, "/run/nicless/engine.sock", list[0]["socket"])
	require.Len(t, list[0]["queues"], 4)
	require.Len(t, list[0]["links"], 1)
	require.Equal(t, map[string]any{"socket": "s", "error": "no answer"}, list[1])
}

// Engines are asked at the same time: none of these answers before all have been asked.
func TestEnginesAreAskedAtOnce(t *testing.T) {
	const engines = 3
	var sockets []string
	var asked sync.WaitGroup
	asked.Add(engines)
	for i := range engines {
		sockets = append(sockets, filepath.Join(t.TempDir(), fmt.Sprint(i)))
		l, err := net.Listen("unix", sockets[i]+state.Suffix)
		require.NoError(t, err)
		defer l.Close()
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			asked.Done()
			asked.Wait()
			_, _ = io.WriteString(c, `{"refused":"all are asked"}`+"\n")
			_ = c.Close()
		}()
	}
	for i, e := range queryEngines(t.Context(), sockets) {
		require.Equal(t, sockets[i], e.Socket)
		require.ErrorContains(t, e.err, "all are asked")
		require.Contains(t, e.Error, "all are asked")
	}
}

func TestFindEngines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "unix")
	require.NoError(t, os.WriteFile(file, []byte(`Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 20001 /run/b dir/engine.sock.state
0000000000000000: 00000003 00000000 00000000 0001 03 20002 /run/b dir/engine.sock.state
0000000000000000: 00000002 00000000 00010000 0001 01 20003 /run/a.sock.state
0000000000000000: 00000002 00000000 00010000 0001 01 20004 relative.sock.state
0000000000000000: 00000002 00000000 00010000 0001 01 20005 @/abstract.state
0000000000000000: 00000002 00000000 00010000 0001 01 20006 /run/other.sock
0000000000000000: 00000002 00000000 00010000 0001 01 20007
`), 0o600))
	got, err := findEngines(file)
	require.NoError(t, err)
	require.Equal(t, []string{"/run/a.sock", "/run/b dir/engine.sock"}, got)
	_, err = findEngines(file + ".none")
	require.Error(t, err)
}

func TestShortNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 7: "7", 0.25: "0.2", 999: "999", 999.6: "1.0k", 1234: "1.2k", 12345: "12k",
		999_949: "1.0M", 5e6: "5.0M", 3.2e18: "3E", 1e15: "1.0P"} {
		require.Equal(t, want, short(v), "%v", v)
	}
	for d, want := range map[time.Duration]string{-1: "0 us", 1500: "1 us", 3 * time.Millisecond: "3 ms",
		59 * time.Second: "59 s", 61 * time.Second: "1 min 1 s", 25 * time.Hour: "1 d 1 h", 2 * time.Hour: "2 h 0 min"} {
		require.Equal(t, want, age(d), "%v", d)
	}
}
