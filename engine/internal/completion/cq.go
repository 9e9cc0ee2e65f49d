//go:build linux && (amd64 || arm64)

package completion

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// Complete writes one CQE and reports whether there was room for it. n is the byte count
// of the CQE. time is the device clock; for an error it is cqe.ErrWord instead. The owner
// and solicited bits of tail are 0. a says whether the completion is solicited. Complete stores
// the tail, which is the last eight bytes, after all other bytes, with release order. So a reader
// that sees the owner bit also sees the whole CQE and the payload that was moved before.
//
// Complete takes words rather than a struct, for the reason given at object.Head.
//
// Publish: CQE tail. Observed by hostpath.CQ.Poll.
func (sh *Completer) Complete(q *object.CQ, rqpn, uidx, imm, n uint32, time uint64, tail cqe.Tail,
	a object.Attention) bool {
	entries := uint64(1) << (q.Log & 63)
	if q.Next-q.Seen >= entries && !q.Ignore && !q.Room(entries) {
		return false
	}
	index := q.Next
	slot := index & (entries - 1)
	if q.Aside {
		if q.Collapsed {
			if q.Held != 0 {
				q.Next++
				sh.Notify(q, a)
				return true // the error in entry 0 stays; see CompleteError
			}
			slot = 0
		}
		if q.Watched != 0 {
			sh.recordCQE(q, rqpn, uidx, imm, n, time, tail, a)
		}
	}
	tail = tail.Owned(index, q.Log)
	if a == object.Solicited {
		tail |= cqe.Tail(cqe.SolicitedBit)
	}
	// The type is written out so that this file imports package shm: methods are inlined only from
	// packages that are imported.
	var block *shm.Block = q.Entry(slot)
	if q.LogCQE == 7 {
		clear(q.Buf[slot<<7:][:cqe.Size]) // the first half of an entry of 128 bytes
	}
	cqe.PutBody((*[cqe.Size]byte)(block), rqpn, uidx, imm, n, time)
	block.PublishTail(uint64(tail))
	q.Next = index + 1 // done last, so that a CQE whose stores fault does not count as written
	q.Client.Count[control.CounterCQEs]++
	if a != object.Quietly || q.Armed {
		sh.Notify(q, a)
	}
	return true
}

// Notify records a completion of attention a. If the client has armed q for such a completion, its
// event is due.
func (sh *Completer) Notify(q *object.CQ, a object.Attention) {
	if a != object.Quietly {
		q.LastSolicited = q.Next
	}
	if q.Armed && (!q.Solicited || a != object.Quietly) {
		sh.announce(q)
	}
}

// CompleteError writes one error CQE, and reports whether there was room for it. Errors count as
// solicited. In a collapsed queue, all completions overwrite entry 0, but the first error stays there
// until its queue pair is reset. If later completions overwrote the error, a client that reads only
// wqe_counter would believe that flushed work has been done.
func (sh *Completer) CompleteError(q *object.CQ, uidx uint32, s cqe.Syndrome, tail cqe.Tail) bool {
	traffic.Error(&q.Client.Traffic.N, s, tail.OpOwn().Opcode() == cqe.ReqErr)
	ok := sh.Complete(q, 0, uidx, 0, 0, cqe.ErrWord(s, sh.Vendor.of(s)), tail, object.Event)
	if q.Collapsed && q.Held == 0 {
		q.Held = tail.QPN()
	}
	return ok
}
