//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

// surveys are two surveys of a rack of 1,000 engines, half a second apart, as one of them sees the others.
func surveys() (before, now []state.Peer) {
	for n := range 1000 {
		p := state.Peer{GUID: fmt.Sprintf("%016x", 0x5000+n), Link: "pool:/dev/shm/rack", Name: fmt.Sprintf("node %d", n), Up: true}
		s := state.Summary{Host: fmt.Sprintf("rack-%d", n), PID: 7, Time: 1e9, Threads: 1, Clients: 2, Running: 1, Queues: 16,
			Linked: 15, WQEs: 1000, Bytes: 64000, PeersUp: 997, PeersDown: 2, Disclosed: n < 20}
		if s.Disclosed {
			s.Programs = []state.Program{{Name: fmt.Sprintf("trainer%d", n), PID: uint32(100 + n), Queues: 16, WQEs: 1000, Bytes: 64000}}
		}
		switch n {
		case 0:
			p.Link, p.Name = "", ""
		case 17:
			s.Host, s.Programs[0].Name = "a\x1b[31m\xff\u202e\n名字", "evil\x1b]0;x\x07"
		case 300:
			s.Faults, s.Failed = 2, 12345
		case 301:
			s.Timeouts, s.PeersDown = 1, 40
		case 302:
			s.Stuck = true
		case 303:
			s.Failed, s.WQEs, s.Bytes, s.Queues, s.Running = 1<<64-1, 1<<64-1, 1<<64-1, 1<<32-1, 1<<32-1
		}
		old := s
		old.Programs = append([]state.Program(nil), s.Programs...)
		p.Summary = &old
		before = append(before, p)
		s.Time += 5e8
		if n != 303 {
			s.WQEs += uint64(n) * 10
			s.Bytes += uint64(n) * 640
		}
		if n == 300 {
			s.Failed += 5
		}
		for i := range s.Programs {
			s.Programs[i].WQEs += uint64(n) * 10
			s.Programs[i].Bytes += uint64(n) * 640
		}
		p.Summary = &s
		switch n {
		case 801, 802:
			p.Up, p.Why, p.Summary = false, fmt.Sprintf("node %d has been silent for 1s", n), nil
		case 803:
			p.Why, p.Summary = "no answer in 700ms: it stands still, has ended, or is no engine that knows the question", nil
		case 804:
			s.PID, s.WQEs = 8, 5 // started anew between both
		}
		now = append(now, p)
	}
	return before, now
}

// A rack fits on two screens, shows what is wrong first, and no engine can write anything to the terminal.
func TestFabricOfARack(t *testing.T) {
	list := joinSurveys(surveys())
	got := string(writeFabric(list, false))
	require.LessOrEqual(t, strings.Count(got, "\n"), 48)
	for line := range strings.Lines(got) {
		line = strings.TrimRight(line, "\n")
		if !strings.HasPrefix(line, "  node ") { // sentences are as long as they are
			require.LessOrEqual(t, len([]rune(line)), 80, line)
		}
		require.Equal(t, plain(line), line)
		require.Equal(t, strings.TrimRight(line, " "), line)
	}
	path := filepath.Join("testdata", "links_fabric.txt")
	if *updateLinks {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o666))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test -run TestFabricOfARack -update-links . writes %s", path)

	all := string(writeFabric(list, true))
	for n := 1; n < 1000; n++ {
		require.Contains(t, all, fmt.Sprintf("  node %d ", n))
	}
	require.NotContains(t, all, "--all-peers")
}

// JSON has all engines in the order of the engine that was asked, with rates.
func TestFabricAsJSON(t *testing.T) {
	before, now := surveys()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	require.NoError(t, e.Encode(joinSurveys(before[:2], append(now[:2:2], now[801]))))
	path := filepath.Join("testdata", "links_fabric.json")
	if *updateLinks {
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o666))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String(), "go test -run TestFabricAsJSON -update-links . writes %s", path)
}
