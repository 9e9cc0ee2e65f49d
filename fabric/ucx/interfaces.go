//go:build linux && (amd64 || arm64)

package ucx

import (
	"net"
	"time"
)

// lookTime is how often new network interfaces are looked for while no peer is up.
const lookTime = time.Second

// interfaces returns the network interfaces that UCX can use now, with their addresses. UCX reads
// this list once, at its start: it refuses connections by an interface that comes up later.
func interfaces() map[string]bool {
	usable := map[string]bool{}
	list, _ := net.Interfaces() // without a list no interface is new
	for _, i := range list {
		if i.Flags&(net.FlagUp|net.FlagRunning) != net.FlagUp|net.FlagRunning {
			continue
		}
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
				usable[i.Name+" with "+a.String()] = true
			}
		}
	}
	return usable
}

// newInterface returns an interface that can be used and is not known, "" if there is none.
func newInterface(known map[string]bool) string {
	for name := range interfaces() {
		if !known[name] {
			return name
		}
	}
	return ""
}

// waits reports whether the process is ready and no peer is up.
func (c *Carrier) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process != nil && !c.up
}
