package cm

import "github.com/nicless/nicless/verbs/internal/abi"

// Datagram queue pairs have no connection. CONNECT asks for the number of the queue pair that
// serves a service, and ACCEPT answers.

const (
	defaultQKey = 0x01234567 // RDMA_UDP_QKEY
	defaultPKey = 0xffff
)

// theQKey returns the key of datagrams for the id.
func (i *id) theQKey() uint32 {
	if i.qkey == 0 {
		return defaultQKey
	}
	return i.qkey
}

// acceptDatagram answers a request.
func (l *link) acceptDatagram(p param, ece ECE) error {
	if key := p.qkey(); key != 0 && l.id.src.family == afIB {
		l.id.qkey = key
	}
	msg := &SIDRREP{To: l.peer, Status: sidrSuccess, QPN: p.qpn() & 0xffffff, QKey: l.id.theQKey(), ECE: ece}
	if err := fill("ACCEPT", msg.Data[:], p.data()); err != nil {
		return err
	}
	l.state = over
	l.send(msg)
	return nil
}

// gotSIDRREP tells the program where the service is.
func (l *link) gotSIDRREP(msg Message) {
	r, i := msg.(*SIDRREP), l.id
	l.state = over
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
	i.tell(e)
}

// datagrams puts into an event how to reach a queue pair.
func (e *event) datagrams(qpn, qkey uint32, to []byte) {
	p := e.param()
	le.PutUint32(p[abi.CMUDParamQPNum:], qpn)
	le.PutUint32(p[abi.CMUDParamQKey:], qkey)
	copy(p[abi.CMUDParamAHAttr:], to)
}

// hopLimit is that of every packet (IPv6's default).
const hopLimit = 64

// handleAttr returns a struct ib_uverbs_ah_attr: how packets get from the id to a GID.
func (i *id) handleAttr(to GID) []byte {
	b := make([]byte, abi.AHAttrSize)
	copy(b[abi.AHAttrGRHDGID:], to[:])
	b[abi.AHAttrGRHSGIDIndex] = i.local.Index
	b[abi.GlobalRouteHopLimit] = hopLimit
	b[abi.GlobalRouteTrafficClass] = i.service
	b[abi.AHAttrIsGlobal], b[abi.AHAttrPortNum] = 1, 1
	return b
}
