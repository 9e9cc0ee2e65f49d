//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/internal/shm"
)

// An arm word shares a cache line with a consumer index, which the client writes all the
// time. If the device reads an arm word, it takes the line from the client and costs the
// client 50 ns. So the device polls the arm registers instead, in every hintTurns-th step. A
// register changes only when a client arms a queue, and its value names the queue. Many queues
// of a client share a register, so a value may be overwritten before the device reads it. So
// after a change the device looks first at the queue that is named, and then at the arm words of
// all queues that use the register, some in each turn.
//
// Only the arm words are authoritative. So the device also reads the arm words of queues whose
// registers have not changed: in armTurns steps it reads each of them once, if the client has
// few. A client that does not write the register waits that long.
const (
	hintTurns = 32
	armTurns  = 1024
	armLaps   = armTurns / hintTurns
)

// One step polls at most armPolls registers and arm words, and answers at most armAnswers
// arms. An answer may be an event, which costs a system call. Clients take turns. In one turn
// a client gets at most armTurn polls of registers and of the arm words behind them, armTurn
// polls of other arm words, and armTurn looks at events that wait.
const (
	armPolls   = 64
	armAnswers = 8
	armTurn    = 16
)

// A clientArms holds the CQs of a client that can be armed, which are those with a completion
// channel.
type clientArms struct {
	cqs       []*cq
	polled    int // index in cqs of the CQ whose arm word was read last although its register had not changed
	turns     int // number of turns so far
	registers []*armRegister
	next      int   // index in registers of the register to poll next
	held      []*cq // CQs with an event that waits; see moderate.go
	looked    int   // index in held of the CQ that was looked at last
}

// An armRegister is the arm register of a UAR page, to which a client writes when it arms one
// of the CQs that use the page. It is a hint.
type armRegister struct {
	word   *shm.BE64
	seen   uint64
	cqs    []*cq // never empty
	unread int   // how many arm words are still to be read since the register has changed
	last   int   // index in cqs of the CQ whose arm word was read last
}

func (a *clientArms) has(q *cq) bool { return q.at < len(a.cqs) && a.cqs[q.at] == q }

// register returns the armRegister for a register, and makes it for the first queue.
func (a *clientArms) register(word *shm.BE64) *armRegister {
	for _, r := range a.registers {
		if r.word == word {
			return r
		}
	}
	r := &armRegister{word: word, seen: word.Observe()}
	a.registers = append(a.registers, r)
	return r
}

// canArm adds q to the queues that can be armed.
func (sh *completer) canArm(q *cq) {
	a := &q.client.arms
	q.at = len(a.cqs)
	a.cqs = append(a.cqs, q)
	r := a.register(q.armWrites)
	q.armReg, q.atReg = r, len(r.cqs)
	r.cqs = append(r.cqs, q)
	r.unread = len(r.cqs) // an arm before this was not seen
	sh.arm.cqs++
	sh.arm.armers.add(q.client)
}

// disarm removes q from the queues that can be armed, if it is one of them. The last of
// these queues is moved to the place of q.
func (sh *completer) disarm(q *cq) {
	own, a := q.client.shard, &q.client.arms
	if !a.has(q) {
		return
	}
	sh.unhold(q)
	last := len(a.cqs) - 1
	a.cqs[q.at] = a.cqs[last]
	a.cqs[q.at].at = q.at
	a.cqs[last], a.cqs = nil, a.cqs[:last]
	r := q.armReg
	end := len(r.cqs) - 1
	r.cqs[q.atReg] = r.cqs[end]
	r.cqs[q.atReg].atReg = q.atReg
	r.cqs[end], r.cqs = nil, r.cqs[:end]
	if r.unread > 0 {
		r.unread = end // the moved queue may have been passed over
	}
	if end == 0 {
		a.removeRegister(r)
	}
	own.arm.cqs--
	if last == 0 {
		own.arm.armers.remove(q.client)
	}
}

func (a *clientArms) removeRegister(r *armRegister) {
	for i, o := range a.registers {
		if o == r {
			last := len(a.registers) - 1
			a.registers[i] = a.registers[last]
			a.registers[last], a.registers = nil, a.registers[:last]
			return
		}
	}
}

// observeArms gives clients their turns, until it has polled about as many registers and arm
// words as polls says, or each client has had a turn. It returns how many arms it has answered.
func (sh *completer) observeArms(polls int) (done int) {
	for turns := len(sh.arm.armers.clients); turns > 0 && polls > 0 && done < armAnswers; turns-- {
		if len(sh.arm.armers.clients) == 0 {
			break
		}
		c := sh.arm.armers.current()
		sh.arm.armers.use(1, 1)
		n, used := sh.observeRegisters(c, armAnswers-done)
		done, polls = done+n, polls-used
		n, used = sh.observeUnchanged(c)
		done, polls = done+n, polls-used
		done += sh.observeHeldOf(c)
	}
	sh.fault.cq = nil
	return done
}

// observeRegisters polls the next registers of c, and arm words behind those that have changed. It
// answers at most about as many arms as most says.
func (sh *completer) observeRegisters(c *client, most int) (done, used int) {
	a := &c.arms
	for range a.registers {
		if a.next >= len(a.registers) {
			a.next = 0
		}
		r := a.registers[a.next]
		sh.pollCQ(r.cqs[0])
		used++
		if v := r.word.Observe(); v != r.seen {
			r.seen, r.unread = v, len(r.cqs)
			if q := sh.cqs[uint32(v)&0xffffff]; q != nil && q.armReg == r && !q.gone && a.has(q) {
				sh.pollCQ(q)
				done += sh.observeArm(q)
				used++
			}
		}
		for ; r.unread > 0 && used < armTurn && done < most; used++ {
			r.unread--
			if r.last--; r.last < 0 || r.last >= len(r.cqs) {
				r.last = len(r.cqs) - 1
			}
			sh.pollCQ(r.cqs[r.last])
			done += sh.observeArm(r.cqs[r.last])
		}
		if a.next++; used >= armTurn || done >= most {
			break
		}
	}
	return done, used
}

// observeUnchanged reads the next arm words of c, whether or not their registers have changed.
// In armLaps turns it reads each once, but it reads at most armTurn in one turn. It reads few arm
// words all in the same turn, so that it has the client's lines only then.
func (sh *completer) observeUnchanged(c *client) (done, used int) {
	a := &c.arms
	turn, n := a.turns%armLaps, len(a.cqs)
	a.turns++
	switch {
	case n > armTurn:
		used = min((turn+1)*n/armLaps-turn*n/armLaps, armTurn)
	case turn == armLaps-1:
		used = n
	}
	for range used {
		if a.polled--; a.polled < 0 || a.polled >= len(a.cqs) {
			a.polled = len(a.cqs) - 1
		}
		sh.pollCQ(a.cqs[a.polled])
		done += sh.observeArm(a.cqs[a.polled])
	}
	return done, used
}

// observeHeldOf looks at the next events of c that wait, and returns how many it has sent.
func (sh *completer) observeHeldOf(c *client) (done int) {
	a := &c.arms
	for range min(armTurn, len(a.held)) {
		if len(a.held) == 0 {
			break
		}
		if a.looked--; a.looked < 0 || a.looked >= len(a.held) {
			a.looked = len(a.held) - 1
		}
		done += sh.observeHeld(a.held[a.looked])
	}
	return done
}

// pollCQ records that memory of q is about to be polled.
func (sh *completer) pollCQ(q *cq) {
	if sh.timedUntil != 0 {
		sh.timePoll()
	}
	sh.enterCQ(q)
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
func (sh *completer) observeArm(q *cq) int {
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
