//go:build linux && (amd64 || arm64)

package verbs

import (
	"testing"

	"github.com/nicless/nicless/field/devx"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
)

// A queueClient keeps the last requests for queues that the engine is given.
type queueClient struct {
	nic.Client
	cq control.CQ
	qp control.QP
}

func (c *queueClient) Call(op control.Op, payload []byte) (control.Message, control.Reply, error) {
	var err error
	switch op {
	case control.OpCreateCQ:
		err = control.Parse(op, payload, &c.cq)
	case control.OpCreateQP:
		err = control.Parse(op, payload, &c.qp)
	}
	if err != nil {
		return nil, control.Reply{}, err
	}
	return c.Client.Call(op, payload)
}

// A queue that a firmware command makes is, to the engine, the queue that a verb makes: the two requests
// differ in nothing but what is told here. So work requests of both cost the same, instruction for
// instruction.
func TestMadeAsByVerbs(t *testing.T) {
	m := newMaker(t)
	asked := &queueClient{Client: m.context().client}
	m.context().client = asked

	channel := uint64(le.Uint32(m.ok(m.createChannel()).bytes[abi.AttrCoreOut]))
	cq := m.ok(m.createCQ(15, channel)).value[abi.AttrCreateCQHandle]
	m.ok(m.createQP(abi.QPTRC, cq))
	byVerb := *asked
	_, cqn := m.made(m.cqCommand(), devx.NewCQN)
	m.made(m.qpCommand(cqn, devx.QPReceiveCQ, cqn, devx.QPRQType, devx.RQOwn, devx.QPLogRQ, uint64(byVerb.qp.LogRQ),
		devx.QPLogRQStride, uint64(byVerb.qp.LogRQStride-minLogRecvWQE), devx.QPUserIndex, byVerb.qp.UserIndex), devx.NewQPN)

	// Where the queues are, and which CQ they have.
	asked.cq.Buf, asked.cq.DBRec = byVerb.cq.Buf, byVerb.cq.DBRec
	asked.qp.SQ, asked.qp.RQ, asked.qp.DBRec = byVerb.qp.SQ, byVerb.qp.RQ, byVerb.qp.DBRec
	asked.qp.SendCQN, asked.qp.RecvCQN = byVerb.qp.SendCQN, byVerb.qp.RecvCQN
	// Events name the object that the program knows, in a channel of its own; they cost nothing until it
	// arms them.
	asked.cq.Handle, asked.cq.Channel = byVerb.cq.Handle, byVerb.cq.Channel
	require.Equal(t, byVerb.cq, asked.cq)
	require.Equal(t, byVerb.qp, asked.qp)
}
