package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
)

// An Unpolled is a completion that the device has written and no Poll has taken.
type Unpolled struct {
	Tail     cqe.Tail     // the queue pair, the index of the work request, and the kind of the entry
	Syndrome cqe.Syndrome // of an entry of kind ReqErr or RespErr; otherwise 0
}

// Failed reports whether the work request has failed.
func (u Unpolled) Failed() bool {
	o := u.Tail.OpOwn().Opcode()
	return o == cqe.ReqErr || o == cqe.RespErr
}

// Unpolled returns the completions that have come and were not polled, oldest first, and takes none of them.
// Any goroutine may call it, also while another one polls: completions that are polled meanwhile may be
// among the result. It returns nothing for a queue that is Collapsed or Compressed, whose entries are not
// one for each completion.
func (q *CQ) Unpolled() (list []Unpolled) {
	if q.collapsed || q.compressed {
		return nil
	}
	from := uint64(q.ciWord.Observe() & doorbell.CIMask)
	for i := from; i-from < 1<<q.log; i++ {
		e := q.entry(i)
		u := Unpolled{Tail: cqe.Tail(e.ObserveTail())}
		if !cqe.Valid(u.Tail.OpOwn(), i, q.log) {
			break
		}
		if u.Failed() {
			u.Syndrome = cqe.Syndrome(e.Word(cqe.OffSyndrome / 8)) // its last byte is the syndrome
		}
		list = append(list, u)
	}
	return list
}
