//go:build linux && (amd64 || arm64)

package cm

import "fmt"

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
	TID      uint64 // transaction id, which matters on a wire only
	Message  Message
}

// A Message is one of the types below.
type Message interface {
	kind() messageKind
	from() linkNumber // the link of the sender; 0: it has none, or the message does not say
	to() linkNumber   // the link of the receiver; 0: it has none yet
	put(b *MAD)       // writes the message, but not the header
	parse(b *MAD)
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
	kindMRA
)

// An ECE describes the senders' libraries (enhanced connection establishment). It is passed on.
type ECE struct{ Vendor, Options uint32 }

// Bytes of private data in each message, and of the IP header in that of requests.
const (
	reqData     = 92
	repData     = 196
	rejData     = 148
	sidrReqData = 216
	sidrRepData = 136
	ipHeader    = 36
	rejInfo     = 72 // bytes of additional information in a REJ
)

// A REQ asks for a connection.
type REQ struct {
	From         linkNumber
	Service      uint64
	GUID         uint64 // GUID of the sender's device
	QPType       uint8  // type of the receiver's queue pair; 0: this package does not know the type
	QPN          uint32
	PSN          uint32 // first PSN of packets from the receiver of the REQ
	Resources    uint8  // responder resources of the sender
	Depth        uint8  // initiator depth of the sender
	FlowControl  uint8
	Retry, RNR   uint8
	SRQ          uint8
	MTU, Timeout uint8 // of acknowledgements
	PKey         uint16
	ECE          ECE
	CM           CMTimeouts
	Path         RequestPath
	Data         [reqData]byte
}

// CMTimeouts are how long connection managers wait for each other: times are 4.096 µs times a
// power of 2.
type CMTimeouts struct {
	Remote  uint8 // in which the receiver answers a REQ
	Local   uint8 // in which the sender answers a REP
	Retries uint8 // how often a message that is not answered is sent again
}

// A RequestPath is the path of a connection, as the sender of a REQ sees it.
type RequestPath struct {
	LocalLID, RemoteLID uint16 // 0xffff (permissive) between subnets, and on Ethernet
	LocalGID, RemoteGID GID
	FlowLabel           uint32
	Rate                uint8
	TrafficClass        uint8
	HopLimit            uint8
	SL                  uint8
	SubnetLocal         bool
}

// A REP accepts a REQ.
type REP struct {
	From, To    linkNumber
	GUID        uint64
	QPN         uint32 // 0 if the queue pair is an XRC target
	EECN        uint32 // the number of an XRC target (its field is that of EE contexts)
	PSN         uint32 // first PSN of packets from the receiver of the REP
	Resources   uint8
	Depth       uint8
	AckDelay    uint8 // of the sender's device
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
	Refused  refusedMessage
	Reason   rejectReason
	InfoSize uint8 // bytes of Info that mean something
	Info     [rejInfo]byte
	Data     [rejData]byte
}

// A DREQ ends a connection, and a DREP confirms that.
type (
	DREQ struct {
		From, To linkNumber
		QPN      uint32 // of the receiver
	}
	DREP struct{ From, To linkNumber }
)

// An MRA says that the program has a REQ or a REP, and needs time for the answer.
type MRA struct {
	From, To linkNumber
	Received refusedMessage
	Timeout  uint8 // 4.096 µs times a power of 2
}

// A SIDRREQ asks for the queue pair of a service for datagrams.
type SIDRREQ struct {
	From    linkNumber
	Service uint64
	PKey    uint16
	Data    [sidrReqData]byte
}

// A SIDRREP answers a SIDRREQ.
type SIDRREP struct {
	To        linkNumber
	Service   uint64
	Status    sidrStatus
	QPN, QKey uint32
	ECE       ECE
	Data      [sidrRepData]byte
}

// A refusedMessage is the message that a REJ or an MRA is about: enum cm_msg_response.
type refusedMessage uint8

const (
	aboutREQ   refusedMessage = 0
	aboutREP   refusedMessage = 1
	aboutOther refusedMessage = 2
)

// A rejectReason says why: enum ib_cm_rej_reason.
type rejectReason uint16

const (
	rejTimeout   rejectReason = 4
	rejNumber    rejectReason = 6 // no link has the number (invalid communication ID)
	rejService   rejectReason = 8
	rejTransport rejectReason = 9
	rejStale     rejectReason = 10
	rejGID       rejectReason = 12
	rejMTU       rejectReason = 26
	rejConsumer  rejectReason = 28
	rejVendor    rejectReason = 35
)

var rejectReasons = map[rejectReason]string{
	1: "it has no queue pair for it", 3: "it lacks resources", rejTimeout: "it has not got an answer in time",
	5: "it does not support it", rejNumber: "it does not know the connection",
	rejService: "no program listens there", rejTransport: "it does not know the type of the queue pair",
	rejStale: "it has an older connection of the same queue pair",
	rejGID:   "it cannot reach the address in the request", 13: "invalid LID", rejMTU: "its MTU is smaller",
	27: "it has not got as many responder resources", rejConsumer: "its program rejects it",
	rejVendor: "vendor's option",
}

func (r rejectReason) String() string {
	if s := rejectReasons[r]; s != "" {
		return s
	}
	return fmt.Sprintf("reason %d", uint16(r))
}

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
func (*MRA) kind() messageKind     { return kindMRA }

func (m *REQ) from() linkNumber     { return m.From }
func (m *REP) from() linkNumber     { return m.From }
func (m *RTU) from() linkNumber     { return m.From }
func (m *REJ) from() linkNumber     { return m.From }
func (m *DREQ) from() linkNumber    { return m.From }
func (m *DREP) from() linkNumber    { return m.From }
func (m *SIDRREQ) from() linkNumber { return m.From }
func (*SIDRREP) from() linkNumber   { return 0 }
func (m *MRA) from() linkNumber     { return m.From }

func (*REQ) to() linkNumber       { return 0 }
func (m *REP) to() linkNumber     { return m.To }
func (m *RTU) to() linkNumber     { return m.To }
func (m *REJ) to() linkNumber     { return m.To }
func (m *DREQ) to() linkNumber    { return m.To }
func (m *DREP) to() linkNumber    { return m.To }
func (*SIDRREQ) to() linkNumber   { return 0 }
func (m *SIDRREP) to() linkNumber { return m.To }
func (m *MRA) to() linkNumber     { return m.To }
