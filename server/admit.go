//go:build linux && (amd64 || arm64)

package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// connectionCost is what a connection costs the user at its other end.
var connectionCost = nic.Cost{Descriptors: 1}

var errBacklog = errors.New("too many connections wait to be closed")

// busy returns an error that says why no connection can be accepted at present, or nil.
func (l *Listener) busy() error {
	if l.device.Backlogged() {
		return errBacklog
	}
	return nil
}

// admit charges a connection to the user at its other end. If the connection is refused,
// admit discards it before the next one is accepted, so that the backlog counts it.
func (l *Listener) admit(conn *net.UnixConn) (*unix.Ucred, error) {
	cred, err := unixsock.Credentials(conn)
	if err != nil {
		l.device.DiscardConnection(nic.UnknownUser, conn, nic.Cost{})
		l.device.Report(nic.UnknownUser, slog.LevelWarn, "connection without credentials", "error", err)
		return nil, err
	}
	if err := l.device.Incur(cred.Uid, connectionCost); err != nil {
		l.device.DiscardConnection(cred.Uid, conn, connectionCost)
		l.device.Report(cred.Uid, slog.LevelWarn, "client refused", "client", nameOf(cred), "error", err)
		return nil, err
	}
	return cred, nil
}

// nameOf returns a client's name for the log, made of what the kernel says about the client.
func nameOf(cred *unix.Ucred) string { return fmt.Sprintf("pid %d uid %d", cred.Pid, cred.Uid) }
