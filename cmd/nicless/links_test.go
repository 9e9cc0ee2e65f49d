//go:build linux && (amd64 || arm64)

package main

import (
	"testing"

	"github.com/nicless/nicless/fabric"
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
