//go:build linux && (amd64 || arm64)

package nldev

// A Device is an RDMA device.
type Device struct {
	Index            uint32
	Name             string // at most MaxName bytes
	Ports            uint32
	CapFlags         uint64
	Firmware         string
	NodeGUID         uint64
	SystemImageGUID  uint64
	NodeType         uint8  // enum rdma_node_type: 1 is a channel adapter
	Protocol         string // "roce" or "ib"
	AdaptiveModerate bool   // moderation of completions adapts itself (DIM)
}

// Handle returns the attributes by which messages name a device.
func (d *Device) Handle() (l List) {
	l.u32(AttrDevIndex, d.Index)
	l.text(AttrDevName, d.Name)
	return l
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// Attributes returns what GET answers.
func (d *Device) Attributes() List {
	l := d.Handle()
	l.u32(AttrPortIndex, d.Ports)
	l.u64(attrCapFlags, d.CapFlags)
	if d.Firmware != "" {
		l.text(attrFWVersion, d.Firmware)
	}
	l.u64(attrNodeGUID, d.NodeGUID)
	l.u64(attrSysImageGUID, d.SystemImageGUID)
	l.u8(attrDevNodeType, d.NodeType)
	l.u8(AttrDevDim, bit(d.AdaptiveModerate))
	l.u8(attrNameAssign, 0) // RDMA_NAME_ASSIGN_TYPE_UNKNOWN
	l.text(attrDevProtocol, d.Protocol)
	return l
}

// A Netdev is a network interface.
type Netdev struct {
	Index uint32
	Name  string
}

// A Port is a port of a device.
type Port struct {
	Number               uint32
	State, PhysicalState uint8
	IB                   *IBPort // nil: the port is one of RoCE
	Netdev               *Netdev // nil: none, or none that the reader sees
}

// An IBPort has what only ports of InfiniBand have.
type IBPort struct {
	CapFlags     uint64
	SubnetPrefix uint64
	LID, SMLID   uint32
	LMC          uint8
}

// PortAttributes returns what PORT_GET answers.
func (d *Device) PortAttributes(p Port) List {
	l := d.Handle()
	l.u32(AttrPortIndex, p.Number)
	if ib := p.IB; ib != nil {
		l.u64(attrCapFlags, ib.CapFlags)
		l.u64(attrSubnetPrefix, ib.SubnetPrefix)
		l.u32(attrLID, ib.LID)
		l.u32(attrSMLID, ib.SMLID)
		l.u8(attrLMC, ib.LMC)
	}
	l.u8(attrPortState, p.State)
	l.u8(attrPortPhysState, p.PhysicalState)
	l.netdev(p.Netdev)
	return l
}

func (l *List) netdev(n *Netdev) {
	if n != nil {
		l.u32(attrNetdevIndex, n.Index)
		l.text(AttrNetdevName, n.Name)
	}
}

// System returns what SYS_GET answers: namespaces share devices, everybody may set a privileged Q_Key only
// with rights, monitors are possible, and a fork copies registered memory.
func System() (l List) {
	l.u8(AttrSysNetnsMode, 1)
	l.u8(attrPrivilegedQKey, 0)
	l.u8(attrMonitorMode, 1)
	l.u8(attrCopyOnFork, 1)
	return l
}

// A CharDev is a character device.
type CharDev struct {
	Name         string // below /dev/infiniband
	ABI          uint64
	Major, Minor uint32
	DriverID     uint32 // enum rdma_driver_id; 0: no driver
}

// Attributes returns what GET_CHARDEV answers.
func (c CharDev) Attributes() (l List) {
	if c.DriverID != 0 {
		l.u32(attrDriverID, c.DriverID)
	}
	number := c.Minor&0xff | c.Major<<8 | (c.Minor&^0xff)<<12 // new_encode_dev
	l.u64(attrCharDev, uint64(number))
	l.u64(attrCharDevABI, c.ABI)
	l.text(attrCharDevName, c.Name)
	return l
}

// An Event is what monitors are told of: enum rdma_nl_notify_event_type.
type Event uint8

// The events. A rename is never told, because names do not change.
const (
	Register     Event = 0
	Unregister   Event = 1
	NetdevAttach Event = 2
	NetdevDetach Event = 3
)

// DeviceEvent returns the message that a device comes or goes.
func (d *Device) DeviceEvent(e Event) []byte {
	l := d.Handle()
	l.u8(attrEventType, uint8(e))
	return AppendEvent(nil, l)
}

// NetdevEvent returns the message that a port of a device gets or loses its network interface.
func (d *Device) NetdevEvent(e Event, port uint32, n Netdev) []byte {
	l := d.Handle()
	l.u32(AttrPortIndex, port)
	l.netdev(&n)
	l.u8(attrEventType, uint8(e))
	return AppendEvent(nil, l)
}
