//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/nicless/nicless/verbs/internal/abi"
)

// A subnetPort is an InfiniBand port of this server or of another engine.
type subnetPort struct {
	device *device    // nil: of another engine
	far    LinkedPort // if it is
	number uint8      // of the switch's port at the other end
}

// addFar adds ports of other engines, which have stated them. A port whose LID or GID another port has
// already, or whose LID no port can have, is left out: nothing leads there.
func (n *subnet) addFar(list []LinkedPort) {
	lids, gids := make(map[uint16][gidSize]byte), make(map[[gidSize]byte]bool)
	own := len(n.ports)
	for i := range n.ports {
		p := &n.ports[i]
		lids[p.lid()], gids[p.gid()] = p.gid(), true
	}
	isOwn := func(far LinkedPort) bool {
		return slices.ContainsFunc(n.ports[:own], func(p subnetPort) bool { return p.gid() == far.GID })
	}
	for _, far := range list {
		first, taken := lids[far.LID]
		switch {
		case far.LID < firstLID || far.LID >= multicastLID:
		case taken && first == far.GID && !isOwn(far): // several links lead there
		case taken || gids[far.GID]:
			n.left++
		default:
			lids[far.LID], gids[far.GID] = far.GID, true
			n.ports = append(n.ports, subnetPort{far: far})
		}
	}
}

func (p *subnetPort) lid() uint16 {
	if p.device == nil {
		return p.far.LID
	}
	return p.device.lid
}

func (p *subnetPort) gid() [gidSize]byte {
	if p.device == nil {
		return p.far.GID
	}
	return p.device.linkLocal()
}

func (p *subnetPort) guid() uint64 {
	if p.device == nil {
		return binary.BigEndian.Uint64(p.far.GID[8:])
	}
	return p.device.guid
}

// state returns the states of the port, as of its PortInfo.
func (p *subnetPort) state() (state, physical uint8) {
	switch {
	case p.device != nil:
		return p.device.portState()
	case p.far.Up:
		return abi.PortActive, physicalUp
	}
	return abi.PortDown, physicalPolling
}

func (p *subnetPort) up() bool {
	if p.device == nil {
		return p.far.Up
	}
	return !p.device.state().Down
}

// description returns the name of a device with its host, as the kernel has it. That of another engine's
// device is not known: its place among the devices of that engine is.
func (p *subnetPort) description() string {
	if p.device != nil {
		host, _ := os.Hostname()
		return fmt.Sprintf("%s %s", host, p.device.name)
	}
	name := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, p.far.Name)
	if i := p.guid() - p.far.Engine; i < MaxDevices {
		name = fmt.Sprintf("%s device %d", name, i)
	}
	return name
}
