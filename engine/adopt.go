package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"net"

	"golang.org/x/sys/unix"
)

// ListenOn is Listen on a socket that somebody else has made, of network
// "unixpacket": a service manager, for instance, which starts the engine when the
// first client connects. Who may connect is settled by the mode of that socket. The
// engine closes it in the end and leaves its file.
func (e *Engine) ListenOn(sock *net.UnixListener) (*Listener, error) {
	if sock == nil {
		return nil, errors.New("engine: no socket (nil)")
	}
	if n := sock.Addr().Network(); n != "unixpacket" {
		return nil, fmt.Errorf("engine: socket %v is of network %s; unixpacket (SOCK_SEQPACKET) is needed", sock.Addr(), n)
	}
	growDescriptors()
	if err := startHelpers(); err != nil {
		e.journal.say(slog.LevelInfo, "clients may be able to delay the end of this process", "error", err)
	}
	if e.refuseRights {
		// Connections inherit it; those that have been made already do not have it.
		if err := e.passRights(sock, false); err != nil && !errors.Is(err, unix.ENOPROTOOPT) {
			return nil, fmt.Errorf("engine: socket %v: %w", sock.Addr(), err)
		}
	}
	return &Listener{e: e, sock: sock}, nil
}
