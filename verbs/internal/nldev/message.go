//go:build linux && (amd64 || arm64)

package nldev

import "encoding/binary"

// HeaderSize is the size of struct nlmsghdr.
const HeaderSize = 16

var ne = binary.NativeEndian

// A Header is a struct nlmsghdr.
type Header struct {
	Length uint32
	Type   uint16
	Flags  uint16
	Seq    uint32
	PID    uint32
}

// A Message is a request as it came.
type Message struct {
	Header
	Raw []byte // with its header, without padding
}

// Next splits the first request off a datagram. It reports false if there is none: the kernel ignores
// the rest of a datagram from a wrong length on.
func Next(datagram []byte) (m Message, rest []byte, ok bool) {
	if len(datagram) < HeaderSize {
		return m, nil, false
	}
	m.Header = Header{ne.Uint32(datagram), ne.Uint16(datagram[4:]), ne.Uint16(datagram[6:]),
		ne.Uint32(datagram[8:]), ne.Uint32(datagram[12:])}
	if m.Length < HeaderSize || uint64(m.Length) > uint64(len(datagram)) {
		return m, nil, false
	}
	m.Raw = datagram[:m.Length]
	return m, datagram[min(align(int(m.Length)), len(datagram)):], true
}

// Command returns the command of a request. ok is false if the request is of another client than NLDEV, or
// its command has no number in enum rdma_nldev_command.
func (h Header) Command() (cmd int, ok bool) {
	cmd = int(h.Type & (1<<commandBits - 1))
	return cmd, h.Type>>commandBits == client && cmd < NumCmds
}

// Executes reports whether the message asks for something: it is a request, and no message of netlink itself.
func (h Header) Executes() bool { return h.Flags&FlagRequest != 0 && h.Type >= minType }

func align(n int) int { return (n + 3) &^ 3 }

func appendHeader(dst []byte, h Header) []byte {
	dst = ne.AppendUint32(dst, h.Length)
	dst = ne.AppendUint16(dst, h.Type)
	dst = ne.AppendUint16(dst, h.Flags)
	dst = ne.AppendUint32(dst, h.Seq)
	return ne.AppendUint32(dst, h.PID)
}
