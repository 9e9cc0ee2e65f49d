//go:build linux && (amd64 || arm64)

package engine

import (
	"sync/atomic"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/numbers"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A cq is the device's side of a completion queue. The device writes one entry for each
// completion. It writes nothing else into the queue, and never reads an entry.
type cq struct {
	num     uint32
	client  *client
	region  *region // holds the buffer
	records *region // holds the doorbell record
	handle  uint64  // what the client calls this queue in events

	buf       []byte
	log       uint   // log2 of the number of entries
	logCQE    uint   // log2 of the size of an entry in bytes: 6 or 7
	next      uint64 // entries written since creation: the producer index
	seen      uint64 // consumer index as last observed, never greater than next
	floor     uint64 // consumer index after a resize; used in place of seen while seen is lower
	consumer  *shm.BE32
	collapsed bool
	ignore    bool     // overruns are ignored (CQIgnoreOverrun)
	dead      bool     // overrun: nothing is written any more
	held      uint32   // QPN of the error that stays in a collapsed queue; 0: none
	session   *session // what is collected for a compressed queue; nil: the queue is not compressed

	// These fields are for arming; see arm.go.
	channel   *channel
	sent      uint32 // number of events that the device's thread has sent; closers count in sentAside
	armWord   *shm.BE32
	armSeen   uint32
	armWrites *shm.BE64    // arm register of the UAR page; a hint, shared with other queues
	armReg    *armRegister // what the device knows of that register
	armed     bool
	solicited bool   // armed for solicited completions only
	told      uint64 // value of next when the last event was sent; last_notified_index in mlx5
	// lastSolicited is one more than the index of the last solicited or failed
	// completion. The device keeps it because it does not read entries, whose bytes
	// the client may change.
	lastSolicited uint64

	users      int // number of QPs that use this queue
	at         int // index in client.arms.cqs
	atReg      int // index in armReg.cqs
	gone       bool
	moderation *moderation // holds events back; nil: events are sent at once

	sentAside atomic.Uint32 // number of events that closers have sent (notifier)
	retracted atomic.Bool   // closers send no more events of this queue
}

// neverArmed is a value that no client writes into an arm word, because bits 31..25 of an
// arm word are never all set.
const neverArmed = 0xffffffff

func (c *caller) createCQ(m *control.CQ, _ requestMemory, _ *control.Reply) (control.Message, error) {
	switch {
	case m.LogSize > maxLogCQ:
		return nil, control.Errorf(control.CodeInvalid, "CQ: 2^%d entries; at most 2^%d are possible", m.LogSize, maxLogCQ)
	case m.LogCQE != 6 && m.LogCQE != 7:
		return nil, control.Errorf(control.CodeInvalid, "CQ: entries of 2^%d bytes; 2^6 and 2^7 are possible", m.LogCQE)
	case m.Flags&^(control.CQCollapsed|control.CQIgnoreOverrun|control.CQCompressed) != 0:
		return nil, control.Errorf(control.CodeInvalid, "CQ: unknown flags %#x", m.Flags)
	case m.Flags&control.CQCompressed != 0 && m.Flags&control.CQCollapsed != 0:
		return nil, control.Errorf(control.CodeInvalid, "CQ: flags %#x: a compressed queue cannot be collapsed", m.Flags)
	case m.Flags&control.CQCompressed != 0 && m.MiniFormat != control.MiniHash && m.MiniFormat != control.MiniChecksum && m.MiniFormat != control.MiniChecksumStride:
		return nil, control.Errorf(control.CodeInvalid, "CQ: minis of format %d; %d, %d and %d are possible", m.MiniFormat,
			control.MiniHash, control.MiniChecksum, control.MiniChecksumStride)
	case m.Handle&control.ChannelOverrun != 0:
		return nil, control.Errorf(control.CodeInvalid, "CQ: handle %#x; bit 63 is the device's", m.Handle)
	case m.Buf%64 != 0 || m.DBRec%8 != 0:
		return nil, control.Errorf(control.CodeInvalid, "CQ: buffer at %#x, record at %#x; multiples of 64 and 8 are needed", m.Buf, m.DBRec)
	}
	registers, page, err := c.uarPage("CQ", m.UAR)
	if err != nil {
		return nil, err
	}
	var ch *channel
	if m.Channel != 0 {
		if ch = c.channels[m.Channel]; ch == nil {
			return nil, notFound("completion channel", m.Channel)
		}
	}
	region, buf, err := c.at("CQ buffer", m.Buf, 1<<(m.LogSize+m.LogCQE))
	if err != nil {
		return nil, err
	}
	records, rec, err := c.at("CQ doorbell record", m.DBRec, 8)
	if err != nil {
		return nil, err
	}
	armWord := shm.BE32At(rec, 4)
	if ch != nil {
		// The first arm of a new queue may store the value 0, so the word has to hold another
		// value before. This store comes before anything is charged, because the store faults
		// if the memory has no page, and the request is then refused.
		armWord.Publish(neverArmed)
	}
	if _, err := c.take("completion queues", len(c.cqs), c.e.cfg.limits.CQs, cqCost); err != nil {
		return nil, err
	}
	q := &cq{
		client: c.client, region: region, records: records, handle: m.Handle, channel: ch,
		buf: buf, log: uint(m.LogSize), logCQE: uint(m.LogCQE),
		collapsed: m.Flags&control.CQCollapsed != 0, ignore: m.Flags&control.CQIgnoreOverrun != 0,
		consumer: shm.BE32At(rec, 0), armWord: armWord, armSeen: neverArmed,
	}
	if m.Flags&control.CQCompressed != 0 {
		q.session = newSession(m.MiniFormat)
	}
	q.num = numbers.Next(c.e.numbers.cq, c.e.cqs)
	c.e.watchdog.owners.put(uint64(q.num)|atCQ, c.name)
	c.e.cqs[q.num], c.cqs[q.num] = q, q
	countUser(1, region, records)
	if ch != nil {
		q.armWrites = shm.BE64At(registers.Bytes(), page+doorbell.CQArmOffset)
		ch.users++
		c.loop().canArm(q)
	}
	c.prefault(region, buf)
	c.prefault(records, rec)
	return &control.CQN{CQN: q.num}, nil
}

func (c *caller) destroyCQ(m *control.CQN, _ requestMemory, _ *control.Reply) (control.Message, error) {
	q, ok := c.cqs[m.CQN]
	switch {
	case !ok:
		return nil, notFound("CQ", m.CQN)
	case q.users > 0:
		return nil, busy("CQ", m.CQN, q.users, "queue pair", "queue pairs")
	}
	delete(c.cqs, m.CQN)
	c.removeCQ(q)
	return &control.Empty{}, nil
}

func (c *caller) removeCQ(q *cq) {
	sh := c.loop()
	delete(sh.cqs, q.num)
	sh.watchdog.owners.drop(uint64(q.num) | atCQ)
	q.client.refund(cqCost)
	countUser(-1, q.region, q.records)
	q.gone = true // a WAIT for this queue is judged again, and then finds no such queue
	if q.channel != nil {
		q.channel.users--
		sh.disarm(q)
	}
}

// An attention says which kinds of arm a completion fires.
type attention uint8

const (
	quietly   attention = iota // fires only an arm for any completion
	event                      // also fires an arm for solicited completions only
	solicited                  // fires the same arms as event; the CQE is marked as solicited
)

// A completer writes completions and sends their events.
type completer struct{ reporter }

// complete writes one CQE and reports whether there was room for it. n is the byte count
// of the CQE. time is the device clock; for an error it is cqe.ErrWord instead. The owner
// and solicited bits of tail are 0. The last eight bytes are stored last, with release
// order: a reader that sees the owner bit also sees the whole CQE and the payload that was
// moved before.
//
// complete takes words rather than a struct, for the reason given at type head (job.go).
//
// Publish: CQE tail. Observed by hostpath.CQ.Poll.
func (sh *completer) complete(q *cq, rqpn, uidx, imm, n uint32, time uint64, tail cqe.Tail, a attention) bool {
	entries := uint64(1) << (q.log & 63)
	if q.next-q.seen >= entries && !q.ignore && !q.room(entries) {
		return false
	}
	index := q.next
	slot := index & (entries - 1)
	if q.collapsed {
		if q.held != 0 {
			q.next++
			sh.tell(q, a)
			return true // the error in entry 0 stays
		}
		slot = 0
	}
	tail = tail.Owned(index, q.log)
	if a == solicited {
		tail |= cqe.Tail(cqe.SolicitedBit)
	}
	var block *shm.Block = q.entry(slot) // with its type: methods are inlined only from packages that are imported
	if q.logCQE == 7 {
		clear(q.buf[slot<<7:][:cqe.Size])
	}
	cqe.PutBody((*[cqe.Size]byte)(block), rqpn, uidx, imm, n, time)
	block.PublishTail(uint64(tail))
	q.next = index + 1 // done last, so that a CQE whose stores fault does not count as written
	q.client.count[control.CounterCQEs]++
	if a != quietly || q.armed {
		sh.tell(q, a)
	}
	return true
}

// free returns how many of the next n completions q has room for, after those that are collected.
// It looks at the consumer index only if q seems to have no room for all of them.
func (q *cq) free(n int) int {
	if q.ignore {
		return n
	}
	entries := uint64(1) << (q.log & 63)
	if q.session != nil {
		entries -= uint64(q.session.n) // these will take entries
	}
	left := int(entries - (q.next - q.seen))
	if left < n {
		left = 0
		if q.room(entries) {
			left = int(entries - q.unread())
		}
	}
	return min(left, n)
}

// plain reports whether completeRun may write to q: each completion has an entry of 64 bytes of its
// own, and the client waits for none of them.
func (q *cq) plain() bool { return q.logCQE == 6 && !q.collapsed && !q.armed }

// completeRun is complete for n consecutive completions or fewer, and returns how many it wrote.
// The tails differ in wqe_counter, which grows by one; tail is the first one. q is plain and has
// room.
//
// Publish: CQE tail. Observed by hostpath.CQ.Poll.
func (q *cq) completeRun(n int, rqpn, uidx uint32, bytes, time uint64, tail cqe.Tail) int {
	slot := q.next & (1<<(q.log&63) - 1)
	n = min(n, 1<<16-int(tail.Counter())) // the counter must not carry into the QPN
	n = shm.PublishBlocks(q.buf[slot*cqe.Size:], n, uint64(rqpn)<<32, uint64(uidx)<<32, bytes, time, uint64(tail.Owned(q.next, q.log)), 1<<16)
	q.next += uint64(n) // done last, so that CQEs whose stores fault do not count as written
	q.client.count[control.CounterCQEs] += uint64(n)
	return n
}

// tell fires the arm of q if the client has armed q for completions of attention a.
func (sh *completer) tell(q *cq, a attention) {
	if a != quietly {
		q.lastSolicited = q.next
	}
	if q.armed && (!q.solicited || a != quietly) {
		sh.announce(q)
	}
}

// entry returns the 64 bytes that hold the CQE of a slot. They are the whole slot, or the
// second half of a slot of 128 bytes.
func (q *cq) entry(slot uint64) *shm.Block {
	return shm.BlockAt(q.buf, cqe.EntryOffset(slot, q.logCQE))
}

// completeError writes one error CQE. Errors count as solicited. In a collapsed queue the
// first error stays until its queue pair is reset. Otherwise a client that reads only
// wqe_counter would believe that flushed work has been done.
func (sh *completer) completeError(q *cq, uidx uint32, s cqe.Syndrome, tail cqe.Tail) bool {
	ok := sh.complete(q, 0, uidx, 0, 0, cqe.ErrWord(s, vendor[s]), tail, event)
	if q.collapsed && q.held == 0 {
		q.held = tail.QPN()
	}
	return ok
}

// forget is called when a queue pair is reset. If the error of this queue pair stays in the
// collapsed queue q, other completions may replace it from now on.
func (q *cq) forget(qpn uint32) {
	if q.held == qpn {
		q.held = 0
	}
}

// room observes the consumer index and reports whether fewer than n completions are unread,
// so that one more fits. A consumer index that the client cannot have reached is ignored.
//
// Observe: consumer index. Published by hostpath.CQ.Poll.
func (q *cq) room(n uint64) bool {
	if q.dead {
		return false // a completion was lost, and none may follow it
	}
	behind := uint64(uint32(q.next)-q.consumer.Observe()) & 0xffffff
	if behind > q.next-q.seen {
		return false // the index has gone back, or is beyond the entries written
	}
	q.seen = q.next - behind
	return q.unread() < n
}

// has reports whether an address in the device's mapping is in the entries of q.
func (q *cq) has(addr uintptr) bool {
	off, _ := q.region.mem.Offset(q.buf)
	return uint64(addr)-q.region.mem.Addr()-off < uint64(len(q.buf))
}

// unread returns how many completions the client has not consumed according to its last
// valid consumer index.
func (q *cq) unread() uint64 { return q.next - max(q.seen, q.floor) }
