//go:build linux && (amd64 || arm64)

package completion

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// CompleteInline is Complete for a completion that carries data. Entries of 128 bytes have the data
// in their first half. Entries of 64 bytes have at most 32 bytes of data, in place of the fields of
// the first 32 bytes.
//
// Publish: CQE tail. Observed by hostpath.CQ.Poll.
func (sh *Completer) CompleteInline(q *object.CQ, data []byte, rqpn, uidx, imm uint32, tail cqe.Tail,
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
			sh.recordInline(q, data, rqpn, uidx, imm, tail, a)
		}
	}
	if a == object.Solicited {
		tail |= cqe.Tail(cqe.SolicitedBit)
	}
	block := q.Entry(slot)
	cqe.PutBody((*[cqe.Size]byte)(block), rqpn, uidx, imm, uint32(len(data)), sh.Clock())
	format, room := cqe.FormatInline32, block[:cqe.MaxInline32]
	if q.LogCQE == 7 {
		format, room = cqe.FormatInline64, q.Buf[slot<<7:][:cqe.MaxInline64]
		clear(room)
	}
	copy(room, data)
	block.PublishTail(uint64((tail | cqe.Tail(format)<<2).Owned(index, q.Log)))
	q.Next = index + 1 // done last, so that a CQE whose stores fault does not count as written
	q.Client.Count[control.CounterCQEs]++
	if a != object.Quietly || q.Armed {
		sh.Notify(q, a)
	}
	return true
}
