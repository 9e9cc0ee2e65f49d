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
	if err := i.checkState(stepConnect); err != nil {
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
