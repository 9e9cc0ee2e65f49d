//go:build linux && (amd64 || arm64)

package unixsock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// An Acceptor accepts connections and survives times in which the system is short of
// descriptors or memory. One goroutine uses it.
type Acceptor struct {
	Listener *net.UnixListener

	// Busy returns an error that says why no connection can be accepted at present, or
	// nil. It is called before each attempt; after an error it is called again busyPause
	// later. If Busy is nil, the Acceptor is never busy.
	Busy func() error

	// Failed is called when no connection can be accepted now but a later attempt may
	// succeed. It is called at most once in reportInterval. Failed may be nil.
	Failed func(error)

	reported time.Time
}

const (
	busyPause      = 5 * time.Millisecond
	failurePause   = 100 * time.Millisecond
	reportInterval = 10 * time.Second
)

// Next waits for a connection. When ctx has ended it returns nil and no error; the listener
// then accepts no more connections. An error means that no later attempt can succeed, for
// example because the listener was closed.
func (a *Acceptor) Next(ctx context.Context) (*net.UnixConn, error) {
	stop := context.AfterFunc(ctx, func() { _ = a.Listener.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		conn, pause, err := a.attempt()
		switch {
		case ctx.Err() != nil:
			if conn != nil {
				go conn.Close() // the connection may hold descriptors, so closing it can block
			}
			return nil, nil
		case err == nil:
			return conn, nil
		case pause == 0:
			return nil, fmt.Errorf("accept: %w", err)
		}
		if a.Failed != nil && time.Since(a.reported) > reportInterval {
			a.reported = time.Now()
			a.Failed(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// attempt returns a connection, or an error and the time to wait before another attempt. A
// time of 0 means that no other attempt can succeed.
func (a *Acceptor) attempt() (conn *net.UnixConn, pause time.Duration, err error) {
	if a.Busy != nil {
		if err := a.Busy(); err != nil {
			return nil, busyPause, err
		}
	}
	conn, err = a.Listener.AcceptUnix()
	if Temporary(err) {
		return nil, failurePause, err
	}
	return conn, 0, err
}

// temporary has the errors of accept after which a later attempt may succeed: the system is
// short of something, or the peer is gone.
var temporary = []error{
	unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ECONNABORTED, unix.EPROTO, unix.EINTR,
	unix.EAGAIN,
}

// Temporary reports whether accept may succeed later although it failed with err.
func Temporary(err error) bool {
	return slices.ContainsFunc(temporary, func(e error) bool { return errors.Is(err, e) })
}
