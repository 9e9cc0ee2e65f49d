package nicless

import (
	"encoding/binary"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
)

// Transport is the kind of a queue pair.
type Transport = hostpath.Transport

// Transports.
const (
	RC = hostpath.RC // reliable connection: SEND, WRITE, READ, atomics
	UC = hostpath.UC // unreliable connection: SEND and WRITE; messages that the peer cannot take are lost
	UD = hostpath.UD // unreliable datagram: SEND of up to 4096 bytes to any UD queue pair
)

// GRHSize is the number of bytes that the device writes before each received datagram: a
// header that says where the datagram comes from. The completion's ByteLen includes
// GRHSize, and a receive must have room for the header too.
const GRHSize = 40

// Activate makes a UD queue pair ready to send and receive. Datagrams that arrive earlier,
// or while no receive is posted, are dropped.
func (q *QP) Activate() error {
	const what = "activate"
	if err := q.usable(); err != nil {
		return wrap(what, err)
	}
	if q.transport != UD {
		return wrap(what, control.Errorf(control.CodeInvalid, "a %v queue pair has a peer; Connect it", q.transport))
	}
	if err := q.Modify(&Attr{Mask: AttrState, State: StateRTR}); err != nil {
		return q.refusedIn(what, err)
	}
	return q.Modify(&Attr{Mask: AttrState | AttrSQPSN, State: StateRTS, SQPSN: q.psn()})
}

// AddressOf returns the address of the queue pair that peer describes, for SendWR.To. An
// address may be used for any number of sends.
func (q *QP) AddressOf(peer Descriptor) (*Address, error) {
	const what = "address"
	if q.c == nil {
		return nil, wrap(what, errZero)
	}
	if err := peer.check(); err != nil {
		return nil, wrap(what, err)
	}
	if err := q.reachable(what, &peer, false); err != nil {
		return nil, err
	}
	return q.pd.ctx.Address(peer.QPN, peer.QKey), nil
}

// Address returns the address of queue pair qpn of this engine, for SendWR.To. qpn can be
// Completion.SrcQP, for instance, in order to reply. qkey is the receiver's Q_Key.
func (c *Context) Address(qpn, qkey uint32) *Address {
	r := hostpath.RoCE{HopLimit: 64}
	r.GID[0], r.GID[1] = 0xfe, 0x80 // link-local; the lower half is the engine's number
	binary.BigEndian.PutUint64(r.GID[8:], c.Device())
	return &Address{AV: r.AV(), QPN: qpn, QKey: qkey}
}
