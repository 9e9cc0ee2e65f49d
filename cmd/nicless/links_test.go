//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"testing"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// Only nodes that have never come share a row, and the others keep theirs, in order.
func TestFoldAbsent(t *testing.T) {
	absent := func(name string) fabric.Peer { return fabric.Peer{Name: name, Why: name + " has not joined the pool"} }
	up := fabric.Peer{Name: "node 1", GUID: 5, Up: true, MTU: 16384}
	left := fabric.Peer{Name: "node 4", GUID: 6, Why: "node 4 has left the pool"}
	other := fabric.Peer{Name: "host", Why: "host has not joined the pool"} // of another link
	all := []fabric.Peer{up, absent("node 2"), absent("node 3"), left, absent("node 5"), absent("node 7"), absent("node 8"), absent("node 9"), other}
	kept := append([]fabric.Peer(nil), all...)
	require.Equal(t, []fabric.Peer{
		up, {Name: "nodes 2, 3, 5, 7 to 9", Why: "they have not joined the pool"}, left, other,
	}, foldAbsent(all))
	require.Equal(t, kept, all)
	require.Equal(t, []fabric.Peer{up, absent("node 7")}, foldAbsent([]fabric.Peer{up, absent("node 7")}))
	require.Empty(t, foldAbsent(nil))
}

// Packets that no good peer sends are reported in words; a good link has no such report.
func TestOddities(t *testing.T) {
	var b bytes.Buffer
	printOddities(&b, fabric.Peer{Name: "192.0.2.1", Stats: nic.PortStats{Sent: 5, Received: 9, Gaps: 3, Duplicates: 8, Resent: 4}})
	require.Empty(t, b.String())
	printOddities(&b, fabric.Peer{Name: "192.0.2.1", Stats: nic.PortStats{OutOfWindow: 2101, WrongKeys: 1, Scans: 1, ShutOut: 16000000}})
	require.Equal(t, `  192.0.2.1: 1 request with a key that does not give access to the memory
  192.0.2.1: 2101 requests with a packet number (PSN) far from the expected one
  192.0.2.1: 1 scan: so many of these that somebody seems to try packet numbers; the path was limited
  192.0.2.1: 16000000 packets dropped while a path was limited
`, b.String())
}
