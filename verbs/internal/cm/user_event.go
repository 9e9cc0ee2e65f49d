//go:build linux && (amd64 || arm64)

package cm

import "golang.org/x/sys/unix"

// Commands, events and sizes that Linux has got since the headers from which package abi is made
// (rdma/rdma_user_cm.h of Linux 7.3).
const (
	cmdResolveService = 23 // RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE
	cmdWriteEvent     = 24 // RDMA_USER_CM_CMD_WRITE_CM_EVENT

	userEvent     eventKind = 18 // RDMA_CM_EVENT_USER
	internalEvent eventKind = 19 // RDMA_CM_EVENT_INTERNAL

	// struct rdma_ucm_write_cm_event, of whose union only the first 8 bytes have a meaning here.
	writeEventEvent  = 8
	writeEventStatus = 12
	writeEventArg    = 16
	writeEventSize   = 24

	// struct rdma_ucm_resolve_ib_service
	resolveServiceSize = 88
)

// writeEvent serves WRITE_CM_EVENT: a program puts an event into its own channel. rdma_resolve_addrinfo tells
// so that a name is resolved, and rdma_write_cm_event has events of the program's own.
func (m *Manager) writeEvent(c *Call, req []byte) error {
	kind := eventKind(le.Uint32(req[writeEventEvent:]))
	if kind != userEvent && kind != internalEvent {
		return refuse(unix.EINVAL, "WRITE_CM_EVENT: event %d; RDMA_CM_EVENT_USER (%d) and RDMA_CM_EVENT_INTERNAL (%d) can be written",
			kind, userEvent, internalEvent)
	}
	i, err := m.find(c, le.Uint32(req))
	if err != nil {
		return err
	}
	if i.uid == 0 {
		return refuse(unix.EINVAL, "WRITE_CM_EVENT: id %d has not been accepted: the program has not named it yet", i.handle)
	}
	e := newEvent(i, kind, int32(le.Uint32(req[writeEventStatus:])))
	copy(e.param(), req[writeEventArg:][:8])
	if !i.channel.put(e) {
		return refuse(unix.ENOMEM, "WRITE_CM_EVENT: %d events wait to be read, which is the limit, or that of the user's memory is reached", len(i.channel.events))
	}
	return nil
}

// resolveService serves RESOLVE_IB_SERVICE, for rdma_resolve_addrinfo with RAI_SA. Nobody registers services
// with a subnet manager here.
func (m *Manager) resolveService(c *Call, req []byte) error {
	i, err := m.find(c, le.Uint32(req))
	switch {
	case err != nil:
		return err
	case i.state != bound || !i.attached:
		return refuse(unix.EINVAL, "RESOLVE_IB_SERVICE: id %d is %s; it has to be bound to an address of a device", i.handle, i.state)
	}
	return refuse(unix.EOPNOTSUPP, "RESOLVE_IB_SERVICE: no subnet manager keeps names of services; use rdma_resolve_addrinfo with RAI_DNS")
}
