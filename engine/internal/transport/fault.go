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
		if i < len(sh.Ports) && sh.Ports[i] == p { // it was not given up
			i++
		}
	}
}

// FreePackets gives the memory of packets back that were taken before a fault cut their batch off.
func (sh *PortServer) FreePackets() {
	if first := sh.Shards[0]; sh.Holds(first) {
		for _, p := range slices.Clone(first.Ports) {
			if p.Up {
				p.FreePackets()
			}
		}
	}
}
