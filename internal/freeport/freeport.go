// Package freeport finds TCP ports for the servers of tests.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
)

// Ports are taken from below the range from which the kernel takes those of connections, so
// that no connection takes one before the server listens.
const lowest = 10000

var (
	mu    sync.Mutex
	given = make(map[int]bool)
)

// TCP returns a port at which nobody listens, on any address. It returns no port twice. Tests of
// other processes may draw the same one, but hardly ever will.
func TCP(t testing.TB) int {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	below := 32768
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &below)
	}
	if below < lowest+1000 {
		below = 1 << 16 // this kernel leaves no room: take any
	}
	for range 1000 {
		port := lowest + rand.IntN(below-lowest)
		if given[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		_ = l.Close()
		given[port] = true
		return port
	}
	t.Fatal("no port is free")
	return 0
}
