//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/packet"
)

// An arrival is a packet of a SEND or a WRITE of several packets, on its way through the checks.
type arrival struct {
	p      *object.Port
	q      *object.QP
	in     *object.Inbound
	info   *packet.Info
	n      uint64      // bytes of payload
	writes bool        // the packet belongs to a WRITE, not to a SEND
	j      *object.Job // the message's job, which is the scratch job if the packet begins the message
}

// newArrival returns the arrival of the packet that p has taken, for q. Its job is not set yet.
func newArrival(p *object.Port, q *object.QP, info *packet.Info) arrival {
	op := p.BTH.Opcode.Operation()
	return arrival{p: p, q: q, in: &q.Wire.In, info: info, n: uint64(len(p.Packet.Payload)),
		writes: op >= packet.WriteFirst && op <= packet.WriteOnlyImm}
}
