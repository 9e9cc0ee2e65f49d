//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

// A channel is a completion channel. It tells a client of completions, so that the client
// need not poll. It is a SOCK_SEQPACKET socket that carries one 8-byte record for each
// event. A socket is used rather than an eventfd or a pipe because a single send to a
// socket can be told not to block (MSG_DONTWAIT). An eventfd or a pipe would need
// O_NONBLOCK, which is shared with the client. The client could clear it and thereby block
// the device.
type channel struct {
	id    uint32
	fd    int // the device's end
	users int // number of CQs that use this channel
}

func (c *client) createChannel(_ *control.Empty, _ requestMemory, r *control.Reply) (control.Message, error) {
	id, err := c.take("completion channels", len(c.channels), c.e.cfg.Limits.Channels, 0)
	if err != nil {
		return nil, err
	}
	if err := c.e.ledger.Take(c.uid, socketCharge); err != nil {
		return nil, err
	}
	mine, yours, err := eventSocket()
	if err != nil {
		c.e.ledger.Refund(c.uid, socketCharge)
		return nil, control.Errorf(control.CodeMemory, "completion channel: %v", err)
	}
	c.channels[id] = &channel{id: id, fd: mine}
	r.Events = yours
	return &control.Channel{ID: id}, nil
}

func (c *client) destroyChannel(m *control.Channel, _ requestMemory, _ *control.Reply) (control.Message, error) {
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

func (c *client) closeChannel(ch *channel) {
	delete(c.channels, ch.id)
	c.closeSocket(ch.fd)
}

// An arm word shares a cache line with a consumer index, which the client writes all the
// time. If the device reads an arm word, it takes the line from the client and costs the
// client 50 ns. So the device polls the arm registers instead, in every hintTurns-th step. A
// register changes only when a client arms a queue. Many queues share a register, so a value
// may be overwritten before the device reads it; but the device only needs to see that the
// register has changed. A lap is one round through all queues that can be armed. In every
// armLaps-th lap the device reads the arm words even if the registers have not changed, because
// only the arm words are authoritative. While there are few queues, the device does so about
// every 25 us. A client that does not write the register waits that long.
const (
	hintTurns = 32
	armTurns  = 1024
	armLaps   = armTurns / hintTurns
)

// One step polls at most armPolls queues and answers at most armAnswers arms. An answer may
// be an event, which costs a system call. The other queues follow in later steps.
const (
	armPolls   = 64
	armAnswers = 8
)

// observeArms polls the next queues that can be armed.
func (sh *shard) observeArms() (done int) {
	for range min(armPolls, len(sh.arm.cqs)) {
		if sh.arm.next >= len(sh.arm.cqs) {
			sh.arm.next = 0
		}
		c := sh.arm.cqs[sh.arm.next]
		if sh.timedUntil != 0 {
			sh.timePoll()
		}
		sh.enterCQ(c)
		if v := c.armReg.Observe(); v != c.armRegSeen || sh.arm.lap%armLaps == armLaps-1 {
			c.armRegSeen = v
			done += sh.observeArm(c)
		}
		done += sh.observeHeld(c)
		if sh.arm.next++; sh.arm.next >= len(sh.arm.cqs) {
			sh.arm.lap++
		}
		if done >= armAnswers {
			break
		}
	}
	sh.fault.cq = nil
	return done
}

// observeArm reads the arm word of q to see whether the client has asked for an event. An
// event is due at once if there is a completion that the client had not consumed when it
// armed and that no event has announced. So a completion that is written at the same time
// as the client arms is not missed. A completion that an event has already announced causes
// no other event. This is because programs arm before they poll the completions they were
// woken for, and expect a completion for each event (perftest with -e polls once for each
// event). observeArm returns 1 if the client has armed q, otherwise 0.
//
// Observe: arm word. Published by hostpath.CQ.Arm.
func (sh *shard) observeArm(q *cq) int {
	word := q.armWord.Observe()
	if word == q.armSeen {
		return 0
	}
	q.armSeen = word
	q.armed, q.solicited = true, word>>24&1 != 0
	unread := (uint32(q.next) - word) & 0xffffff
	if unread == 0 || unread > 1<<23 {
		if q.moderation != nil && q.moderation.since == 0 {
			q.moderation.first = q.next
		}
		return 1 // no completion yet, or an index that the client cannot have reached
	}
	news := min(uint64(unread), q.next-q.told)
	if q.moderation != nil && q.moderation.since == 0 {
		q.moderation.first = q.next - news
	}
	if news > 0 && (!q.solicited || q.next-q.lastSolicited < news) {
		sh.announce(q)
	}
	return 1
}

// fire sends the event that the client has asked for, and disarms q.
func (sh *shard) fire(q *cq) {
	q.armed = false
	q.told = q.next
	if q.moderation != nil {
		q.moderation.since = 0
	}
	sh.send(q, q.handle)
}

// send sends a record that holds value to the channel of q. If the client lets its socket
// fill up, it loses the event, and the loss is explained to it. A client that has closed its
// end of the socket wants no events.
func (sh *shard) send(q *cq, value uint64) {
	var record [8]byte
	binary.LittleEndian.PutUint64(record[:], value)
	switch err := unix.Send(q.channel.fd, record[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL); err {
	case nil:
		q.sent++
		q.client.count[control.CounterEvents]++
	case unix.EPIPE, unix.ECONNRESET:
	default:
		sh.explainCQ(q, codes.EventLost, "CQ %#06x: completion event not delivered: %v", q.num, err)
	}
}

// handleOf returns the handle of the CQ that a record is about.
func handleOf(record [8]byte) uint64 { return binary.LittleEndian.Uint64(record[:]) }
