//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
)

// This file makes closers close descriptors in the background. Closers are goroutines
// (package closers). A descriptor that waits to be closed stays charged to its user. So if
// too many wait, only their user is refused more. Connections do not wait behind other
// descriptors, because accept depends on connections being closed: a connection has to be
// accepted before it can be refused.
//
// The engine does this, and not a server, because closers belong to users. One user can
// have descriptors in several servers, and the memory that the device unmaps waits for the
// same closers.
//
// If a listener refuses descriptors (unixsock.PassRights, Linux 6.16), no descriptor is left
// unread in a socket, and connections close at once. Package verbs allows descriptors after
// hello, and does not greet users whose closers are stuck (clogged).
//
// On older kernels one attack remains possible. A descriptor whose closing blocks and cannot
// be ended by a signal stops one closer. A user can send closers.Each such descriptors, and
// then open so many connections that they fill the reserve of descriptors (backlogged). This
// pauses accept for all users, because the user of a connection is not known before the
// connection is accepted. Users that work together can block all closers in this way. That
// takes closers.Most such descriptors, from more than 250 users.

// Discard makes a closer of user uid call closeAll, which closes n descriptors. The closer
// then refunds these descriptors to the user.
func (e *Device) Discard(uid uint32, n int, closeAll func()) {
	e.Discarded.files.Add(e.Ledger.Payer(uid), func() {
		closeAll()
		e.Ledger.Refund(uid, quota.Charge{quota.Descriptors: n})
	})
}

// DiscardConnection closes a connection, or makes a closer close it. The charge held is
// refunded when the connection is closed. If no descriptor could be sent over the connection,
// it is closed at once and does not wait behind others, so that a refused connection costs
// nothing.
func (e *Device) DiscardConnection(uid uint32, conn nic.Connection, held quota.Charge) {
	shut := func() {
		_ = conn.Close()
		e.Ledger.Refund(uid, held)
	}
	if !unixsock.PassesRights(conn) {
		shut()
		return
	}
	e.Discarded.Connections.Add(e.Ledger.Payer(uid), shut)
}

// Clogged reports whether all the closers that a user may have for connections are stuck.
// The user's next connections would then have to wait for these closers.
func (e *Device) Clogged(uid uint32) bool {
	return e.Discarded.Connections.Clogged(e.Ledger.Payer(uid))
}

// Backlogged reports whether so many connections wait to be closed that the process could
// run short of descriptors for other connections.
func (e *Device) Backlogged() bool {
	most := e.Ledger.Limit(quota.Descriptors) / 8
	return e.Discarded.Connections.Waiting() > most
}
