//go:build linux && (amd64 || arm64)

package cm

import (
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// accept serves ACCEPT. The request is struct rdma_ucm_accept. Without parameters, it says
// that the active end is ready.
func (m *Manager) accept(c *Call, req []byte) error {
	p := param(req[abi.CMAcceptConnParam:][:abi.CMConnParamSize])
	i, err := m.find(c, le.Uint32(req[abi.CMAcceptID:]))
	if err != nil {
		return err
	}
	if err := i.checkState(stepAccept); err != nil {
		return err
	}
	valid := p[abi.CMConnParamValid] != 0
	l := i.link
	switch {
	case l != nil && l.state == repReceived && !valid:
		l.become(connected)
		l.send(&RTU{l.number, l.peer})
		return nil
	case l != nil && l.state == sidrRequested:
		err = l.acceptDatagram(p, eceOf(req[abi.CMAcceptECE:]))
	case l != nil && l.state == requested && valid:
		err = l.accept(p, eceOf(req[abi.CMAcceptECE:]))
	default:
		return refuse(unix.EINVAL, "ACCEPT: id %d has %v; there is nothing to accept", i.handle, l)
	}
	if err != nil {
		l.reject(rejConsumer, nil) // as the kernel does
		return err
	}
	if valid {
		i.uid = le.Uint64(req[abi.CMAcceptUID:])
	}
	return nil
}

func (l *link) accept(p param, ece ECE) error {
	msg := &REP{
		From: l.number, To: l.peer, QPN: p.qpn() & 0xffffff, PSN: l.psn,
		Resources: p[abi.CMConnParamResponderResources], Depth: p[abi.CMConnParamInitiatorDepth],
		FlowControl: p[abi.CMConnParamFlowControl], RNR: min(p[abi.CMConnParamRNRRetryCount], maxRetry),
		SRQ: min(p[abi.CMConnParamSRQ], 1), ECE: ece,
	}
	d := &l.id.m.Devices[l.id.local.Device]
	msg.GUID, msg.AckDelay = d.GUID, d.AckDelay
	if l.id.qpType == qptXRCRecv {
		msg.QPN, msg.EECN, msg.SRQ = 0, msg.QPN, 1
	}
	if err := fill("ACCEPT", msg.Data[:], p.data()); err != nil {
		return err
	}
	l.qpn, l.depth, l.resources = p.qpn()&0xffffff, msg.Depth, msg.Resources
	l.become(repSent)
	l.send(msg)
	return nil
}

// reject serves REJECT. The request is struct rdma_ucm_reject.
func (m *Manager) reject(c *Call, req []byte) error {
	reason := rejectReason(req[abi.CMRejectReason])
	switch reason {
	case 0:
		reason = rejConsumer
	case rejConsumer, rejVendor:
	default:
		return refuse(unix.EINVAL, "REJECT: reason %d", reason)
	}
	i, err := m.find(c, le.Uint32(req[abi.CMRejectID:]))
	if err != nil {
		return err
	}
	if i.link == nil {
		return refuse(unix.EINVAL, "REJECT: id %d has %v; there is nothing to reject", i.handle, i.link)
	}
	return i.link.reject(reason, req[abi.CMRejectPrivateData:][:req[abi.CMRejectPrivateDataLen]])
}

// rej returns the message that refuses the link's last message.
func (l *link) rej(reason rejectReason) *REJ {
	msg := &REJ{From: l.number, To: l.peer, Refused: aboutOther, Reason: reason}
	switch l.state {
	case requested:
		msg.Refused = aboutREQ
	case repReceived:
		msg.Refused = aboutREP
	}
	return msg
}

// reject ends a link whose request or answer the program does not want.
func (l *link) reject(reason rejectReason, data []byte) error {
	if l.state == sidrRequested {
		msg := &SIDRREP{To: l.peer, Service: l.id.src.service(l.id.space), Status: sidrReject}
		if err := fill("REJECT", msg.Data[:], data); err != nil {
			return err
		}
		l.become(over)
		l.answer = msg
		l.send(msg)
		return nil
	}
	msg := l.rej(reason)
	if err := fill("REJECT", msg.Data[:], data); err != nil {
		return err
	}
	switch l.state {
	case reqSent, repReceived, requested:
		l.become(over)
	case repSent:
		l.startTimewait()
	default:
		return refuse(unix.EINVAL, "REJECT: id %d has %v", l.id.handle, l)
	}
	l.answer = msg
	l.send(msg)
	return nil
}

// commEstablished is the only event that a program may notify: IB_EVENT_COMM_EST.
const commEstablished = 4

// notify serves NOTIFY: the program says that data has arrived on a connection, which is as good
// as an RTU. The request is struct rdma_ucm_notify.
func (m *Manager) notify(c *Call, req []byte) error {
	i, err := m.find(c, le.Uint32(req[abi.CMNotifyID:]))
	if err != nil {
		return err
	}
	event := le.Uint32(req[abi.CMNotifyEvent:])
	l := i.link
	switch {
	case l == nil || event != commEstablished:
		return refuse(unix.EINVAL, "NOTIFY: event %d; id %d has %v", event, i.handle, l)
	case l.state == connected:
		return expected(unix.EISCONN, "NOTIFY: id %d is connected already", i.handle)
	case l.state != repSent:
		return refuse(unix.EINVAL, "NOTIFY: id %d has %v", i.handle, l)
	default:
		l.establish()
	}
	return nil
}
