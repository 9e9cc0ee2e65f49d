//go:build linux && (amd64 || arm64)

package cm

import (
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// A param is a struct rdma_ucm_conn_param.
type param []byte

func (p param) qpn() uint32  { return le.Uint32(p[abi.CMConnParamQPNum:]) }
func (p param) qkey() uint32 { return le.Uint32(p[abi.CMConnParamQKey:]) }
func (p param) data() []byte {
	return p[abi.CMConnParamPrivateData:][:p[abi.CMConnParamPrivateDataLen]]
}

func eceOf(b []byte) ECE {
	return ECE{le.Uint32(b[abi.CMECEVendorID:]), le.Uint32(b[abi.CMECEAttrMod:])}
}

// maxRetry is the highest number of retries that fits into a message.
const maxRetry = 7

// fill copies private data into the field of a message.
func fill(name string, field, data []byte) error {
	if len(data) > len(field) {
		return refuse(unix.EINVAL, "%s: %d bytes of private data; at most %d fit", name, len(data), len(field))
	}
	copy(field, data)
	return nil
}

// connect serves CONNECT. The request is struct rdma_ucm_connect.
func (m *Manager) connect(c *Call, req []byte) error {
	p := param(req[abi.CMConnectConnParam:][:abi.CMConnParamSize])
	if p[abi.CMConnParamValid] == 0 {
		return refuse(unix.EINVAL, "CONNECT: without parameters")
	}
	i, err := m.find(c, le.Uint32(req[abi.CMConnectID:]))
	if err != nil {
		return err
	}
	if err := i.may(stepConnect); err != nil {
		return err
	}
	msg, err := i.requestMessage(p, eceOf(req[abi.CMConnectECE:]))
	if err != nil {
		return err
	}
	i.state = stepConnect.to
	other, ok := i.reach()
	if !ok {
		i.notifyStatus(unreachable, failed(unix.ETIMEDOUT))
		return nil
	}
	l := i.newLink(i.self(), other)
	i.remote = other.PortAddress
	if other.elsewhere() {
		l.tid = uint64(secret())<<32 | uint64(l.number)
		l.answerTime, l.tries = timewait(responseTimeout), maxCMRetries
		l.held = i.hold(l.self, l.other.PortAddress)
	}
	switch msg := msg.(type) {
	case *REQ:
		l.state, msg.From, msg.PSN = reqSent, l.number, l.psn
		msg.MTU, msg.Path = i.mtu(), i.requestPath()
		l.answerTime += 2 * timewait(lifetime) // there and back
		l.qpn = msg.QPN
		l.depth, l.resources, l.mtu, l.timeout = msg.Depth, msg.Resources, msg.MTU, msg.Timeout
		l.retry, l.rnr = msg.Retry, msg.RNR
	case *SIDRREQ:
		l.state, msg.From = sidrSent, l.number
	}
	l.send(msg)
	return nil
}

// self returns the address of this end.
func (i *id) self() Address { return Address{i.program.Namespace, i.local.PortAddress} }

// reach returns the address of the port that the id connects to, and reports whether packets get
// there.
func (i *id) reach() (other Address, ok bool) {
	space, to, ok := i.program.Network.Owner(nameOf(i.dst.family, i.dst.ip()))
	other = Address{space, to}
	switch {
	case !ok:
		i.explain("address %v: no program that uses this engine has it, and no link leads there", i.dst.addr)
	case to.infiniband() != i.local.infiniband():
		i.explain("address %v: one end is a port of InfiniBand and the other one of Ethernet; no packet gets from one to the other", i.dst.addr)
		return other, false
	case other.elsewhere():
		return other, i.findPath(to)
	}
	return other, ok
}

// requestMessage makes the message by which an id asks for a connection. Its private data begins with the
// IP addresses, unless the address family is AF_IB.
func (i *id) requestMessage(p param, ece ECE) (Message, error) {
	service := i.dst.service(i.space)
	header := func(field []byte) []byte {
		if i.src.family == afIB {
			return field
		}
		putIPHeader(field, &i.src, &i.dst)
		return field[ipHeader:]
	}
	if i.datagram() {
		msg := &SIDRREQ{Service: service, PKey: defaultPKey}
		return msg, fill("CONNECT", header(msg.Data[:]), p.data())
	}
	d := &i.m.Devices[i.local.Device]
	msg := &REQ{
		Service: service, QPType: peerType(i.qpType), QPN: p.qpn() & 0xffffff,
		Resources: p[abi.CMConnParamResponderResources], Depth: p[abi.CMConnParamInitiatorDepth],
		FlowControl: p[abi.CMConnParamFlowControl], SRQ: min(p[abi.CMConnParamSRQ], 1),
		Retry: min(p[abi.CMConnParamRetryCount], maxRetry),
		RNR:   min(p[abi.CMConnParamRNRRetryCount], maxRetry), Timeout: i.ackTimeout(d.AckDelay),
		PKey: defaultPKey, ECE: ece, GUID: d.GUID,
		CM: CMTimeouts{responseTimeout, responseTimeout, maxCMRetries},
	}
	return msg, fill("CONNECT", header(msg.Data[:]), p.data())
}

// peerType returns the type of queue pair at the other end.
func peerType(t uint8) uint8 {
	if t == qptXRCSend {
		return qptXRCRecv
	}
	return t
}

// accept serves ACCEPT. The request is struct rdma_ucm_accept. Without parameters, it says
// that the active end is ready.
func (m *Manager) accept(c *Call, req []byte) error {
	p := param(req[abi.CMAcceptConnParam:][:abi.CMConnParamSize])
	i, err := m.find(c, le.Uint32(req[abi.CMAcceptID:]))
	if err != nil {
		return err
	}
	if err := i.may(stepAccept); err != nil {
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

// disconnect serves DISCONNECT. The request is struct rdma_ucm_disconnect. As in the kernel, it
// is no error if there is no connection any more.
func (m *Manager) disconnect(c *Call, req []byte) error {
	i, err := m.find(c, le.Uint32(req[abi.CMDisconnectID:]))
	switch {
	case err != nil:
		return err
	case i.link == nil:
		return refuse(unix.EINVAL, "DISCONNECT: id %d has %v", i.handle, i.link)
	case i.link.state == connected:
		i.link.become(dreqSent)
		i.link.send(i.link.dreq())
	}
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
