package control

import "fmt"

// EventKind is the kind of an Event. The numbers below 0x100 are those of
// mlx5's event queue entries.
type EventKind uint32

const (
	EventEstablished    EventKind = 0x02 // a QP in RTR received its first message
	EventDrained        EventKind = 0x03 // the send queue of a QP in SQD has stopped
	EventCQError        EventKind = 0x04 // a CQ overran; the device writes no more completions into it
	EventQPFatal        EventKind = 0x05 // the ring of a QP cannot be read; the QP is in ERR
	EventInvalidRequest EventKind = 0x10 // a peer's request is not allowed; the QP is in ERR
	EventAccessError    EventKind = 0x11 // a peer named memory that it may not access; the QP is in ERR
	EventSRQError       EventKind = 0x12 // the ring of an SRQ cannot be read; its QPs are in ERR
	EventLastWQE        EventKind = 0x13 // a QP in ERR takes no more receives from its SRQ
	EventSRQLimit       EventKind = 0x14 // an SRQ has fewer entries than its limit, which is off now
	EventExplanation    EventKind = 0x100
	EventAnnouncements  EventKind = 0x101 // others' announcements have changed since the last read
	EventPortError      EventKind = 0x102 // the port is down
	EventPortActive     EventKind = 0x103 // the port is up again
	EventGIDChange      EventKind = 0x104 // the port has another GID
	EventLIDChange      EventKind = 0x105 // the subnet manager has given the port a LID
	EventPKeyChange     EventKind = 0x106 // the subnet manager has written the port's P_Keys
	EventSMChange       EventKind = 0x107 // another subnet manager is the master
	EventReregister     EventKind = 0x108 // the subnet manager asks for registrations again
	EventMessages       EventKind = 0x109 // messages wait in the client's box
)

// String returns the kind's name in docs/CONTROL.md.
func (k EventKind) String() string {
	switch k {
	case EventEstablished:
		return "established"
	case EventDrained:
		return "sq_drained"
	case EventCQError:
		return "cq_error"
	case EventQPFatal:
		return "qp_fatal"
	case EventInvalidRequest:
		return "invalid_request"
	case EventAccessError:
		return "access_error"
	case EventSRQError:
		return "srq_error"
	case EventLastWQE:
		return "last_wqe"
	case EventSRQLimit:
		return "srq_limit"
	case EventExplanation:
		return "explanation"
	case EventAnnouncements:
		return "announcements"
	case EventPortError:
		return "port_error"
	case EventPortActive:
		return "port_active"
	case EventGIDChange:
		return "gid_change"
	case EventLIDChange:
		return "lid_change"
	case EventPKeyChange:
		return "pkey_change"
	case EventSMChange:
		return "sm_change"
	case EventReregister:
		return "client_reregister"
	case EventMessages:
		return "messages"
	}
	return fmt.Sprintf("event %#x", uint32(k))
}

// An Event is one datagram that the event descriptor yields. It says that something happened to an
// object. An event of kind EventExplanation says in words what the client did wrong.
type Event struct {
	Kind   EventKind
	Number uint32 // number of the QP, CQ, SRQ or port; 0: the event is about no object

	// The following fields are for explanations. Code is stable and names the kind of
	// fault; see docs/EXPLANATIONS.md. WQE is the device's copy of the WQE's first
	// block, if the explanation is about a WQE. Suppressed counts explanations of this code
	// that were held back since the last one that was sent.
	Index      uint16 // index of the WQE or receive
	HasWQE     uint8
	Of         uint8 // the kind of Index: OfWQE, OfReceive, OfCompletion
	Suppressed uint32
	Code       [24]byte // padded with zeros
	WQE        [64]byte
	Text       string
}

// Kinds of index in an explanation.
const (
	OfWQE        = 0
	OfReceive    = 1
	OfCompletion = 2
)

func (m *Event) walk(w walker) {
	w.u32("kind", (*uint32)(&m.Kind))
	w.u32("number", &m.Number)
	w.u16("index", &m.Index)
	w.u8("has_wqe", &m.HasWQE)
	w.u8("of", &m.Of)
	w.u32("unsaid", &m.Suppressed)
	w.bytes("code", m.Code[:])
	w.bytes("wqe", m.WQE[:])
	w.text("text", &m.Text)
}
