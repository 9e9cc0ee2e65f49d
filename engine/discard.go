//go:build linux && (amd64 || arm64)

package engine

import (
	"net"

	"github.com/nicless/nicless/engine/internal/closers"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/unixsock"
)

// What waits to be closed counts as its user's, so that in the end this user is refused,
// and no other. Connections do not wait behind other descriptors, because accept depends
// on their being closed: a connection has to be accepted before it can be refused.
//
// This is the engine's part and not a server's, because it is about users. A user's
// descriptors are of whichever server, and the memory that the device unmaps goes the
// same way.
//
// Where a listener refuses descriptors (unixsock.PassRights, Linux 6.16) none lies unread
// and connections close at once; package verbs lets them be sent after hello, and does
// not greet users whose closers are stuck (clogged). On older kernels one way remains: a
// descriptor that blocks without regard to signals stops one closer. A user who brings
// closers.Each of them and then so many connections that they fill the reserve of
// descriptors (backlogged) does pause accept for everybody: the user of a connection is
// not known before it is accepted. The same needs closers.Most of them, of more than 250
// users, where users work together.

// discards are the descriptors that wait to be closed.
type discards struct{ files, connections closers.Closers }

// discard has n descriptors closed, which have been charged to the user.
func (e *Engine) discard(uid uint32, n int, closeAll func()) {
	e.discarded.files.Add(e.ledger.Payer(uid), func() {
		closeAll()
		e.ledger.Refund(uid, quota.Charge{quota.Descriptors: n})
	})
}

// discardConnection has a connection closed, for which held is charged until then. One
// that no descriptor could be sent to is closed at once: it does not wait behind
// others, so that a refused connection costs nothing.
func (e *Engine) discardConnection(uid uint32, conn *net.UnixConn, held quota.Charge) {
	shut := func() {
		_ = conn.Close()
		e.ledger.Refund(uid, held)
	}
	if !unixsock.PassesRights(conn) {
		shut()
		return
	}
	e.discarded.connections.Add(e.ledger.Payer(uid), shut)
}

// clogged reports whether all the closers that a user may have for connections are
// stuck, so that the user's next connections would wait behind those.
func (e *Engine) clogged(uid uint32) bool {
	return e.discarded.connections.Clogged(e.ledger.Payer(uid))
}

// backlogged reports whether so many connections wait to be closed that the process
// could be short of descriptors for others.
func (e *Engine) backlogged() bool {
	most := e.ledger.Limit(quota.Descriptors) / 8
	return e.discarded.connections.Waiting() > most
}
