package control

// Address is the address at which queue pairs of other hosts reach those of this device: an IP
// address as a GID, mapped if it is of IPv4. It is zero if the device has none.
type Address struct {
	GID [16]byte
}

func (m *Address) walk(w walker) { w.bytes("gid", m.GID[:]) }

// Peer says where the peer is with which a queue pair is connected next. A link that leads to
// the device with that GUID is preferred. Else the packets go to the address GID, from the
// device's own (OpAddress). A zero GID means that only the first way is possible.
type Peer struct {
	GUID uint64
	QPN  uint32 // of the client's queue pair
	GID  [16]byte
}

func (m *Peer) walk(w walker) {
	w.u64("guid", &m.GUID)
	w.u32("qpn", &m.QPN)
	w.bytes("gid", m.GID[:])
}
