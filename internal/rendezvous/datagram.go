package rendezvous

import (
	"encoding/binary"
	"fmt"

	"github.com/nicless/nicless/internal/control"
)

// Size is the size of a management datagram (InfiniBand Architecture Specification, volume 1, 13.4.2).
const Size = 256

// A Datagram is a message between two engines.
type Datagram struct {
	Device   uint64 // GUID of the engine that sends
	From, To uint64 // numbers of boxes; To 0: the value begins with a name
	Sender   uint32 // one more than the uid of the user who sends; 0: not said, as by older engines
	Value    string
}

// The form: the common header of management datagrams, of a class of the second range for vendors (13.4.4,
// 16.5), whose OUI is of no vendor, because its second-lowest bit says that it is assigned locally; then a
// version, the length of the value, and the numbers, big-endian as all of the header.
//
//	0   base version 1, class, class version 1, method Send (3)
//	4   zeros, 32 bytes: status, transaction, attribute, and the header of RMPP, which is not used
//	36  0, and the OUI, 3 bytes
//	40  version 1, 2 bytes; length of the value, 2 bytes; Sender, 4 bytes
//	48  Device; 56 To; 64 From
//	72  value, and zeros
const (
	class   = 0x3d
	version = 1
	valueAt = 72
)

var begins = [4]byte{1, class, 1, 3}
var oui = [4]byte{0, 0x02, 'n', 'l'}

// Is reports whether a management datagram is of the class and the OUI of these.
func Is(b []byte) bool { return len(b) == Size && b[1] == class && [4]byte(b[36:]) == oui }

// Put returns the form of d. The value has at most control.MaxMessageValue bytes.
func (d *Datagram) Put() (b [Size]byte) {
	copy(b[:], begins[:])
	copy(b[36:], oui[:])
	be := binary.BigEndian
	be.PutUint16(b[40:], version)
	be.PutUint16(b[42:], uint16(len(d.Value)))
	be.PutUint32(b[44:], d.Sender)
	be.PutUint64(b[48:], d.Device)
	be.PutUint64(b[56:], d.To)
	be.PutUint64(b[64:], d.From)
	copy(b[valueAt:], d.Value)
	return b
}

// ParseDatagram reads a datagram for which Is holds.
func ParseDatagram(b *[Size]byte) (d Datagram, err error) {
	be := binary.BigEndian
	n := int(be.Uint16(b[42:]))
	d = Datagram{Device: be.Uint64(b[48:]), To: be.Uint64(b[56:]), From: be.Uint64(b[64:]),
		Sender: be.Uint32(b[44:])}
	v := be.Uint16(b[40:])
	switch {
	case [4]byte(b[:]) != begins || v != version:
		return Datagram{}, fmt.Errorf("message of version %d that begins with %x; version %d and %x are known", v, b[:4], version, begins)
	case n > control.MaxMessageValue:
		return Datagram{}, fmt.Errorf("message of %d bytes; at most %d are possible", n, control.MaxMessageValue)
	case d.Device == 0 || d.From == 0:
		return Datagram{}, fmt.Errorf("message from box %d of engine %d; neither is 0", d.From, d.Device)
	}
	d.Value = string(b[valueAt:][:n])
	return d, nil
}
