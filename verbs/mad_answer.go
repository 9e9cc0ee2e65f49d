//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"

	"github.com/nicless/nicless/verbs/internal/mad"
)

// answer returns the answer of a node to a request, nil if it has none for this class. The classes are those
// that a device or a switch answers without a program: of the subnet, of counters, and of administration.
func (n *subnet) answer(o *outgoing, at subnetNode) []byte {
	switch o.head.Class {
	case mad.ClassSMP, mad.ClassDirected:
		return n.answerSMP(o, at)
	case mad.ClassPM:
		return n.answerPM(o, at)
	case mad.ClassSA:
		if at.port == nil {
			return n.answerSA(o)
		}
	}
	return nil
}

// answerSMP answers requests of subnet management. The attributes cannot be set: the fabric manages itself.
func (n *subnet) answerSMP(o *outgoing, at subnetNode) []byte {
	if o.head.Method != mad.Get {
		if o.head.Method == mad.Set {
			o.f.explain("attribute %#x cannot be set: the fabric manages itself", o.head.Attribute)
		}
		return nil
	}
	mod := o.head.Modifier
	var b []byte
	switch o.head.Attribute {
	case mad.AttrNodeInfo:
		b = n.nodeInfo(at).Bytes()
	case mad.AttrNodeDescription:
		b = append([]byte(n.description(at)), 0)
	case mad.AttrPortInfo:
		i, ok := n.portInfo(at, mod&0xff)
		if !ok {
			return o.respond(mad.StatusInvalid, nil)
		}
		b = i.Bytes()
	case mad.AttrPKeyTable:
		b = mad.PKeys(0)
		if mod&0xffff == 0 {
			b = mad.PKeys(gsiPKey)
		}
	case mad.AttrGUIDInfo:
		b = mad.GUIDs(0)
		if mod == 0 {
			b = mad.GUIDs(n.nodeInfo(at).PortGUID)
		}
	case mad.AttrSLToVL, mad.AttrVLArbitration: // there is one virtual lane, 0
		b = make([]byte, mad.SMPDataSize)
	default:
		return n.answerSwitch(o, at)
	}
	return o.respond(0, b)
}

// answerSwitch answers for attributes that only switches have.
func (n *subnet) answerSwitch(o *outgoing, at subnetNode) []byte {
	if at.port != nil {
		return nil
	}
	switch o.head.Attribute {
	case mad.AttrSwitchInfo:
		return o.respond(0, mad.SwitchInfo{Top: n.top()}.Bytes())
	case mad.AttrForwarding:
		return o.respond(0, n.forwarding(o.head.Modifier&0xffff))
	case mad.AttrMulticast: // no port: groups are not in it
		return o.respond(0, make([]byte, mad.SMPDataSize))
	case mad.AttrSMInfo:
		return o.respond(0, mad.SMInfo(switchGUID, 1))
	}
	return nil
}

// answerPM answers requests for counters. Those of the switch are 0: it is not made of anything that counts.
func (n *subnet) answerPM(o *outgoing, at subnetNode) []byte {
	port, selected := o.data[mad.PMPortAt], binary.BigEndian.Uint16(o.data[mad.PMPortAt+1:])
	known := port == 1
	if at.port == nil {
		known = int(port) <= len(n.ports) || port == mad.PMAllPorts
	}
	if o.head.Attribute == mad.AttrClassPortInfo && o.head.Method == mad.Get {
		return o.respond(0, mad.ClassPortInfo(1, mad.PMExtendedWidth))
	}
	if !known {
		return o.respond(mad.StatusInvalid, nil)
	}
	var c mad.Counters
	if at.port != nil {
		if o.head.Method == mad.Set {
			n.s.mads.resetCounters(at.port.device)
		}
		c = n.s.mads.counted(at.port.device)
	}
	switch o.head.Attribute {
	case mad.AttrPortCounters:
		return o.respond(0, c.PortCounters(port, selected))
	case mad.AttrPortCountersExtended:
		return o.respond(0, c.Extended(port, selected))
	}
	return nil
}

