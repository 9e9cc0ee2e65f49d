//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/nic"
)

// The words of "nicless links" for packets that no good peer sends, or that it sends only when something is
// wrong. Most links have none.

// printOddities prints a line for each kind of such packets that a peer's port has counted.
func printOddities(w io.Writer, p fabric.Peer) {
	odd := oddity{p.WrongSums, "look", " at a packet with a wrong check sum: memory that is late, lost or damaged"}
	for _, odd := range append(oddities(&p.Stats), odd) {
		switch {
		case odd.n == 1:
			fmt.Fprintf(w, "  %s: 1 %s%s\n", plain(p.Name), odd.of, odd.is)
		case odd.n > 1:
			fmt.Fprintf(w, "  %s: %d %ss%s\n", plain(p.Name), odd.n, odd.of, odd.is)
		}
	}
}

// An oddity is a kind of such packets.
type oddity struct {
	n      uint64
	of, is string // one packet, and what it means
}

func oddities(s *nic.PortStats) []oddity {
	return []oddity{
		{s.UnknownQPs, "packet", " to queue pairs that do not exist"},
		{s.Strangers, "packet", " from an address, or in a state, that the queue pair does not expect"},
		{s.WrongKeys, "request", " with a key that does not give access to the memory"},
		{s.OutOfWindow, "request", " with a packet number (PSN) far from the expected one"},
		{s.StrayAnswers, "answer", " to nothing that was sent"},
		{s.Scans, "scan", ": so many of these that somebody seems to try packet numbers; the path was limited"},
		{s.ShutOut, "packet", " dropped while a path was limited"},
		{s.Doubted, "request", " with a mistake, not answered while a path was limited, because of guesses"},
		{s.Malformed, "packet", " with an impossible length or header"},
	}
}
