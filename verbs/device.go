//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/abi"
)

// A device is what a program sees as uverbsN and, in most places, by its name.
type device struct {
	index uint32
	name  string
	guid  uint64
	place pciPlace
	lid   uint16        // LID of the InfiniBand port; 0: the port is one of RoCE
	local [gidSize]byte // link-local GID of the device, at first; see linkLocal
	made  [gidSize]byte // GID of the device in a namespace without an address of global scope, at first

	counts [len(kindNames)]atomic.Uint32 // objects that were made so far, by kind; contexts are kindNone

	port func() nic.PortState // state of the device's port; nil: as at first
}

// Numbers and names that programs see of a device.
const (
	devMajor = 231 // IB_UVERBS_MAJOR of the kernel
	devMinor = 192 // IB_UVERBS_BASE_MINOR, of uverbs0
	vendorID = 0x02c9
	partID   = 0x1019 // ConnectX-5 Ex, which every version of libmlx5 knows
	boardID  = "NICLESS"
	fwMajor  = 16
	fwMinor  = 35
	fwSub    = 2000
)

// newDevice derives the identity of a device from the engine's GUID, which is also the GUID
// of the first device.
func newDevice(index uint32, name string, guid uint64, place pciPlace) *device {
	d := &device{index: index, name: name, guid: guid + uint64(index), place: place}
	d.local[0], d.local[1] = 0xfe, 0x80
	binary.BigEndian.PutUint64(d.local[8:], d.guid)
	d.made[10], d.made[11] = 0xff, 0xff
	copy(d.made[12:], []byte{198, 18, byte(d.guid >> 8), byte(d.guid)}) // of RFC 2544: no network has it
	return d
}

// state returns the state of the port now.
func (d *device) state() (s nic.PortState) {
	if d.port != nil {
		s = d.port()
	}
	return s
}

// linkLocal returns the link-local GID of the device.
func (d *device) linkLocal() [gidSize]byte { return d.state().GID(d.local) }

// global returns the device's GID in a namespace without an address of global scope. Of RFC 2544's 17 bits it
// changes those that differ least between the devices of an engine.
func (d *device) global() (g [gidSize]byte) {
	g = d.made
	n := d.state().Changes
	low := uint32(g[14])<<8 | uint32(g[15])
	low = (low ^ n<<5) & (1<<17 - 1)
	g[13], g[14], g[15] = g[13]|byte(low>>16), byte(low>>8), byte(low)
	return g
}

// portState returns the port's state and its physical state, as query_port has them. A port of RoCE that is
// down is disabled, and one of InfiniBand polls for a link (mlx5_query_port_roce in Linux).
func (d *device) portState() (state, physical uint8) {
	switch {
	case !d.state().Down:
		return abi.PortActive, physicalUp
	case d.lid != 0:
		return abi.PortDown, physicalPolling
	}
	return abi.PortDown, physicalDisabled
}

// PortInfo.PortPhysicalState of the InfiniBand specification.
const (
	physicalPolling  = 2
	physicalDisabled = 3
	physicalUp       = 5
)

// guidText returns the GUID as sysfs writes it.
func (d *device) guidText() string {
	g := d.guid
	return fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}

// mac returns the Ethernet address of a device.
func (d *device) mac() (m [6]byte) {
	var g [8]byte
	binary.BigEndian.PutUint64(g[:], d.guid)
	copy(m[:3], g[:3])
	copy(m[3:], g[5:])
	m[0] = m[0]&^1 | 2 // unicast, locally administered
	return m
}

// A Link is the link layer of a device's port.
type Link string

// The link layers.
const (
	Ethernet   Link = "ethernet"   // RoCE v1 and v2: peers are addressed by GIDs
	InfiniBand Link = "infiniband" // peers are addressed by LIDs
)

// linked gives the device's port a link layer, and returns the device. first is the LID of the server's first
// device, if that is one of InfiniBand.
func (d *device) linked(l Link, first uint16) *device {
	d.lid = 0
	if l == InfiniBand {
		d.lid = uint16(d.index) + first
	}
	return d
}

// linkLayer returns the number of the port's link layer, and its name in sysfs.
func (d *device) linkLayer() (number uint8, name string) {
	if d.lid != 0 {
		return abi.LinkLayerInfiniBand, "InfiniBand"
	}
	return abi.LinkLayerEthernet, "Ethernet"
}

// subnetManager returns the LID of the subnet manager, 0 on Ethernet.
func (d *device) subnetManager() uint16 {
	if d.lid != 0 {
		return subnetManagerLID
	}
	return 0
}

// portCaps returns the port's flags of enum ib_port_capability_mask_bits.
func (d *device) portCaps() uint32 {
	if d.lid != 0 {
		return abi.PCFCMSup
	}
	return abi.PCFCMSup | abi.PCFIPBasedGIDs
}
