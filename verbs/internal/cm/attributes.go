//go:build linux && (amd64 || arm64)

package cm

import (
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// Bits of the mask that says which attributes of a queue pair are meant: enum ib_qp_attr_mask.
const (
	hasState     = 1 << 0
	hasAccess    = 1 << 3
	hasPKey      = 1 << 4
	hasPort      = 1 << 5
	hasQKey      = 1 << 6
	hasAddress   = 1 << 7
	hasMTU       = 1 << 8
	hasTimeout   = 1 << 9
	hasRetry     = 1 << 10
	hasRNRRetry  = 1 << 11
	hasRQPSN     = 1 << 12
	hasDepth     = 1 << 13
	hasRNRTimer  = 1 << 15
	hasSQPSN     = 1 << 16
	hasResources = 1 << 17
	hasPeer      = 1 << 20
)

// States of queue pairs: enum ib_qp_state.
const (
	qpInit = 1
	qpRTR  = 2
	qpRTS  = 3
	qpErr  = 6
)

// initQPAttr serves INIT_QP_ATTR: with which attributes the program's queue pair goes to a
// state. The request is struct rdma_ucm_init_qp_attr, the response struct ib_uverbs_qp_attr.
func (m *Manager) initQPAttr(c *Call, req []byte) error {
	state := le.Uint32(req[abi.CMInitQPAttrQPState:])
	if state > qpErr {
		return refuse(unix.EINVAL, "INIT_QP_ATTR: state %d", state)
	}
	i, err := m.find(c, le.Uint32(req[abi.CMInitQPAttrID:]))
	switch {
	case err != nil:
		return err
	case !i.attached:
		return refuse(unix.EINVAL, "INIT_QP_ATTR: id %d is bound to no device", i.handle)
	}
	b := make([]byte, abi.UQPAttrSize)
	mask, err := i.attributes(b, state)
	if err != nil {
		return err
	}
	le.PutUint32(b[abi.UQPAttrQPAttrMask:], mask|hasState)
	le.PutUint32(b[abi.UQPAttrQPState:], state)
	c.respond(le.Uint64(req[abi.CMInitQPAttrResponse:]), b)
	return nil
}

// attributes writes the attributes for a state, and returns which ones they are.
func (i *id) attributes(b []byte, state uint32) (mask uint32, err error) {
	l := i.link
	reliable := i.qpType == qptRC || i.qpType == qptXRCSend || i.qpType == qptXRCRecv
	switch state {
	case qpInit:
		return i.initial(b), nil
	case qpRTR:
		if i.datagram() || l == nil || !l.hasPeer() {
			break
		}
		mask = hasAddress | hasMTU | hasPeer | hasRQPSN
		copy(b[abi.UQPAttrAHAttr:], i.handleAttr(i.remote))
		le.PutUint32(b[abi.UQPAttrPathMTU:], uint32(l.mtu))
		le.PutUint32(b[abi.UQPAttrDestQPNum:], l.peerQPN)
		le.PutUint32(b[abi.UQPAttrRQPSN:], l.psn)
		if reliable && i.qpType != qptXRCSend {
			mask |= hasResources | hasRNRTimer
			b[abi.UQPAttrMaxDestRDAtomic] = l.resources
		}
		return mask, nil
	case qpRTS:
		if i.datagram() || l == nil || !l.hasPeer() {
			break
		}
		mask = hasSQPSN
		le.PutUint32(b[abi.UQPAttrSQPSN:], l.peerPSN)
		if reliable {
			mask |= hasTimeout
			b[abi.UQPAttrTimeout] = l.timeout
		}
		if reliable && i.qpType != qptXRCRecv {
			mask |= hasRetry | hasRNRRetry | hasDepth
			b[abi.UQPAttrRetryCnt], b[abi.UQPAttrRNRRetry], b[abi.UQPAttrMaxRDAtomic] = l.retry, l.rnr,
				l.depth
		}
		return mask, nil
	}
	return 0, refuse(unix.EINVAL, "INIT_QP_ATTR: state %d; id %d has %v", state, i.handle, l)
}

// initial writes the attributes for the state INIT.
func (i *id) initial(b []byte) (mask uint32) {
	b[abi.UQPAttrPortNum] = 1
	mask = hasPKey | hasPort
	if i.datagram() {
		le.PutUint32(b[abi.UQPAttrQKey:], i.theQKey())
		return mask | hasQKey
	}
	access := uint32(0)
	if l := i.link; l != nil {
		access = abi.AccessRemoteWrite
		if l.resources > 0 {
			access |= abi.AccessRemoteRead | abi.AccessRemoteAtomic
		}
	}
	le.PutUint32(b[abi.UQPAttrQPAccessFlags:], access)
	return mask | hasAccess
}

// hasPeer reports whether the link knows the other end's queue pair.
func (l *link) hasPeer() bool {
	switch l.state {
	case requested, repReceived, repSent, connected:
		return true
	}
	return false
}
