package control

// MaxMessageValue is the most bytes of a message between clients: with its head and that of the datagram
// which carries it over a link (256 bytes, a management datagram) it is one datagram.
const MaxMessageValue = 184

// Box is the number of a client's box: others send messages to it. It is chosen at random, and no client
// learns it whom nobody tells it.
type Box struct {
	Number uint64 // not 0
}

func (m *Box) walk(w walker) { w.u64("number", &m.Number) }

// BoxMessage is a message to a box of a client, or one from it. The box is of the device with that GUID; if
// no link leads there by the GUID, the message goes to the address GID. In a message to Device 0, Box may be
// 0: then the value begins with the name of the client that is meant. A message that a client reads has
// Number 0 if there is none.
type BoxMessage struct {
	Device uint64
	Number uint64
	GID    [16]byte // IP address, mapped if it is of IPv4; zero: none
	Value  string
}

func (m *BoxMessage) walk(w walker) {
	w.u64("device", &m.Device)
	w.u64("number", &m.Number)
	w.bytes("gid", m.GID[:])
	w.text("value", &m.Value)
}
