//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// NeverArmed is a value that no client writes into an arm word, because bits 31..25 of an
// arm word are never all set.
const NeverArmed = 0xffffffff

// An Attention says which kinds of arm a completion fires.
type Attention uint8

const (
	Quietly   Attention = iota // fires only an arm for any completion
	Event                      // also fires an arm for solicited completions only
	Solicited                  // fires the same arms as Event; the CQE is marked as solicited
)

// Free returns how many of the next n completions q has room for, after those that are collected.
// It looks at the consumer index only if q seems to have no room for all of them.
func (q *CQ) Free(n int) int {
	if q.Ignore {
		return n
	}
	entries := uint64(1) << (q.Log & 63)
	if q.Session != nil {
		entries -= uint64(q.Session.N) // these will take entries
	}
	left := int(entries - (q.Next - q.Seen))
	if left < n {
		left = 0
		if q.Room(entries) {
			left = int(entries - q.Unread())
		}
	}
	return min(left, n)
}

// Plain reports whether CompleteRun may write to q: each completion has an entry of 64 bytes of its
// own, the client waits for none of them, and nobody watches them.
func (q *CQ) Plain() bool { return q.LogCQE == 6 && !q.Aside && !q.Armed }

// PlainButWatched reports whether q would be plain if it were not watched.
func (q *CQ) PlainButWatched() bool {
	return q.Watched != 0 && q.LogCQE == 6 && !q.Collapsed && !q.Armed
}

// CompleteRun is Complete for n consecutive completions or fewer, and returns how many it wrote. The tails
// differ in wqe_counter, which grows by one; tail is the first one. q is plain and has room.
//
// Publish: CQE tail. Observed by hostpath.CQ.Poll.
func (q *CQ) CompleteRun(n int, rqpn, uidx uint32, bytes, time uint64, tail cqe.Tail) int {
	slot := q.Next & (1<<(q.Log&63) - 1)
	n = min(n, 1<<16-int(tail.Counter())) // the counter must not carry into the QPN
	n = shm.PublishBlocks(q.Buf[slot*cqe.Size:], n, uint64(rqpn)<<32, uint64(uidx)<<32, bytes, time,
		uint64(tail.Owned(q.Next, q.Log)), 1<<16)
	q.Next += uint64(n) // done last, so that CQEs whose stores fault do not count as written
	q.Client.Count[control.CounterCQEs] += uint64(n)
	return n
}

// Entry returns the 64 bytes that hold the CQE of a slot. They are the whole slot, or the
// second half of a slot of 128 bytes.
func (q *CQ) Entry(slot uint64) *shm.Block {
	return shm.BlockAt(q.Buf, cqe.EntryOffset(slot, q.LogCQE))
}

// ReleaseHeld is called when a queue pair is reset. If the error of this queue pair stays in the
// collapsed queue q, other completions may replace it from now on.
func (q *CQ) ReleaseHeld(qpn uint32) {
	if q.Held == qpn {
		q.Held = 0
	}
}

// Fill takes all room away, as if the client had consumed nothing for long. by says who wants that.
func (q *CQ) Fill(by string) {
	q.Filled, q.Taken, q.Floor = by, q.Next-1<<q.Log, 0
	q.Seen = q.Taken
}

// Has reports whether an address in the device's mapping is in the entries of q.
func (q *CQ) Has(addr uintptr) bool {
	off, _ := q.Region.Mem.Offset(q.Buf)
	return uint64(addr)-q.Region.Mem.Addr()-off < uint64(len(q.Buf))
}

// Unread returns how many completions the client has not consumed according to its last
// valid consumer index.
func (q *CQ) Unread() uint64 { return q.Next - max(q.Taken, q.Floor) }

// Reached reports whether the completion with an index has been written. The first one has index 0; indices
// have 32 bits and wrap. A WAIT names the last completion that it waits for, not how many: libmlx5 of
// MLNX_OFED counts them from "the value before 0" on, and DOCA takes the index of the WQE.
func (c *CQ) Reached(index uint32) bool { return int32(uint32(c.Next)-index) > 0 }

// ObserveUnread is Unread by the consumer index that the client has published meanwhile. A target
// of XRC has none: its completions go to the CQs of the SRQs.
func (q *CQ) ObserveUnread() uint64 {
	if q.Consumer == nil {
		return 0
	}
	q.Room(1)
	return q.Unread()
}
