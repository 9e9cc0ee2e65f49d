//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

var updateLinks = flag.Bool("update-links", false, "write the golden files of nicless links")

// rack is the report of a pool of 1,000 nodes as node 0 sees it.
func rack() links.Report {
	r := links.Report{Link: "pool:/dev/shm/rack,node=0"}
	for n := 1; n < 1000; n++ {
		p := fabric.Peer{Name: fmt.Sprintf("node %d", n), GUID: uint64(n), Up: true, MTU: 4096}
		p.Stats = nic.PortStats{Up: true, Sent: 1000, Received: 2000, QueuePairs: 2}
		switch {
		case n == 17:
			p.Stats.Resent = 12
		case n == 300:
			p.Stats.Timeouts = 3
		case n == 400:
			p.Faults, p.WrongSums = 1, 256
		case n == 500:
			p.Stats.Malformed = 2
		case n == 801, n == 802:
			p.Up, p.Why, p.Stats = false, fmt.Sprintf("node %d has been silent for 1s", n), nic.PortStats{}
		case n >= 990:
			p.Up, p.Why, p.MTU, p.GUID, p.Stats = false, p.Name+" has not joined the pool", 0, 0, nic.PortStats{}
		}
		r.Peers = append(r.Peers, p)
	}
	return r
}

func printed(t *testing.T, o linkTable, l links.Report) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, o.print(&b, &l))
	for line := range strings.Lines(b.String()) {
		require.Equal(t, strings.TrimRight(line, "\n"), strings.TrimRight(line, " \n"), "no spaces at the end")
	}
	return b.String()
}

// A rack fits on a screen, and shows all that is wrong.
func TestLinksOfARack(t *testing.T) {
	for name, o := range map[string]linkTable{"links_rack": {}, "links_rates": {before: []links.Report{rack()}, passed: 2 * time.Second}} {
		now := rack()
		if o.before != nil {
			now.Peers[0].Stats.Sent += 500
			now.Peers[1].Stats.Received = 20 // its port was made anew
		}
		got := printed(t, o, now)
		require.LessOrEqual(t, strings.Count(got, "\n"), 24)
		path := filepath.Join("testdata", name+".txt")
		if *updateLinks {
			require.NoError(t, os.WriteFile(path, []byte(got), 0o666))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), got, "go test -run TestLinksOfARack -update-links . writes %s", path)
	}
}

// With --all-peers each peer has its row, but nodes that have not joined share one.
func TestAllPeersOfARack(t *testing.T) {
	got := printed(t, linkTable{all: true}, rack())
	for n := 1; n < 990; n++ {
		require.Equal(t, 1, strings.Count(got, fmt.Sprintf("\n  node %d ", n)))
	}
	require.Equal(t, 1, strings.Count(got, "\n  nodes 990 to 999 "))
	require.NotContains(t, got, "more")
	require.Less(t, strings.Index(got, "node 802 "), strings.Index(got, "node 400 "))
}

// A link with one peer needs no summary, and one with as many peers as fit leaves none out.
func TestSmallLinks(t *testing.T) {
	one := rack()
	one.Peers = one.Peers[:1]
	require.Equal(t, `pool:/dev/shm/rack,node=0
  PEER    STATE  MTU   SENT  RECEIVED  RESENT  TIMEOUTS
  node 1  up     4096  1000  2000      0       0
`, printed(t, linkTable{}, one))
	full := rack()
	full.Peers = full.Peers[:mostPeers]
	require.NotContains(t, printed(t, linkTable{}, full), "more")
	full = rack()
	full.Peers = full.Peers[:mostPeers+1]
	require.Contains(t, printed(t, linkTable{}, full), "\n  and 1 more peer (1 up): nicless links --all-peers\n")
}

// Two peers of one name, at two own addresses, have rates of their own.
func TestRatesOfTwoPaths(t *testing.T) {
	report := func(a, b uint64) links.Report {
		return links.Report{Link: "roce", Peers: []fabric.Peer{
			{Name: "192.0.2.1", Up: true, Stats: nic.PortStats{Sent: a}}, {Name: "192.0.2.1", Up: true, Stats: nic.PortStats{Sent: b}}}}
	}
	o := linkTable{before: []links.Report{{Link: "other"}, report(100, 1000)}, passed: time.Second}
	now := report(103, 1007)
	rows := o.rows(&now)
	require.Equal(t, 3.0, rows[0].sent)
	require.Equal(t, 7.0, rows[1].sent)
}

func TestRatesAreRefused(t *testing.T) {
	for _, c := range []struct{ args, why string }{
		{"--rates 1s --json", "--rates is for the table"}, {"--rates 2m", "--rates 2m0s; more than 0 and at most 1m0s"}, {"--rates -1s", "--rates -1s"},
	} {
		var out, errs strings.Builder
		args := append([]string{"links", "--engine", "nosuch"}, strings.Fields(c.args)...)
		require.Equal(t, 1, run(args, strings.NewReader(""), &out, &errs))
		require.Contains(t, errs.String(), c.why)
	}
}
