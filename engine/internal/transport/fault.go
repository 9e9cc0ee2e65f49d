//go:build linux && (amd64 || arm64)

package transport

import (
	"slices"
)

// ReportAsleep calls PortConfig.Asleep of all ports.
func (sh *PortServer) ReportAsleep(asleep bool) {
	for i := 0; i < len(sh.Ports); {
		p := sh.Ports[i]
		p.ReportAsleep(asleep)
		if i < len(sh.Ports) && sh.Ports[i] == p { // the port was not given up
			i++
		}
	}
}

// FreePackets gives the ring's memory of packets back to the carriers. It is called when a fault has ended a
// batch of packets early, before servePort could give the memory back.
func (sh *PortServer) FreePackets() {
	if first := sh.Shards[0]; sh.Holds(first) {
		for _, p := range slices.Clone(first.Ports) {
			if p.Up {
				p.FreePackets()
			}
		}
	}
}
