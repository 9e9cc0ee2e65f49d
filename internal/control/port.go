package control

// States of a port: those of the InfiniBand specification's PortInfo that this device has.
const (
	PortDown   uint8 = 1
	PortActive uint8 = 4
)

// A Port is the state of the client's port.
type Port struct {
	State   uint8
	Changes uint32   // how often the GID has changed
	GID     [16]byte // the GID of the client's datagrams, if the client has no table of GIDs
}

func (m *Port) walk(w walker) {
	w.u8("state", &m.State)
	w.u32("changes", &m.Changes)
	w.bytes("gid", m.GID[:])
}
