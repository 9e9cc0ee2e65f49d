package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// helloTime is how long a new connection may be silent.
const helloTime = 10 * time.Second

// Serve accepts and serves clients until ctx ends, then closes the socket and
// every connection, and returns when the last client is gone, or after Patience.
func (l *Listener) Serve(ctx context.Context) error {
	var clients sync.WaitGroup
	defer WaitFor(&clients, Patience)
	defer l.close()
	stop := context.AfterFunc(ctx, func() { _ = l.sock.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		conn, err := l.accept(ctx)
		if err != nil || conn == nil {
			return err
		}
		cred, err := l.e.admit(conn)
		if err != nil {
			continue
		}
		clients.Add(1)
		go func() {
			defer clients.Done()
			l.e.serve(ctx, conn, cred)
		}()
	}
}

// accept returns the next connection, and none when ctx has ended. What the
// system is short of comes back when clients go.
func (l *Listener) accept(ctx context.Context) (*net.UnixConn, error) {
	const silence = 10 * time.Second
	for {
		var conn *net.UnixConn
		pause, err := 5*time.Millisecond, errBacklog // closers are at it
		if !l.e.backlogged() {
			pause = 100 * time.Millisecond
			conn, err = l.sock.AcceptUnix()
		}
		switch {
		case ctx.Err() != nil:
			if conn != nil {
				go conn.Close()
			}
			return nil, nil
		case err == nil:
			return conn, nil
		case !passing(err):
			return nil, fmt.Errorf("engine: accept: %w", err)
		}
		if time.Since(l.said) > silence {
			l.said = time.Now()
			l.e.report(Nobody, slog.LevelWarn, "connection not accepted", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

var errBacklog = errors.New("too many connections wait to be closed")

// passing reports whether another try to accept may go better.
func passing(err error) bool {
	return slices.ContainsFunc([]error{
		errBacklog, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ECONNABORTED, unix.EPROTO, unix.EINTR, unix.EAGAIN,
	}, func(e error) bool { return errors.Is(err, e) })
}

// admit charges a connection to the user at its other end. One that is refused is
// left to the closers before the next is accepted, so that none pile up elsewhere.
func (e *Engine) admit(conn *net.UnixConn) (*unix.Ucred, error) {
	cred, err := credentials(conn)
	if err != nil {
		e.discarded.connections.add(Nobody, func() { _ = conn.Close() })
		e.report(Nobody, slog.LevelWarn, "connection without credentials", "error", err)
		return nil, err
	}
	b := bill{descriptors: 1}
	if err := e.shares.charge(cred.Uid, b); err != nil {
		hangUp(conn)
		e.discardConnection(cred.Uid, conn, b)
		e.report(cred.Uid, slog.LevelWarn, "client refused", "client", nameOf(cred), "error", err)
		return nil, err
	}
	return cred, nil
}

func nameOf(cred *unix.Ucred) string { return fmt.Sprintf("pid %d uid %d", cred.Pid, cred.Uid) }

// serve serves one connection that was admitted until it or ctx ends, and destroys
// what was made on it.
func (e *Engine) serve(ctx context.Context, conn *net.UnixConn, cred *unix.Ucred) {
	held := bill{descriptors: 1} // until it is really closed
	// Descriptors may lie in it unread, so that it is closed by a closer; the client is
	// told at once.
	defer func() { e.discardConnection(cred.Uid, conn, held) }()
	defer e.flights.landed(ctx, conn)
	defer hangUp(conn)
	name := nameOf(cred)
	c, err := e.attach(name, cred.Uid, Hosted{}, shm.Create, shm.CreateSealed)
	if err != nil {
		e.report(cred.Uid, slog.LevelWarn, "client refused", "client", name, "error", err)
		return
	}
	e.report(cred.Uid, slog.LevelInfo, "client connected", "client", name)
	defer func() {
		// What the client gives back of it stays charged.
		_ = e.shares.charge(cred.Uid, bill{connections: clientBill[connections]})
		held[connections] = clientBill[connections]
		_ = c.Close()
		e.report(cred.Uid, slog.LevelInfo, "client gone", "client", c.name)
	}()
	// Not closed here: the last user of the descriptor would close it.
	stop := context.AfterFunc(ctx, func() { hangUp(conn) })
	defer stop()
	_ = conn.SetWriteBuffer(answerBuffer)
	_ = conn.SetReadDeadline(time.Now().Add(helloTime))
	s := session{client: c, conn: conn}
	for ctx.Err() == nil {
		if err := s.next(); err != nil {
			if ctx.Err() == nil && !errors.Is(err, errEnd) {
				e.report(cred.Uid, slog.LevelWarn, "connection ended", "client", c.name, "error", err)
			}
			return
		}
	}
}

// hangUp ends a connection for both sides, and leaves the descriptor.
func hangUp(conn *net.UnixConn) { _ = errors.Join(conn.CloseRead(), conn.CloseWrite()) }

// credentials says who is at the other end, from the kernel.
func credentials(conn *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return cred, errors.Join(err, credErr)
}
