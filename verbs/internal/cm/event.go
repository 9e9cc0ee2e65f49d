//go:build linux && (amd64 || arm64)

package cm

import (
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// An eventKind is the number of an event: enum rdma_cm_event_type of rdma/rdma_cma.h.
type eventKind uint32

const (
	addrResolved    eventKind = 0
	addrError       eventKind = 1
	routeResolved   eventKind = 2
	routeError      eventKind = 3
	connectRequest  eventKind = 4
	connectResponse eventKind = 5
	unreachable     eventKind = 7
	rejected        eventKind = 8
	established     eventKind = 9
	disconnected    eventKind = 10
	deviceRemoval   eventKind = 11
	multicastJoin   eventKind = 12
	multicastError  eventKind = 13
	timewaitExit    eventKind = 15
)

var eventNames = map[eventKind]string{
	addrResolved: "ADDR_RESOLVED", addrError: "ADDR_ERROR", routeResolved: "ROUTE_RESOLVED",
	routeError: "ROUTE_ERROR", connectRequest: "CONNECT_REQUEST", connectResponse: "CONNECT_RESPONSE",
	unreachable: "UNREACHABLE", rejected: "REJECTED", established: "ESTABLISHED",
	disconnected: "DISCONNECTED", deviceRemoval: "DEVICE_REMOVAL", multicastJoin: "MULTICAST_JOIN",
	multicastError: "MULTICAST_ERROR", timewaitExit: "TIMEWAIT_EXIT",
	userEvent: "USER", internalEvent: "INTERNAL",
}

// An event waits in a channel.
type event struct {
	kind   eventKind
	id     *id    // the id that counts the event as read
	newID  *id    // the new id that a connectRequest is about; nil for other events
	group  *group // the group that also counts the event; nil: none
	record []byte // struct rdma_ucm_event_resp
}

// newEvent returns an event of an id with the number that the program has given to the id.
func newEvent(i *id, kind eventKind, status int32) *event {
	e := &event{kind: kind, id: i, record: make([]byte, abi.CMEventRespSize)}
	e.name(i.uid, i.handle)
	le.PutUint32(e.record[abi.CMEventRespEvent:], uint32(kind))
	le.PutUint32(e.record[abi.CMEventRespStatus:], uint32(status))
	return e
}

// name sets the receiver of the event.
func (e *event) name(uid uint64, handle uint32) {
	le.PutUint64(e.record[abi.CMEventRespUID:], uid)
	le.PutUint32(e.record[abi.CMEventRespID:], handle)
}

func (e *event) param() []byte { return e.record[abi.CMEventRespParam:] }

// privateData puts the private data of a message into the event. field is the whole field of
// the message: the program gets the size of the field, not how much of it the sender used.
func (e *event) privateData(field []byte) {
	at, length := abi.CMConnParamPrivateData, abi.CMConnParamPrivateDataLen
	if e.id.datagram() {
		at, length = abi.CMUDParamPrivateData, abi.CMUDParamPrivateDataLen
	}
	copy(e.param()[at:], field)
	e.param()[length] = byte(len(field))
}

func (e *event) ece(v ECE) {
	le.PutUint32(e.record[abi.CMEventRespECE+abi.CMECEVendorID:], v.Vendor)
	le.PutUint32(e.record[abi.CMEventRespECE+abi.CMECEAttrMod:], v.Options)
}

// read counts the event as read by the program.
func (e *event) read() {
	e.id.reported++
	if e.kind == connectRequest {
		e.id.backlog++
		e.id.readRequest(e.newID)
	}
	if e.group != nil {
		e.group.reported++
	}
}

// notify queues an event of an id. An id to which the program has not given a number yet is not
// known to it: its events are dropped.
func (i *id) notify(e *event) {
	if i.uid != 0 || e.group != nil {
		i.channel.put(e)
	}
}

func (i *id) notifyStatus(kind eventKind, status int32) { i.notify(newEvent(i, kind, status)) }

// failed is the status of an event for an error number.
func failed(errno unix.Errno) int32 { return -int32(errno) }