// answerSA answers requests for records. Each is made from how things stand now.
func (n *subnet) answerSA(o *outgoing) []byte {
	mask := binary.BigEndian.Uint64(o.data[mad.ComponentsAt:])
	var records [][]byte
	switch {
	case o.head.Attribute == mad.AttrClassPortInfo && o.head.Method == mad.Get:
		return o.respond(0, mad.ClassPortInfo(2, 0))
	case o.head.Attribute == mad.AttrNodeRecord:
		records = n.nodeRecords(o.data[mad.SADataAt:], mask)
	case o.head.Attribute == mad.AttrPortInfoRecord:
		records = n.portRecords(o.data[mad.SADataAt:], mask)
	case o.head.Attribute == mad.AttrPathRecord:
		records = n.pathRecords(o, mask)
	case o.head.Attribute == mad.AttrServiceRecord || o.head.Attribute == mad.AttrMemberRecord: // none
	default:
		return nil
	}
	switch {
	case o.head.Method == mad.GetTable:
		head := append([]byte{}, o.data...)
		h := o.head
		h.Status = 0
		h.Put(head)
		return mad.Table(head, records)
	case len(records) == 0:
		return o.respond(mad.StatusNoRecords, nil)
	}
	b := o.respond(0, records[0])
	if b != nil {
		binary.BigEndian.PutUint16(b[mad.RecordOffset:], uint16((len(records[0])+7)/8))
	}
	return b
}

// nodes returns all nodes, the switch first.
func (n *subnet) nodes() []subnetNode {
	all := []subnetNode{{nil, 0}}
	for i := range n.ports {
		all = append(all, subnetNode{&n.ports[i], 1})
	}
	return all
}

func (at subnetNode) lid() uint16 {
	if at.port == nil {
		return subnetManagerLID
	}
	return at.port.lid()
}

func (n *subnet) nodeRecords(want []byte, mask uint64) (records [][]byte) {
	be := binary.BigEndian
	for _, at := range n.nodes() {
		i := n.nodeInfo(at)
		switch {
		case mask&mad.NodeHasLID != 0 && be.Uint16(want) != at.lid(),
			mask&mad.NodeHasType != 0 && want[4+2] != i.Type,
			mask&mad.NodeHasGUID != 0 && be.Uint64(want[4+12:]) != i.GUID,
			mask&mad.NodeHasPortGUID != 0 && be.Uint64(want[4+20:]) != i.PortGUID:
			continue
		}
		records = append(records, mad.NodeRecord(at.lid(), i, n.description(at)))
	}
	return records
}

// portRecords returns the ports that a request describes. Those of a request for capabilities have them all,
// and perhaps others, as saquery means it with the highest bit of the modifier.
func (n *subnet) portRecords(want []byte, mask uint64) (records [][]byte) {
	const hasLID, hasPort, hasCaps, capsAt = 1 << 0, 1 << 1, 1 << 7, 4 + 20
	caps := binary.BigEndian.Uint32(want[capsAt:])
	for _, at := range n.nodes() {
		if mask&hasLID != 0 && binary.BigEndian.Uint16(want) != at.lid() {
			continue
		}
		first, last := 1, 1
		if at.port == nil {
			first, last = 0, len(n.ports)
		}
		for port := first; port <= last; port++ {
			if mask&hasPort != 0 && int(want[2]) != port {
				continue
			}
			i, ok := n.portInfo(at, uint32(port))
			if ok && (mask&hasCaps == 0 || i.Caps&caps == caps) {
				records = append(records, mad.PortInfoRecord(at.lid(), uint8(port), i))
			}
		}
	}
	return records
}

// pathRecords returns the paths that a request describes, from the requester unless it names another port.
func (n *subnet) pathRecords(o *outgoing, mask uint64) (records [][]byte) {
	want := mad.ParsePath(o.data[mad.SADataAt:])
	for _, from := range n.nodes() {
		switch {
		case mask&mad.PathHasFrom != 0 && want.From != n.gid(from),
			mask&mad.PathHasFromLID != 0 && want.FromLID != from.lid(),
			mask&(mad.PathHasFrom|mad.PathHasFromLID) == 0 && from.lid() != o.f.device.lid:
			continue
		}
		for _, to := range n.nodes() {
			switch {
			case mask&mad.PathHasTo != 0 && want.To != n.gid(to),
				mask&mad.PathHasToLID != 0 && want.ToLID != to.lid():
				continue
			}
			path := mad.Path{To: n.gid(to), From: n.gid(from), ToLID: to.lid(), FromLID: from.lid()}
			records = append(records, path.Bytes())
		}
	}
	return records
}

// gid returns the GID of a node's port.
func (n *subnet) gid(at subnetNode) (g [gidSize]byte) {
	if at.port != nil {
		return at.port.gid()
	}
	binary.BigEndian.PutUint64(g[:], linkPrefix)
	binary.BigEndian.PutUint64(g[8:], n.nodeInfo(at).PortGUID)
	return g
}
