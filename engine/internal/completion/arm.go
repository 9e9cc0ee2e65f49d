//go:build linux && (amd64 || arm64)

package completion

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/object"
)

// An arm word shares a cache line with a consumer index, which the client writes all the
// time. If the device reads an arm word, it takes the line from the client and costs the
// client 50 ns. So the device polls the arm registers instead. A register changes only when a
// client arms a queue, and the value of the register names the queue. Many queues of a client
// share a register, so the client may overwrite a value before the device reads it. Therefore,
// after a change, the device looks first at the queue that is named, and then at the arm words of
// all queues that use the register, some in each turn.
//
// Only the arm words are authoritative. So the device also reads the arm words of queues whose
// registers have not changed.
//
// The device does this in rounds: one call of ObserveArms is a round. In a round, clients take
// turns. ArmLapTurns turns of a client are a lap. In a lap each of the client's arm words is read once, if
// the client has at most ArmLapTurns * ArmTurnPolls of them. So an arm without a store to the register is
// found after a lap.
const (
	ArmRoundSteps = 32                          // steps from one round to the next
	ArmLapTurns   = 32                          // turns of a client in a lap
	ArmLapSteps   = ArmLapTurns * ArmRoundSteps // steps of a lap in which each round has a turn of the client
)

// Limits of a round and of a turn. An answer to an arm may be an event, which costs a system call.
const (
	ArmRoundPolls   = 64 // polls of registers and arm words after which no further turn of the round begins
	ArmRoundAnswers = 8  // answers after which no further turn of the round begins

	// ArmTurnPolls is how much of each a client gets in a turn: polls of registers and of the arm
	// words behind registers that have changed; polls of other arm words; looks at events that wait.
	ArmTurnPolls = 16
)

// CanArm adds q to the queues that can be armed.
func (sh *Completer) CanArm(q *object.CQ) {
	a := &q.Client.Arms
	q.ArmsIndex = len(a.CQs)
	a.CQs = append(a.CQs, q)
	a.Held = slices.Grow(a.Held, len(a.CQs)-len(a.Held)) // because a step, which may not allocate, adds to it
	r := a.Register(q.ArmWrites)
	q.ArmReg, q.RegisterIndex = r, len(r.CQs)
	r.CQs = append(r.CQs, q)
	r.Unread = len(r.CQs) // the client may have armed q before q was among the CQs of r
	sh.Arm.CQs++
	sh.Arm.Armers.Add(q.Client)
}

// Disarm removes q from the queues that can be armed, if q is one of them. The last of
// these queues is moved to the place of q.
func (sh *Completer) Disarm(q *object.CQ) {
	owner := q.Client.Shard // counts q; not always sh
	a := &q.Client.Arms
	sh.Unhold(q)
	if !a.Has(q) {
		return
	}
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
		r.Unread = end // read all again: the queue that moved to the place of q may still be unread
	}
	if end == 0 {
		a.RemoveRegister(r)
	}
	owner.Arm.CQs--
	if last == 0 {
		owner.Arm.Armers.Remove(q.Client)
	}
}

// ObserveArms gives clients their turns, until it has polled about as many registers and arm
// words as polls says, has answered ArmRoundAnswers arms, or has given each client a turn. It returns
// how many arms it has answered, and events that waited it has sent.
func (sh *Completer) ObserveArms(polls int) (done int) {
	for turns := len(sh.Arm.Armers.Clients); turns > 0 && polls > 0 && done < ArmRoundAnswers; turns-- {
		if len(sh.Arm.Armers.Clients) == 0 {
			break
		}
		c := sh.Arm.Armers.Current()
		sh.Arm.Armers.Use(1, 1) // a turn is one visit, and c uses it up
		n, used := sh.observeRegisters(c, ArmRoundAnswers-done)
		done, polls = done+n, polls-used
		n, used = sh.observeUnchanged(c)
		done, polls = done+n, polls-used
		done += sh.observeHeldOf(c)
	}
	sh.Fault.CQ = nil // set by PollCQ
	return done
}

