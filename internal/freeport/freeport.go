// Package freeport finds addresses for the servers of tests: TCP ports, and addresses of the loopback device.
//
// Tests of many processes run at once, and choose by chance. So each choice is held until its test ends:
// in the whole network namespace, no other test gets it. To hold a choice is to bind a unix socket to a
// name without a file. Such names belong to the network namespace too, and end with the process.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
)

// Ports are taken from below the range from which the kernel takes those of connections, so
// that no connection takes one before the server listens.
const lowest = 10000

var (
	mu    sync.Mutex // guards what follows
	given = make(map[int]bool)
	nets  []*network
)

// TCP returns a port at which no socket listens, on any address, and which no other test has until this one
// ends. It returns no port twice.
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
		release, ok := hold(t, fmt.Sprint("TCP port ", port))
		if !ok {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			release()
			continue
		}
		_ = l.Close()
		t.Cleanup(release)
		given[port] = true
		return port
	}
	t.Fatal("no port is free")
	return 0
}

// A network is 127.x.0.0/16, which this process has alone until it ends. Tests get parts of it, each of
// 256 addresses.
type network struct {
	second byte
	used   [256]bool
	next   byte // the one that was free for the longest time, if it is free
}

// Loopback returns n addresses of the loopback device, 127.x.y.1 to 127.x.y.n. No other test has an address
// of that network 127.x.y.0/24 until this one ends. Each call returns another network.
func Loopback(t testing.TB, n int) (list []netip.Addr) {
	t.Helper()
	if n > 254 {
		t.Fatalf("%d addresses; a network has 254", n)
	}
	mu.Lock()
	defer mu.Unlock()
	of, third := take(t)
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		of.used[third] = false
	})
	for i := range n {
		list = append(list, netip.AddrFrom4([4]byte{127, of.second, third, byte(i + 1)}))
	}
	return list
}

// take returns a network of 256 free addresses: 127, the network's second byte, and the third.
func take(t testing.TB) (of *network, third byte) {
	t.Helper()
	for _, of := range nets {
		for range of.used {
			third := of.next
			of.next++
			if !of.used[third] {
				of.used[third] = true
				return of, third
			}
		}
	}
	const first, count = 1, 254 // 127.0.0.0/16 has the addresses that people know
	for i := range count {
		second := byte(first + (os.Getpid()+i)%count)
		if _, ok := hold(t, fmt.Sprintf("network 127.%d.0.0/16", second)); ok {
			of := &network{second: second, next: 1}
			of.used[0] = true
			nets = append(nets, of)
			return of, 0
		}
	}
	t.Fatal("no network of loopback addresses is free")
	return nil, 0
}
