//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
)

// A channel is a completion channel. It tells a client of completions, so that the client
// need not poll. It is a SOCK_SEQPACKET socket that carries one 8-byte record for each
// event. A socket is used rather than an eventfd or a pipe because a single send to a
// socket can be told not to block (MSG_DONTWAIT). An eventfd or a pipe would need
// O_NONBLOCK, which is shared with the client. The client could clear it and thereby block
// the device.
type channel struct {
	id    uint32
	out   *notifier
	users int // number of CQs that use this channel
}

func (c *caller) createChannel(_ *control.Empty, _ requestMemory, r *control.Reply) (control.Message, error) {
	id, err := c.take("completion channels", len(c.channels), c.e.cfg.limits.Channels, 0)
	if err != nil {
		return nil, err
	}
	if err := c.e.ledger.Take(c.uid, socketCharge); err != nil {
		return nil, err
	}
	out, yours, err := c.newNotifier()
	if err != nil {
		c.e.ledger.Refund(c.uid, socketCharge)
		return nil, control.Errorf(control.CodeMemory, "completion channel: %v", err)
	}
	c.channels[id] = &channel{id: id, out: out}
	r.Events = yours
	return &control.Channel{ID: id}, nil
}

func (c *caller) destroyChannel(m *control.Channel, _ requestMemory, _ *control.Reply) (control.Message, error) {
	ch, ok := c.channels[m.ID]
	switch {
	case !ok:
		return nil, notFound("completion channel", m.ID)
	case ch.users > 0:
		return nil, busy("completion channel", m.ID, ch.users, "completion queue", "completion queues")
	}
	c.closeChannel(ch)
	return &control.Empty{}, nil
}

func (c *caller) closeChannel(ch *channel) {
	delete(c.channels, ch.id)
	c.closeSocket(ch.out)
}

// fire sends the event that the client has asked for, and disarms q.
func (sh *completer) fire(q *cq) {
	q.armed = false
	q.told = q.next
	sh.unhold(q)
	sh.send(q, q.handle)
}

// send sends a record that holds value to the channel of q. If the client lets its socket
// fill up, it loses the event, and the loss is explained to it. A client that has closed its
// end of the socket wants no events.
func (sh *completer) send(q *cq, value uint64) {
	out := q.channel.out
	switch err := out.send(notice{record: value, cq: q}); {
	case err == nil:
		q.client.count[control.CounterEvents]++
	case !hungUp(err):
		sh.explainCQ(q, codes.EventLost, "CQ %#06x: completion event not delivered: %v", q.num, err)
	}
	if out.lost.Load() != 0 {
		sh.explainCQ(q, codes.EventLost, "CQ %#06x: %d completion events of its channel were not delivered: the socket was full", q.num, out.lost.Swap(0))
	}
}

// recordOf returns the record that holds a value.
func recordOf(value uint64) (record [8]byte) {
	binary.LittleEndian.PutUint64(record[:], value)
	return record
}

// handleOf returns the handle of the CQ that a record is about.
func handleOf(record [8]byte) uint64 { return binary.LittleEndian.Uint64(record[:]) }
