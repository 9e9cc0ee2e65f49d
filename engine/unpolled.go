//go:build linux && (amd64 || arm64)

package engine

import "runtime/debug"

// unpolled reports whether a queue pair of the user has completion queues with entries that the
// client has not consumed yet, as far as its consumer indices say so. Entries of other queue
// pairs that share a completion queue count too.
func (e nicDevice) unpolled(uid, qpn uint32) (some bool) {
	e.doWith(noWork, func() {
		q := e.qps[qpn]
		if q == nil || q.client.uid != uid {
			return
		}
		var fault error // of a page that the client has taken away: it will poll nothing there
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer refuseFault(&fault)
		some = q.sq.cq.observeUnread() > 0 || q.rq.cq.observeUnread() > 0
	})
	return some
}

// observeUnread is unread by the consumer index that the client has published meanwhile. A
// target of XRC has none: its completions go to the CQs of the SRQs.
func (q *cq) observeUnread() uint64 {
	if q.consumer == nil {
		return 0
	}
	q.room(1)
	return q.unread()
}
