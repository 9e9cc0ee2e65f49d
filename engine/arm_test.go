package engine

import (
	"testing"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// armBoth arms as clients do that write the register too.
func (c *poller) armBoth(sn uint32) {
	c.arm(sn, false)
	r := c.h.c.CQs[c.num].ArmReg
	r.Word.Publish(uint64(doorbell.MakeArmRegister(doorbell.Arm{SN: uint8(sn), CI: uint32(c.ci)}, c.num)))
}

// readies makes n CQs of h with an event each that is due once they are armed.
func (h *host) readies(n int, first uint64) (list []*poller, event func() (uint64, bool)) {
	id, event := h.channel()
	for i := range n {
		c := h.cq(control.CQ{Channel: id, Handle: first + uint64(i)})
		p := h.qp(control.QP{NoReceive: 1}, c, c)
		p.up(p)
		p.post(ctrl(wqe.OpNop))
		list = append(list, c)
	}
	h.settle()
	return list, event
}

// If all queues are armed at once, a step answers a few of them and polls a few more. The
// others follow in later steps. Each queue sends exactly one event, also if the register, which
// they all share, shows one arm only.
func TestArmsAreAnsweredInTurn(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	list, event := a.readies(192, 0)
	for range 2 * completion.ArmLapTurns {
		require.Zero(t, r.e.ObserveArms(completion.ArmRoundPolls), "no queue is armed")
	}
	for _, c := range list {
		c.armBoth(1)
	}
	seen := make(map[uint64]bool)
	for calls := 0; len(seen) < len(list); calls++ {
		n := r.e.ObserveArms(completion.ArmRoundPolls)
		require.LessOrEqual(t, n, completion.ArmRoundAnswers)
		require.Less(t, calls, len(list)/completion.ArmRoundAnswers+len(list)/completion.ArmTurnPolls+1)
		for range n {
			handle, ok := event()
			require.True(t, ok)
			require.False(t, seen[handle])
			seen[handle] = true
		}
	}
	_, ok := event()
	require.False(t, ok)
}

// hoard makes n CQs with channels in each of so many clients.
func (r *rig) hoard(clients, n int) (hosts []*host) {
	for range clients {
		h := r.host("hoarder")
		id, _ := h.channel()
		for range n {
			h.cq(control.CQ{Channel: id})
		}
		hosts = append(hosts, h)
	}
	return hosts
}

// shake changes the registers of hosts, as if they armed all the time, and arms one of their CQs.
func shake(hosts []*host, i int) {
	for _, h := range hosts {
		for _, r := range h.c.Arms.Registers {
			r.Word.Publish(uint64(i)<<32 | uint64(r.CQs[0].Num))
		}
	}
}

// An arm of one client is found within a number of calls that depends on how many other clients arm
// all the time, and not on how many CQs they have.
func TestArmIsFoundBesideAHoard(t *testing.T) {
	roomy(t)
	n := rounds(300, 2000)
	const hoarders = 20
	r := newRig(t, Config{})
	hoard := r.hoard(hoarders, n)
	h := r.host("h")
	list, event := h.readies(3, 7)
	shaken := 1
	for i, c := range list {
		for _, register := range []bool{true, false} {
			most := hoarders/2 + 2 // each hoarder uses up half of ArmRoundPolls, at most
			if !register {
				most *= completion.ArmLapTurns
			}
			if register {
				c.armBoth(1)
			} else {
				c.arm(2, false)
			}
			calls := 0
			for ok := false; !ok; calls++ {
				require.Less(t, calls, most, "CQ %d, register %v", i, register)
				shake(hoard, shaken)
				shaken++
				r.e.ObserveArms(completion.ArmRoundPolls)
				var handle uint64
				if handle, ok = event(); ok {
					require.EqualValues(t, 7+i, handle)
				}
			}
			h.c.CQs[c.num].Notified = 0 // so that there is news for the next arm
		}
	}
}

// A call polls only as many registers and arm words as it is allowed to, and all CQs are polled in turn
// though no register changes.
func TestUnchangedArmWordsAreRead(t *testing.T) {
	r := newRig(t, Config{})
	const n = 600
	hosts := r.hoard(2, n)
	for _, q := range armable(r.e) {
		q.ArmWord.Publish(5) // armed, without the register
	}
	left := func() (n int) {
		for _, q := range armable(r.e) {
			if q.ArmSeen != 5 {
				n++
			}
		}
		return n
	}
	for _, h := range hosts {
		require.Len(t, h.c.Arms.Registers, 1)
		h.c.Arms.Registers[0].Unread = 0 // as if they had been read since the queues were made
	}
	before := left()
	for calls := 0; before > 0; calls++ {
		r.e.ObserveArms(completion.ArmRoundPolls)
		now := left()
		require.LessOrEqual(t, before-now, completion.ArmRoundPolls)
		require.Less(t, calls, 2*n/completion.ArmRoundAnswers+1)
		before = now
	}
}

// Whichever queues end while arm words are still to be read, the others are read.
func TestQueuesEndWhileArmsAreRead(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	id, _ := a.channel()
	var list []*poller
	for range 100 {
		list = append(list, a.cq(control.CQ{Channel: id}))
	}
	for range 2 * completion.ArmLapTurns {
		r.e.ObserveArms(completion.ArmRoundPolls)
	}
	for _, c := range list {
		c.armBoth(1)
	}
	r.e.ObserveArms(completion.ArmRoundPolls)
	for i, c := range list {
		if i%3 == 0 {
			a.call(control.OpDestroyCQ, &control.CQN{CQN: c.num}, &control.Empty{})
		}
	}
	a.c.Arms.Turns = 1 // so that no arm word is read without its register
	for a.c.Arms.Registers[0].Unread > 0 {
		a.c.Arms.Turns = 1
		r.e.ObserveArms(completion.ArmRoundPolls)
	}
	for _, q := range armable(r.e) {
		require.True(t, q.Armed)
	}
	require.Equal(t, 66, r.e.Arm.CQs)
	require.NoError(t, a.c.Close())
	require.Zero(t, r.e.Arm.CQs)
	require.Empty(t, r.e.Arm.Armers.Clients)
}
