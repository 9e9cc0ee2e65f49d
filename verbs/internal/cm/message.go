//go:build linux && (amd64 || arm64)

package cm

import "net/netip"

// The messages of connection managers: InfiniBand Architecture Specification, volume 1,
// section 12.6 to 12.12, and annex A11 for the IP addresses in private data. They are values:
// nothing in them refers to this process.

// A linkNumber identifies a link at its own end (Communication ID).
type linkNumber uint32

// An Address is one end of a message: a port, in a network namespace. The namespace is not sent
// on a wire: the receiver finds it from the GID or, on InfiniBand, from the IP addresses in the
// private data of a request.
type Address struct {
	Namespace Namespace
	PortAddress
}

// A Packet is a message on its way.
type Packet struct {
	From, To Address
	Message  Message
}

// A Message is one of the types below.
type Message interface {
	kind() messageKind
	to() linkNumber // the link of the receiver; 0: it has none yet
}

type messageKind uint8

const (
	kindREQ messageKind = iota
	kindREP
	kindRTU
	kindREJ
	kindDREQ
	kindDREP
	kindSIDRREQ
	kindSIDRREP
)

// An ECE is what the senders' libraries say about themselves (enhanced connection
// establishment). It is passed on.
type ECE struct{ Vendor, Options uint32 }

// Bytes of private data in each message, and of the IP header in that of requests.
const (
	reqData     = 92
	repData     = 196
	rejData     = 148
	sidrReqData = 216
	sidrRepData = 136
	ipHeader    = 36
)

// A REQ asks for a connection.
type REQ struct {
	From         linkNumber
	Service      uint64
	QPType       uint8 // of the receiver's queue pair
	QPN, PSN     uint32
	Resources    uint8 // responder resources of the sender
	Depth        uint8 // initiator depth of the sender
	FlowControl  uint8
	Retry, RNR   uint8
	SRQ          uint8
	MTU, Timeout uint8
	TrafficClass uint8
	ECE          ECE
	Data         [reqData]byte
}

// A REP accepts a REQ.
type REP struct {
	From, To    linkNumber
	QPN, PSN    uint32
	Resources   uint8
	Depth       uint8
	FlowControl uint8
	RNR, SRQ    uint8
	ECE         ECE
	Data        [repData]byte
}

// An RTU says that the sender is ready to use the connection.
type RTU struct{ From, To linkNumber }

// A REJ refuses a REQ or a REP.
type REJ struct {
	From, To linkNumber
	Reason   rejectReason
	Data     [rejData]byte
}

// A DREQ ends a connection, and a DREP confirms that.
type (
	DREQ struct{ From, To linkNumber }
	DREP struct{ From, To linkNumber }
)

// A SIDRREQ asks for the queue pair of a service for datagrams.
type SIDRREQ struct {
	From    linkNumber
	Service uint64
	Data    [sidrReqData]byte
}

// A SIDRREP answers a SIDRREQ.
type SIDRREP struct {
	To        linkNumber
	Status    sidrStatus
	QPN, QKey uint32
	ECE       ECE
	Data      [sidrRepData]byte
}

// A rejectReason says why: enum ib_cm_rej_reason.
type rejectReason uint16

const (
	rejTimeout  rejectReason = 4
	rejService  rejectReason = 8
	rejConsumer rejectReason = 28
	rejVendor   rejectReason = 35
)

// A sidrStatus is enum ib_cm_sidr_status.
type sidrStatus uint8

const (
	sidrSuccess     sidrStatus = 0
	sidrUnsupported sidrStatus = 1
	sidrReject      sidrStatus = 2
)

func (*REQ) kind() messageKind     { return kindREQ }
func (*REP) kind() messageKind     { return kindREP }
func (*RTU) kind() messageKind     { return kindRTU }
func (*REJ) kind() messageKind     { return kindREJ }
func (*DREQ) kind() messageKind    { return kindDREQ }
func (*DREP) kind() messageKind    { return kindDREP }
func (*SIDRREQ) kind() messageKind { return kindSIDRREQ }
func (*SIDRREP) kind() messageKind { return kindSIDRREP }

func (*REQ) to() linkNumber       { return 0 }
func (m *REP) to() linkNumber     { return m.To }
func (m *RTU) to() linkNumber     { return m.To }
func (m *REJ) to() linkNumber     { return m.To }
func (m *DREQ) to() linkNumber    { return m.To }
func (m *DREP) to() linkNumber    { return m.To }
func (*SIDRREQ) to() linkNumber   { return 0 }
func (m *SIDRREP) to() linkNumber { return m.To }

// putIPHeader writes the header by which a request for an IP service begins (struct cma_hdr).
func putIPHeader(b []byte, src, dst *sockaddr) {
	b[1] = 6 << 4
	if src.family == afINET {
		b[1] = 4 << 4
	}
	be.PutUint16(b[2:], src.port)
	put := func(b []byte, a *sockaddr) {
		ip := a.addr.As16()
		if a.family == afINET {
			ip = [16]byte{12: ip[12], 13: ip[13], 14: ip[14], 15: ip[15]}
		}
		copy(b, ip[:])
	}
	put(b[4:], src)
	put(b[20:], dst)
}

// parseIPHeader returns the addresses of the sender and of the receiver, whose port is that
// of the service. The family of both is 0 if there is no such header.
func parseIPHeader(b []byte, service uint64) (src, dst sockaddr) {
	var at = 4
	switch b[1] >> 4 {
	case 4:
		src.family, at = afINET, 16
		src.addr, dst.addr = netip.AddrFrom4([4]byte(b[at:])), netip.AddrFrom4([4]byte(b[at+16:]))
	case 6:
		src.family = afINET6
		src.addr, dst.addr = netip.AddrFrom16([16]byte(b[at:])), netip.AddrFrom16([16]byte(b[at+16:]))
	default:
		return src, dst
	}
	dst.family = src.family
	src.port, dst.port = be.Uint16(b[2:]), uint16(service)
	return src, dst
}
