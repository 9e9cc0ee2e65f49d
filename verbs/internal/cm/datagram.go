//go:build linux && (amd64 || arm64)

package cm

import "github.com/nicless/nicless/verbs/internal/abi"

// Datagram queue pairs have no connection. CONNECT asks for the number of the queue pair that
// serves a service, and ACCEPT answers.

const (
	defaultQKey = 0x01234567 // RDMA_UDP_QKEY
	ipoibQKey   = 0x00000b1b // Q_Key of IPoIB's groups, as OpenSM makes them
	defaultPKey = 0xffff
)

// theQKey returns the key of datagrams for the id.
func (i *id) theQKey() uint32 {
	switch {
	case i.qkey != 0:
		return i.qkey
	case i.local.infiniband() && i.space == abi.CMPSIPOIB:
		return ipoibQKey
	}
	return defaultQKey
}

// acceptDatagram answers a request.
func (l *link) acceptDatagram(p param, ece ECE) error {
	if key := p.qkey(); key != 0 && l.id.src.family == afIB {
		l.id.qkey = key
	}
	msg := &SIDRREP{To: l.peer, Service: l.id.src.service(l.id.space), Status: sidrSuccess,
		QPN: p.qpn() & 0xffffff, QKey: l.id.theQKey(), ECE: ece}
	if err := fill("ACCEPT", msg.Data[:], p.data()); err != nil {
		return err
	}
	l.become(over)
	l.answer = msg
	l.send(msg)
	return nil
}

// gotSIDRREP notifies the program where the service is.
func (l *link) gotSIDRREP(msg Message) {
	r, i := msg.(*SIDRREP), l.id
	l.become(over)
	kind, status := established, int32(0)
	if r.Status != sidrSuccess {
		kind, status = unreachable, int32(r.Status)
	}
	if r.Status == sidrUnsupported {
		i.explain("no program listens for datagrams at %v (service %#x)", &i.dst, i.dst.service(i.space))
	}
	e := newEvent(i, kind, status)
	e.privateData(r.Data[:])
	if r.Status == sidrSuccess {
		i.qkey = r.QKey
		e.datagrams(r.QPN, r.QKey, i.handleAttr(i.remote))
		e.ece(r.ECE)
	}
	i.notify(e)
}

// datagrams puts into an event how to reach a queue pair.
func (e *event) datagrams(qpn, qkey uint32, to []byte) {
	p := e.param()
	le.PutUint32(p[abi.CMUDParamQPNum:], qpn)
	le.PutUint32(p[abi.CMUDParamQKey:], qkey)
	copy(p[abi.CMUDParamAHAttr:], to)
}

// hopLimit is that of every packet on Ethernet (IPv6's default).
const hopLimit = 64

// routing returns the hop limit and the traffic class of the id's path. An InfiniBand path
// inside a subnet passes no router: both are 0, as the subnet manager says.
func (i *id) routing() (hops, class uint8) {
	if i.local.infiniband() {
		return 0, 0
	}
	return hopLimit, i.service
}

// handleAttr returns a struct ib_uverbs_ah_attr: how packets get from the id to a port or a
// group. On InfiniBand, packets to a port have no GRH, because their hop limit is 0
// (ib_init_ah_attr_from_path); those to a group always have one (ib_init_ah_from_mcmember).
func (i *id) handleAttr(to PortAddress) []byte {
	b := make([]byte, abi.AHAttrSize)
	b[abi.AHAttrPortNum] = 1
	le.PutUint16(b[abi.AHAttrDLID:], to.LID)
	if i.local.infiniband() && to.LID < multicastLID {
		return b
	}
	copy(b[abi.AHAttrGRHDGID:], to.GID[:])
	b[abi.AHAttrGRHSGIDIndex] = i.local.Index
	b[abi.GlobalRouteHopLimit], b[abi.GlobalRouteTrafficClass] = i.routing()
	b[abi.AHAttrIsGlobal] = 1
	return b
}
