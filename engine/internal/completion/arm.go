//go:build linux && (amd64 || arm64)

package completion

import (
	"github.com/nicless/nicless/engine/internal/object"
)

// An arm word shares a cache line with a consumer index, which the client writes all the
// time. If the device reads an arm word, it takes the line from the client and costs the
// client 50 ns. So the device polls the arm registers instead, in every HintTurns-th step. A
// register changes only when a client arms a queue, and its value names the queue. Many queues
// of a client share a register, so a value may be overwritten before the device reads it. So
// after a change the device looks first at the queue that is named, and then at the arm words of
// all queues that use the register, some in each turn.
//
// Only the arm words are authoritative. So the device also reads the arm words of queues whose
// registers have not changed: in ArmTurns steps it reads each of them once, if the client has
// few. A client that does not write the register waits that long.
const (
	HintTurns = 32
	ArmTurns  = 1024
	ArmLaps   = ArmTurns / HintTurns
)

// One step polls at most ArmPolls registers and arm words, and answers at most ArmAnswers
// arms. An answer may be an event, which costs a system call. Clients take turns. In one turn
// a client gets at most ArmTurn polls of registers and of the arm words behind them, ArmTurn
// polls of other arm words, and ArmTurn looks at events that wait.
const (
	ArmPolls   = 64
	ArmAnswers = 8
	ArmTurn    = 16
)

// CanArm adds q to the queues that can be armed.
func (sh *Completer) CanArm(q *object.CQ) {
	a := &q.Client.Arms
	q.ArmsIndex = len(a.CQs)
	a.CQs = append(a.CQs, q)
	r := a.Register(q.ArmWrites)
	q.ArmReg, q.RegisterIndex = r, len(r.CQs)
	r.CQs = append(r.CQs, q)
	r.Unread = len(r.CQs) // an arm before this was not seen
	sh.Arm.CQs++
	sh.Arm.Armers.Add(q.Client)
}

// Disarm removes q from the queues that can be armed, if it is one of them. The last of
// these queues is moved to the place of q.
func (sh *Completer) Disarm(q *object.CQ) {
	own, a := q.Client.Shard, &q.Client.Arms
	if !a.Has(q) {
		return
	}
	sh.Unhold(q)
	last := len(a.CQs) - 1
	a.CQs[q.ArmsIndex] = a.CQs[last]
	a.CQs[q.ArmsIndex].ArmsIndex = q.ArmsIndex
	a.CQs[last], a.CQs = nil, a.CQs[:last]
	r := q.ArmReg
	end := len(r.CQs) - 1
	r.CQs[q.RegisterIndex] = r.CQs[end]
	r.CQs[q.RegisterIndex].RegisterIndex = q.RegisterIndex
	r.CQs[end], r.CQs = nil, r.CQs[:end]
	if r.Unread > 0 {
		r.Unread = end // the moved queue may have been passed over
	}
	if end == 0 {
		a.RemoveRegister(r)
	}
	own.Arm.CQs--
	if last == 0 {
		own.Arm.Armers.Remove(q.Client)
	}
}

// ObserveArms gives clients their turns, until it has polled about as many registers and arm
// words as polls says, or each client has had a turn. It returns how many arms it has answered.
func (sh *Completer) ObserveArms(polls int) (done int) {
	for turns := len(sh.Arm.Armers.Clients); turns > 0 && polls > 0 && done < ArmAnswers; turns-- {
		if len(sh.Arm.Armers.Clients) == 0 {
			break
		}
		c := sh.Arm.Armers.Current()
		sh.Arm.Armers.Use(1, 1)
		n, used := sh.observeRegisters(c, ArmAnswers-done)
		done, polls = done+n, polls-used
		n, used = sh.observeUnchanged(c)
		done, polls = done+n, polls-used
		done += sh.observeHeldOf(c)
	}
	sh.Fault.CQ = nil
	return done
}

