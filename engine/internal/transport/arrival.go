//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/packet"
)

// An arrival is a packet of a request that its queue pair expects, on its way through the checks.
type arrival struct {
	p      *object.Port
	q      *object.QP
	in     *object.Inbound
	info   *packet.Info
	n      uint64      // bytes of payload
	writes bool        // its message is a WRITE
	reads  bool        // it is the request of a READ
	j      *object.Job // of its message: the scratch job if it begins one
}

func newArrival(p *object.Port, q *object.QP, info *packet.Info) arrival {
	op := p.BTH.Opcode.Operation()
	return arrival{p: p, q: q, in: &q.Wire.In, info: info, n: uint64(len(p.Packet.Payload)),
		writes: op >= packet.WriteFirst && op <= packet.WriteOnlyImm, reads: op == packet.ReadRequest}
}

// hasAnswer reports whether the request is a READ or an atomic, whose answer carries data.
func (x *arrival) hasAnswer() bool { return x.reads || x.info.AtomicETH }

// only reports whether the packet is a whole SEND or WRITE.
func (x *arrival) only() bool { return x.info.First && x.info.Last && !x.hasAnswer() }
