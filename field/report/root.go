package report

import (
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field/paste"
)

// mostQueues is for how many queues the first failure is remembered. A job of a rack has a
// connection to each of some thousand others.
const mostQueues = 1 << 16

// roots remembers the first failure of each queue that is no flush: everything that is flushed
// later on this queue is a consequence of it.
type roots struct {
	byQueue map[uint32]root
	first   root // of all queues
}

type root struct {
	line  int // 0: none
	cause cqe.Syndrome
}

// add remembers a failure, if it is the first one of its queue.
func (r *roots) add(it *paste.Item) {
	s, _, ok := it.Error()
	if !ok || s == cqe.Flush {
		return
	}
	here := root{it.Line, s}
	if r.first.line == 0 {
		r.first = here
	}
	qpn, ok := queueOf(it)
	if !ok || len(r.byQueue) >= mostQueues {
		return
	}
	if r.byQueue == nil {
		r.byQueue = make(map[uint32]root)
	}
	if _, ok := r.byQueue[qpn]; !ok {
		r.byQueue[qpn] = here
	}
}

// of returns the failure before a flush: that of its queue or, if the text does not name the
// queue, the first of all. about says in words which one it is.
func (r *roots) of(it *paste.Item) (found root, about string) {
	if s, _, ok := it.Error(); !ok || s != cqe.Flush {
		return root{}, ""
	}
	if qpn, ok := queueOf(it); ok {
		found = r.byQueue[qpn]
		about = fmt.Sprintf("queue 0x%06x failed first at line %d: ", qpn, found.line)
	} else {
		found = r.first
		about = fmt.Sprintf("the first failure before this one is at line %d: ", found.line)
	}
	if found.line == 0 {
		return root{}, ""
	}
	return found, about + failureName(found.cause, nil)
}

func queueOf(it *paste.Item) (uint32, bool) {
	if w := entryOf(it); w != nil {
		return w.QPN, true
	}
	if it.Facts.QPN != nil {
		return *it.Facts.QPN, true
	}
	return 0, false
}