// observeRegisters polls the next arm registers of c, and arm words of the CQs whose registers have changed.
// It returns how many arms it has answered, at most the parameter most, and how many registers and arm words
// it has polled.
//
// When a register has changed, the arm words of all its CQs are to be read, in this turn and later turns.
// Unread counts down how many are left. Last, the index of the CQ that was read last, goes down through the
// CQs of the register, and from 0 to the end of the list. Reading may begin at any CQ, so Last is not reset.
func (sh *Completer) observeRegisters(c *object.Client, most int) (done, used int) {
	a := &c.Arms
	for range a.Registers {
		if a.Next >= len(a.Registers) {
			a.Next = 0
		}
		r := a.Registers[a.Next]
		sh.PollCQ(r.CQs[0]) // any CQ of the register: a fault of the poll ends the arming of that CQ
		used++
		if v := r.Word.Observe(); v != r.Seen {
			r.Seen, r.Unread = v, len(r.CQs)
			// The client may have written any number.
			if q := sh.CQs[uint32(v)&0xffffff]; q != nil && q.ArmReg == r && !q.Gone && a.Has(q) {
				sh.PollCQ(q)
				done += sh.ObserveArm(q)
				used++
			}
		}
		for ; r.Unread > 0 && used < ArmTurnPolls && done < most; used++ {
			r.Unread--
			r.Last--
			if r.Last < 0 || r.Last >= len(r.CQs) {
				r.Last = len(r.CQs) - 1
			}
			sh.PollCQ(r.CQs[r.Last])
			done += sh.ObserveArm(r.CQs[r.Last])
		}
		a.Next++
		if used >= ArmTurnPolls || done >= most {
			break
		}
	}
	return done, used
}

// observeUnchanged reads the next arm words of c, whether or not their registers have changed. It returns
// how many arms it has answered, and how many arm words it has read. If c has at most ArmTurnPolls words,
// observeUnchanged reads all of them in the last turn of the lap, and so takes the client's cache lines in
// that turn only. If c has more words, each turn of the lap gets an equal share of them, but at most
// ArmTurnPolls words.
func (sh *Completer) observeUnchanged(c *object.Client) (done, used int) {
	a := &c.Arms
	turn, n := a.Turns%ArmLapTurns, len(a.CQs)
	a.Turns++
	switch {
	case n > ArmTurnPolls:
		begin, end := turn*n/ArmLapTurns, (turn+1)*n/ArmLapTurns
		used = min(end-begin, ArmTurnPolls)
	case turn == ArmLapTurns-1:
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

// observeHeldOf looks at the next CQs of c with an event that waits, and returns how many events it has
// sent.
func (sh *Completer) observeHeldOf(c *object.Client) (done int) {
	a := &c.Arms
	for range min(ArmTurnPolls, len(a.Held)) {
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

// PollCQ records that memory of q is about to be polled. If the poll faults, the fault is that of q.
func (sh *Completer) PollCQ(q *object.CQ) {
	if sh.TimedUntil != 0 {
		sh.TimePoll()
	}
	sh.EnterCQ(q)
}

const (
	armIndex     = 1<<24 - 1 // bits of an arm word: the client's consumer index
	armSolicited = 1 << 24   // bit of an arm word: solicited completions only

	// A consumer index that is more than mostBehind behind the producer index, modulo 2^24, counts as
	// one that is ahead of the producer index.
	mostBehind = 1 << 23
)

// ObserveArm reads the arm word of q to see whether the client has asked for an event. It returns 1
// if the client has armed q, otherwise 0.
//
// An event is due at once for a completion that is already written, if the client had not consumed
// the completion when it armed. So a completion that is written at the same time as the client arms
// is not missed. But no event is due for a completion that an event has already announced, even if
// the client has not consumed the completion. This is because programs arm before they poll the
// completions they were woken for, and expect a completion for each event (perftest with -e polls
// once for each event).
//
// Observe: arm word. Published by hostpath.CQ.Arm.
func (sh *Completer) ObserveArm(q *object.CQ) int {
	word := q.ArmWord.Observe()
	if word == q.ArmSeen {
		return 0
	}
	q.ArmSeen = word
	q.Armed, q.Solicited = true, word&armSolicited != 0
	countAnew := q.Moderation != nil && q.Moderation.Since == 0 // no event waits
	unread := (uint32(q.Next) - word) & armIndex
	if unread == 0 || unread > mostBehind {
		if countAnew {
			q.Moderation.First = q.Next // completions from here on count
		}
		return 1 // no completion yet, or an index that the client cannot have reached
	}
	unannounced := min(uint64(unread), q.Next-q.Notified)
	if countAnew {
		q.Moderation.First = q.Next - unannounced
	}
	sinceSolicited := q.Next - q.LastSolicited // completions after the last solicited one
	if unannounced > 0 && (!q.Solicited || sinceSolicited < unannounced) {
		sh.announce(q)
	}
	return 1
}
