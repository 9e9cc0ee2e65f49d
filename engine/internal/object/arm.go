//go:build linux && (amd64 || arm64)

package object

import "github.com/nicless/nicless/internal/shm"

// Has reports whether q is one of the CQs that can be armed.
func (a *clientArms) Has(q *CQ) bool { return q.ArmsIndex < len(a.CQs) && a.CQs[q.ArmsIndex] == q }

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

// RemoveRegister removes r, which no queue uses any more.
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

// Late says which events of a CQ have found no room in its channel.
type Late uint8

const (
	LateCompletion Late = 1 << iota // q is armed, and its event is due
	LateOverrun
)

// HeldUntil returns the device clock at which the event of q that waits has to be sent, or tried again.
func (q *CQ) HeldUntil() uint64 {
	if q.Late != 0 {
		return q.Channel.Out.Room.Until()
	}
	p := q.Moderation
	if p == nil || !q.Armed || p.Since == 0 || p.Period > ^uint64(0)-p.Since {
		return ^uint64(0)
	}
	return p.Since + p.Period
}
