package traffic

import (
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/wqe"
)

// armLapTurns is the number of rounds of polls of the arm registers in which the device reads each arm
// word once. The name is that of package engine/internal/completion.
const armLapTurns = 32

// idle adds a step that finds nothing. The device visits each queue pair. It may also fetch the next
// receive, and look whether CQs are armed. The receives for works have been posted.
func (x *Expander) idle(works []*work) {
	x.hot = x.hot && !x.c.Rested
	if !x.hot {
		x.pollRecord(HostRecord)
	}
	if x.c.BlueFlame != 0 {
		x.pollRegister(x.next)
		if !x.hot {
			x.pollRegister(x.next ^ 1)
		}
	}
	x.prefetch(works)
	x.pollRecord(PeerRecord) // for what the peer sends
	if x.c.Events {
		x.lookForArms(Registers, SendCI)
		x.lookForArms(PeerPage, RecvCI)
		x.armRounds++
	}
}

// lookForArms adds the device's poll of the arm register of a UAR page. In the last round of each lap
// it adds the poll of the arm word of a CQ.
func (x *Expander) lookForArms(page, ci string) {
	x.add(model.Dev, model.Load, model.UAR, model.Poll, page, doorbell.CQArmOffset/line, 1, 8)
	if x.armRounds%armLapTurns == armLapTurns-1 {
		x.add(model.Dev, model.Load, model.CI, model.Poll, ci, 0, 1, 4)
	}
}

func (x *Expander) pollRecord(region string, after ...int) {
	x.add(model.Dev, model.Load, model.Record, model.Poll, region, 0, 1, 4, after...)
}

func (x *Expander) pollRegister(half int, after ...int) {
	x.add(model.Dev, model.Load, model.UAR, model.Poll, Registers, x.registerLine(half), 1, wqe.BlockSize,
		after...)
}

// prefetch adds the loads of the next receive on an idle visit. The device fetches one receive after
// each visit in which its fast path has looked at a message. It fetches none while it polls only the
// BlueFlame register. The message that takes the receive does not read the entry again, but loads the
// number of receives.
func (x *Expander) prefetch(works []*work) {
	if !x.c.Prefetched || !x.fetchReceive || x.hot {
		return
	}
	for _, w := range works {
		if w.receive != nil {
			x.add(model.Dev, model.Load, model.Record, model.Prefetch, x.receiveRecord(), 0, 1, 4,
				x.lastAnnounced)
			x.entry(model.Dev, model.Load, model.Prefetch, w.entry, 0, wqe.DataSize)
			if len(w.list) > 0 {
				x.add(model.Dev, model.Load, model.Key, model.Prefetch, KeyTable, w.list[0].key.index, 1,
					line)
			}
			w.prefetched, x.fetchReceive = true, false
			return
		}
	}
}
