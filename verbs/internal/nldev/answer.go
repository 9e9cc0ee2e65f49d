//go:build linux && (amd64 || arm64)

package nldev

import "golang.org/x/sys/unix"

// Attributes of an acknowledgement.
const attrAckText = 1 // NLMSGERR_ATTR_MSG

// AppendAnswer appends one message of the answer to a request, whose sender has the port id. cmd is the
// command in its type, which is not always the request's. A dump's messages are parts of a whole.
func AppendAnswer(dst []byte, to Header, port uint32, cmd int, dump bool, l List) []byte {
	h := Header{Type: typeOf(cmd), Seq: to.Seq, PID: port}
	if dump {
		h.Flags = flagMulti
	}
	h.Length = HeaderSize + uint32(l.size())
	return l.appendTo(appendHeader(dst, h))
}

// AppendEvent appends a message to monitors.
func AppendEvent(dst []byte, l List) []byte {
	return AppendAnswer(dst, Header{}, 0, CmdMonitor, false, l)
}

func typeOf(cmd int) uint16 { return client<<commandBits | uint16(cmd) }

// An AckStyle is how a socket wants acknowledgements.
type AckStyle struct {
	Capped   bool // NETLINK_CAP_ACK: without the request's attributes
	Extended bool // NETLINK_EXT_ACK: with a text
}

// AppendAck appends the acknowledgement of a request: errno 0 is success. text may be empty.
func AppendAck(dst []byte, to Message, port uint32, style AckStyle, errno unix.Errno, text string) []byte {
	quoted := to.Raw[:HeaderSize]
	h := Header{Type: typeError, Seq: to.Seq, PID: port}
	if errno != 0 && !style.Capped {
		quoted = to.Raw
	} else {
		h.Flags = flagCapped
	}
	var tlvs List
	if style.Extended && text != "" {
		tlvs.text(attrAckText, text)
		h.Flags |= flagTLVs
	}
	size := align(4 + len(quoted))
	h.Length = HeaderSize + uint32(4+len(quoted))
	if len(tlvs) > 0 {
		h.Length = HeaderSize + uint32(size+tlvs.size())
	}
	dst = appendHeader(dst, h)
	dst = append(ne.AppendUint32(dst, uint32(-int32(errno))), quoted...)
	for n := 4 + len(quoted); n < size; n++ {
		dst = append(dst, 0)
	}
	return tlvs.appendTo(dst)
}

// AppendDone appends the end of a dump: errno 0 is success.
func AppendDone(dst []byte, to Header, port uint32, errno unix.Errno) []byte {
	h := Header{Length: HeaderSize + 4, Type: typeDone, Flags: flagMulti, Seq: to.Seq, PID: port}
	return ne.AppendUint32(appendHeader(dst, h), uint32(-int32(errno)))
}

// AppendOverrun appends a message that says that messages were lost. The kernel has an error of the socket
// instead (ENOBUFS), and the shim makes this message one.
func AppendOverrun(dst []byte) []byte {
	return appendHeader(dst, Header{Length: HeaderSize, Type: typeOverrun})
}