// observeRegisters polls the next registers of c, and arm words behind those that have changed. It
// answers at most about as many arms as most says.
func (sh *Completer) observeRegisters(c *object.Client, most int) (done, used int) {
	a := &c.Arms
	for range a.Registers {
		if a.Next >= len(a.Registers) {
			a.Next = 0
		}
		r := a.Registers[a.Next]
		sh.PollCQ(r.CQs[0])
		used++
		if v := r.Word.Observe(); v != r.Seen {
			r.Seen, r.Unread = v, len(r.CQs)
			if q := sh.CQs[uint32(v)&0xffffff]; q != nil && q.ArmReg == r && !q.Gone && a.Has(q) {
				sh.PollCQ(q)
				done += sh.ObserveArm(q)
				used++
			}
		}
		for ; r.Unread > 0 && used < ArmTurn && done < most; used++ {
			r.Unread--
			r.Last--
			if r.Last < 0 || r.Last >= len(r.CQs) {
				r.Last = len(r.CQs) - 1
			}
			sh.PollCQ(r.CQs[r.Last])
			done += sh.ObserveArm(r.CQs[r.Last])
		}
		a.Next++
		if used >= ArmTurn || done >= most {
			break
		}
	}
	return done, used
}

// observeUnchanged reads the next arm words of c, whether or not their registers have changed.
// In ArmLaps turns it reads each once, but it reads at most ArmTurn in one turn. It reads few arm
// words all in the same turn, so that it has the client's lines only then.
func (sh *Completer) observeUnchanged(c *object.Client) (done, used int) {
	a := &c.Arms
	turn, n := a.Turns%ArmLaps, len(a.CQs)
	a.Turns++
	switch {
	case n > ArmTurn:
		used = min((turn+1)*n/ArmLaps-turn*n/ArmLaps, ArmTurn)
	case turn == ArmLaps-1:
		used = n
	}
	for range used {
		a.Polled--
		if a.Polled < 0 || a.Polled >= len(a.CQs) {
			a.Polled = len(a.CQs) - 1
		}
		sh.PollCQ(a.CQs[a.Polled])
		done += sh.ObserveArm(a.CQs[a.Polled])
	}
	return done, used
}

// observeHeldOf looks at the next events of c that wait, and returns how many it has sent.
func (sh *Completer) observeHeldOf(c *object.Client) (done int) {
	a := &c.Arms
	for range min(ArmTurn, len(a.Held)) {
		if len(a.Held) == 0 {
			break
		}
		a.Looked--
		if a.Looked < 0 || a.Looked >= len(a.Held) {
			a.Looked = len(a.Held) - 1
		}
		done += sh.ObserveHeld(a.Held[a.Looked])
	}
	return done
}

// PollCQ records that memory of q is about to be polled.
func (sh *Completer) PollCQ(q *object.CQ) {
	if sh.TimedUntil != 0 {
		sh.TimePoll()
	}
	sh.EnterCQ(q)
}

// ObserveArm reads the arm word of q to see whether the client has asked for an event. An
// event is due at once if there is a completion that the client had not consumed when it
// armed and that no event has announced. So a completion that is written at the same time
// as the client arms is not missed. A completion that an event has already announced causes
// no other event. This is because programs arm before they poll the completions they were
// woken for, and expect a completion for each event (perftest with -e polls once for each
// event). ObserveArm returns 1 if the client has armed q, otherwise 0.
//
// Observe: arm word. Published by hostpath.CQ.Arm.
func (sh *Completer) ObserveArm(q *object.CQ) int {
	word := q.ArmWord.Observe()
	if word == q.ArmSeen {
		return 0
	}
	q.ArmSeen = word
	q.Armed, q.Solicited = true, word>>24&1 != 0
	unread := (uint32(q.Next) - word) & 0xffffff
	if unread == 0 || unread > 1<<23 {
		if q.Moderation != nil && q.Moderation.Since == 0 {
			q.Moderation.First = q.Next
		}
		return 1 // no completion yet, or an index that the client cannot have reached
	}
	news := min(uint64(unread), q.Next-q.Notified)
	if q.Moderation != nil && q.Moderation.Since == 0 {
		q.Moderation.First = q.Next - news
	}
	if news > 0 && (!q.Solicited || q.Next-q.LastSolicited < news) {
		sh.announce(q)
	}
	return 1
}
