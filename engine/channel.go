package engine

import (
	"encoding/binary"

	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

// A channel tells a client that sleeps of completions: a datagram socket, one
// 8-byte record for each event. A socket rather than an eventfd or a pipe,
// because a single send can be told not to wait; O_NONBLOCK is shared with the
// client, who could take it back and stop the device.
type channel struct {
	id    uint32
	fd    int // the device's end
	users int // CQs
}

func (c *Client) createChannel(_ *control.Empty, _ Memory, r *control.Reply) (control.Message, error) {
	id, err := c.take("completion channels", len(c.channels), c.e.cfg.Limits.Channels, 0)
	if err != nil {
		return nil, err
	}
	if err := c.e.shares.take(c.uid, socketBill); err != nil {
		return nil, err
	}
	mine, yours, err := eventSocket()
	if err != nil {
		c.e.shares.give(c.uid, socketBill)
		return nil, control.Errorf(control.CodeMemory, "completion channel: %v", err)
	}
	c.channels[id] = &channel{id: id, fd: mine}
	r.Events = yours
	return &control.Channel{ID: id}, nil
}

func (c *Client) destroyChannel(m *control.Channel, _ Memory, _ *control.Reply) (control.Message, error) {
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

func (c *Client) closeChannel(ch *channel) {
	delete(c.channels, ch.id)
	c.closeSocket(ch.fd)
}

// Arm words lie beside the consumer indices, which pollers write all the time:
// to look at one takes the line from its poller, and costs the poller 50 ns. So the
// device looks at the arm registers, in every hintTurns-th step; they change only when
// somebody arms. A register is shared by many queues, and its value may be overwritten
// before it is seen, but that it changed is enough. In every armLaps-th lap, some 25 us
// apart while there are few, the words are looked at in any case: they are the truth,
// and a client that does not write the register waits that long.
const (
	hintTurns = 32
	armTurns  = 1024
	armLaps   = armTurns / hintTurns
)

// What is done in one step at the most: queues that are looked at, and arms that
// are answered, each perhaps with an event, which is a system call. The others
// come next time.
const (
	armLooks   = 64
	armAnswers = 8
)

// observeArms looks at the next queues that may have been armed.
func (sh *shard) observeArms() (done int) {
	for range min(armLooks, len(sh.arm.cqs)) {
		if sh.arm.next >= len(sh.arm.cqs) {
			sh.arm.next = 0
		}
		c := sh.arm.cqs[sh.arm.next]
		if sh.near != 0 {
			sh.timeLook()
		}
		sh.enterCQ(c)
		if v := c.armReg.Observe(); v != c.armRegSeen || sh.arm.lap%armLaps == armLaps-1 {
			c.armRegSeen = v
			done += sh.observeArm(c)
		}
		if sh.arm.next++; sh.arm.next >= len(sh.arm.cqs) {
			sh.arm.lap++
		}
		if done == armAnswers {
			break
		}
	}
	sh.fault.cq = nil
	return done
}

// observeArm looks whether the client has asked for an event. If a completion
// is there that it had not consumed when it armed, and that no event has told of,
// one is due at once; so a completion written while the client armed is not missed,
// whichever came first. A completion that an event has told of causes no other event:
// programs arm before they poll what they were woken for, and each event is to be worth
// a completion (perftest with -e, which polls once for each).
//
// Observe: arm word. Published by post.CQ.Arm.
func (sh *shard) observeArm(q *cq) int {
	word := q.armWord.Observe()
	if word == q.armSeen {
		return 0
	}
	q.armSeen = word
	q.armed, q.solicited = true, word>>24&1 != 0
	unread := (uint32(q.next) - word) & 0xffffff
	if unread == 0 || unread > 1<<23 {
		return 1 // nothing yet, or an index that the client cannot have reached
	}
	news := min(uint64(unread), q.next-q.told)
	if news > 0 && (!q.solicited || q.next-q.lastSolicited < news) {
		sh.fire(q)
	}
	return 1
}

// fire sends the event that was asked for and disarms.
func (sh *shard) fire(q *cq) {
	q.armed = false
	q.told = q.next
	sh.send(q, q.handle)
}

// send sends a record. When the client lets its socket fill up, the event is
// its own loss, and it is told so; one that has closed its end wants none.
func (sh *shard) send(q *cq, value uint64) {
	var record [8]byte
	binary.LittleEndian.PutUint64(record[:], value)
	switch err := unix.Send(q.channel.fd, record[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL); err {
	case nil:
		q.sent++
		q.client.count[control.CounterEvents]++
	case unix.EPIPE, unix.ECONNRESET:
	default:
		sh.explainCQ(q, codeEventLost, "CQ %#06x: completion event not delivered: %v", q.num, err)
	}
}

// handleOf returns which CQ a record is of.
func handleOf(record [8]byte) uint64 { return binary.LittleEndian.Uint64(record[:]) }
