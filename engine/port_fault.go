//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"slices"
)

// The memory of a port's rings, and the words by which a carrier and the device wake each other, can
// lose their pages at any time: a pool is a file that every node can make shorter. Then the port is
// given up. What happens while packets are served is left to recoverFault. Here is the rest.

// failAfterFault gives p up if the deferring function has met memory without pages.
func (p *port) failAfterFault() {
	if r := recover(); r != nil {
		addr, ok := faultOf(r)
		if !ok {
			panic(r)
		}
		p.fail(fmt.Errorf(noPage, addr))
	}
}

// wakeCarrier calls PortConfig.Wake.
func (p *port) wakeCarrier() {
	defer p.failAfterFault()
	p.cfg.Wake()
}

// tellAsleep calls PortConfig.Asleep of all ports.
func (sh *portServer) tellAsleep(asleep bool) {
	for i := 0; i < len(sh.ports); {
		p := sh.ports[i]
		p.tellAsleep(asleep)
		if i < len(sh.ports) && sh.ports[i] == p { // it was not given up
			i++
		}
	}
}

func (p *port) tellAsleep(asleep bool) {
	defer p.failAfterFault()
	if p.cfg.Asleep != nil {
		p.cfg.Asleep(asleep)
	}
}

// freePackets gives the memory of packets back that were taken before a fault cut their batch off.
func (sh *portServer) freePackets() {
	if first := sh.shards[0]; sh.holds(first) {
		for _, p := range slices.Clone(first.ports) {
			if p.up {
				p.freePackets()
			}
		}
	}
}

// freePackets is shard.freePackets for one port. Its ring may be what the fault was about, or be lost, too.
func (p *port) freePackets() {
	defer p.failAfterFault()
	p.cfg.Receive.Free()
}
