package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// helloTime is how long a new connection may be silent.
const helloTime = 10 * time.Second

// Serve accepts and serves clients until ctx ends, then closes the socket and
// every connection, and returns when the last client is gone.
func (l *Listener) Serve(ctx context.Context) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	defer unlockSocket(l.lock)
	defer l.sock.Close()
	stop := context.AfterFunc(ctx, func() { _ = l.sock.Close() })
	defer stop()
	for {
		conn, err := l.sock.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ECONNABORTED):
			l.e.journal.say(slog.LevelWarn, "connection not accepted", "error", err)
			select { // descriptors come back when clients go
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		case err != nil:
			return fmt.Errorf("engine: accept: %w", err)
		}
		clients.Add(1)
		go func() {
			defer clients.Done()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			l.e.serve(conn)
		}()
	}
}

// serve serves one connection until it ends, and destroys what was made on it.
func (e *Engine) serve(conn *net.UnixConn) {
	defer conn.Close()
	cred, err := credentials(conn)
	if err != nil {
		e.journal.say(slog.LevelWarn, "connection without credentials", "error", err)
		return
	}
	name := fmt.Sprintf("pid %d uid %d", cred.Pid, cred.Uid)
	c, err := e.attach(name, cred.Uid, shm.Create, shm.CreateReadOnly)
	if err != nil {
		e.journal.say(slog.LevelWarn, "client refused", "client", name, "error", err)
		return
	}
	e.journal.say(slog.LevelInfo, "client connected", "client", name)
	defer func() {
		_ = c.Close()
		e.journal.say(slog.LevelInfo, "client gone", "client", name)
	}()
	_ = conn.SetReadDeadline(time.Now().Add(helloTime))
	s := session{client: c, conn: conn}
	for {
		if err := s.next(); err != nil {
			if !errors.Is(err, net.ErrClosed) && !errors.Is(err, errEnd) {
				e.journal.say(slog.LevelWarn, "connection ended", "client", name, "error", err)
			}
			return
		}
	}
}

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
