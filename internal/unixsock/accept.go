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

	// Busy says why no connection can be accepted at present. It is asked before each
	// attempt, and again busyPause later. Nil: never busy.
	Busy func() error

	// Failed is called when a connection is not accepted now and a later attempt may
	// succeed, at most once in reportInterval. Nil: nothing is called.
	Failed func(error)

	reported time.Time
}

const (
	busyPause      = 5 * time.Millisecond
	failurePause   = 100 * time.Millisecond
	reportInterval = 10 * time.Second
)

// Next waits for a connection. It returns nil and no error when ctx has ended; after
// that the listener accepts nothing any more. An error means that no later attempt can
// succeed, as when the listener was closed.
func (a *Acceptor) Next(ctx context.Context) (*net.UnixConn, error) {
	stop := context.AfterFunc(ctx, func() { _ = a.Listener.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		conn, pause, err := a.attempt()
		switch {
		case ctx.Err() != nil:
			if conn != nil {
				go conn.Close() // descriptors may lie in it
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

// attempt returns a connection, or an error and after which time to try again, 0: never.
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

// temporary errors of accept: the system is short of something, or the peer is gone.
var temporary = []error{
	unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ECONNABORTED, unix.EPROTO, unix.EINTR, unix.EAGAIN,
}

// Temporary reports whether accept may succeed later although it failed with err.
func Temporary(err error) bool {
	return slices.ContainsFunc(temporary, func(e error) bool { return errors.Is(err, e) })
}
