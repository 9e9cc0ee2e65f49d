//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/internal/shm"
)

// A clientArms holds the CQs of a client that can be armed, which are those with a completion
// channel.
type clientArms struct {
	CQs       []*CQ
	Polled    int // index in cqs of the CQ whose arm word was read last although its register had not changed
	Turns     int // number of turns so far
	Registers []*armRegister
	Next      int   // index in registers of the register to poll next
	Held      []*CQ // CQs with an event that waits; see completion/moderate.go
	Looked    int   // index in held of the CQ that was looked at last
}

// An armRegister is the arm register of a UAR page, to which a client writes when it arms one
// of the CQs that use the page. It is a hint.
type armRegister struct {
	Word   *shm.BE64
	Seen   uint64
	CQs    []*CQ // never empty
	Unread int   // how many arm words are still to be read since the register has changed
	Last   int   // index in cqs of the CQ whose arm word was read last
}

func (a *clientArms) Has(q *CQ) bool { return q.At < len(a.CQs) && a.CQs[q.At] == q }

// Register returns the armRegister for a register, and makes it for the first queue.
func (a *clientArms) Register(word *shm.BE64) *armRegister {
	for _, r := range a.Registers {
		if r.Word == word {
			return r
		}
	}
	r := &armRegister{Word: word, Seen: word.Observe()}
	a.Registers = append(a.Registers, r)
	return r
}

func (a *clientArms) RemoveRegister(r *armRegister) {
	for i, o := range a.Registers {
		if o == r {
			last := len(a.Registers) - 1
			a.Registers[i] = a.Registers[last]
			a.Registers[last], a.Registers = nil, a.Registers[:last]
			return
		}
	}
}

// A Moderation holds the events of a completion queue back (completion moderation). An event that is
// due waits until count completions have come since the client armed the queue, or until it has
// waited for period. The device looks at events that wait where it looks at arm words, and
// does not sleep past their time. So a completion of a queue without moderation, or of one that is not
// armed, costs nothing more.
type Moderation struct {
	Count  uint64
	Period uint64 // in cycles
	First  uint64 // value of cq.next from which completions count
	Since  uint64 // device clock when the event became due; 0: no event waits
	At     int    // index in client.arms.held, plus 1; 0: no event waits
}

// HeldUntil returns the device clock at which the event of q that waits has to be sent.
func (q *CQ) HeldUntil() uint64 {
	p := q.Moderation
	if p == nil || !q.Armed || p.Since == 0 || p.Period > ^uint64(0)-p.Since {
		return ^uint64(0)
	}
	return p.Since + p.Period
}
