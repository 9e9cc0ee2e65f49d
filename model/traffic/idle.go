package traffic

import (
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/wqe"
)

// armLaps is in how many rounds of looks at arm registers the device reads the arm words once.
const armLaps = 32

// idle adds a step that finds nothing: a visit to each queue pair, and more. Receives for works have
// been posted.
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
		x.rounds++
	}
}

// lookForArms adds the device's look at the arm register of a UAR page, and in some rounds at the arm
// word of a CQ.
func (x *Expander) lookForArms(page, ci string) {
	x.add(model.Dev, model.Load, model.UAR, model.Poll, page, doorbell.CQArmOffset/line, 1, 8)
	if x.rounds%armLaps == armLaps-1 {
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
// each visit in which its fast path has looked at a message, but not while it looks for the next WQE
// in a BlueFlame register only. The message does not read the receive again, but counts the receives.
func (x *Expander) prefetch(works []*work) {
	if !x.c.Prefetched || !x.wants || x.hot {
		return
	}
	for _, w := range works {
		if w.receive != nil {
			x.add(model.Dev, model.Load, model.Record, model.Prefetch, x.receiveRecord(), 0, 1, 4, x.announce)
			x.entry(model.Dev, model.Load, model.Prefetch, w.entry, 0, wqe.DataSize)
			if len(w.list) > 0 {
				x.add(model.Dev, model.Load, model.Key, model.Prefetch, KeyTable, w.list[0].key.index, 1,
					line)
			}
			w.prefetched, x.wants = true, false
			return
		}
	}
}
