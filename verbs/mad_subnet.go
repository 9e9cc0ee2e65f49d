//go:build linux && (amd64 || arm64)

package verbs

import (
	"cmp"
	"slices"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/nicless/nicless/verbs/internal/mad"
)

// The subnet that programs see is one switch, and at each of its ports an InfiniBand port of this server or
// of an engine that a link leads to: in the order of their LIDs, the first at port 1. The subnet manager is
// at the switch. Each engine has this switch for itself, and answers for it and for all ports, but not for
// the general services of ports elsewhere (mad_link.go).

// switchGUID is the GUID of the switch in every engine: a locally administered one.
const switchGUID = 0x6e69636c65737301

const (
	switchName  = "nicless switch"
	switchPart  = 0xcf08 // of a switch of 36 ports
	linkPrefix  = 0xfe80000000000000
	mostPorts   = 254
	mellanoxOUI = 0x0002c9
)

// A subnet is how things stand at one moment.
type subnet struct {
	s     *Server
	ports []subnetPort
	left  int // ports of other engines that are not in it, because their LID or GID is that of another port
}

// A subnetNode is where a datagram has come: at a port, or at the switch.
type subnetNode struct {
	port *subnetPort // nil: the switch
	in   uint8       // the node's port by which it has come
}

func (s *Server) subnet() *subnet {
	net := &subnet{s: s}
	for _, d := range s.devices {
		if d.lid != 0 {
			net.ports = append(net.ports, subnetPort{device: d})
		}
	}
	if s.fabric != nil {
		net.addFar(s.fabric.Ports())
	}
	net.ports = net.ports[:min(len(net.ports), mostPorts)]
	slices.SortFunc(net.ports, func(a, b subnetPort) int { return cmp.Compare(a.lid(), b.lid()) })
	for i := range net.ports {
		net.ports[i].number = uint8(i + 1)
	}
	return net
}

// portOf returns the port of a device, nil if it is none of the subnet.
func (n *subnet) portOf(d *device) *subnetPort {
	return n.port(func(p *subnetPort) bool { return p.device == d })
}

// withLID returns the port with a LID, nil if none has it.
func (n *subnet) withLID(lid uint16) *subnetPort {
	return n.port(func(p *subnetPort) bool { return p.lid() == lid })
}

func (n *subnet) port(is func(*subnetPort) bool) *subnetPort {
	for i := range n.ports {
		if is(&n.ports[i]) {
			return &n.ports[i]
		}
	}
	return nil
}

// find returns the node to which a datagram goes. Nothing passes a port that is down.
func (n *subnet) find(o *outgoing) (at subnetNode, ok bool) {
	own := n.portOf(o.f.device)
	switch {
	case own == nil:
		return at, false
	case o.head.Class == mad.ClassDirected:
		return n.follow(own, o.data[mad.InitialPathAt:][:mad.PathSize], int(o.head.Specific&0xff))
	case o.user.LID == own.lid():
		return subnetNode{own, 1}, true
	case !own.up():
		return at, false
	case o.user.LID == subnetManagerLID:
		return subnetNode{nil, own.number}, true
	}
	to := n.withLID(o.user.LID)
	if to == nil || !to.up() {
		return at, false
	}
	return subnetNode{to, 1}, true
}

// follow follows a directed route of so many hops from a port. path[0] has no meaning.
func (n *subnet) follow(from *subnetPort, path []byte, hops int) (at subnetNode, ok bool) {
	at = subnetNode{from, 1}
	for _, out := range path[1 : hops+1] {
		switch {
		case at.port == nil && out == 0: // the switch's own port
			at.in = 0
		case at.port == nil && (int(out) > len(n.ports) || !n.ports[out-1].up()):
			return at, false
		case at.port == nil:
			at = subnetNode{&n.ports[out-1], 1}
		case out != 1 || !at.port.up():
			return at, false
		default:
			at = subnetNode{nil, at.port.number}
		}
	}
	return at, true
}

// nodeInfo describes a node.
func (n *subnet) nodeInfo(at subnetNode) mad.NodeInfo {
	i := mad.NodeInfo{Partitions: mad.PKeyBlock, LocalPort: at.in, Vendor: mellanoxOUI}
	if at.port == nil {
		i.Type, i.Ports, i.Device = mad.NodeSwitch, uint8(len(n.ports)), switchPart
		i.SystemGUID, i.GUID, i.PortGUID = switchGUID, switchGUID, switchGUID
		return i
	}
	g := at.port.guid()
	i.Type, i.Ports, i.Device, i.SystemGUID, i.GUID, i.PortGUID = mad.NodeCA, 1, partID, g, g, g
	return i
}

// description returns the name of a node.
func (n *subnet) description(at subnetNode) string {
	text := switchName
	if at.port != nil {
		text = at.port.description()
	}
	return text[:min(len(text), mad.SMPDataSize)]
}

// portInfo describes a port of a node; port 0 of a device is the one by which the request has come.
func (n *subnet) portInfo(at subnetNode, port uint32) (i mad.PortInfo, ok bool) {
	i = mad.PortInfo{GIDPrefix: linkPrefix, MasterLID: subnetManagerLID, LocalPort: at.in,
		State: abi.PortActive, Physical: physicalUp, Caps: mad.CapExtendedSpeeds}
	switch {
	case at.port != nil && port <= 1:
		i.State, i.Physical = at.port.state()
		i.LID, i.GUIDs, i.Caps = at.port.lid(), mad.GUIDBlock, i.Caps|mad.CapCM
	case at.port != nil || port > uint32(len(n.ports)):
		return i, false
	case port == 0:
		i.LID, i.GUIDs, i.Caps = subnetManagerLID, mad.GUIDBlock, i.Caps|mad.CapSM
	default:
		i.State, i.Physical = n.ports[port-1].state()
	}
	return i, true
}

// forwarding returns a block of the switch's forwarding table.
func (n *subnet) forwarding(block uint32) []byte {
	b := make([]byte, mad.ForwardingBlock)
	for i := range b {
		b[i] = mad.ForwardNone
		lid := block*mad.ForwardingBlock + uint32(i)
		if lid == subnetManagerLID {
			b[i] = 0
		}
		if p := n.withLID(uint16(lid)); lid < multicastLID && p != nil {
			b[i] = p.number
		}
	}
	return b
}

// top returns the greatest LID.
func (n *subnet) top() uint16 {
	if len(n.ports) == 0 {
		return subnetManagerLID
	}
	return n.ports[len(n.ports)-1].lid()
}
