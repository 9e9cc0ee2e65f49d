//go:build linux && (amd64 || arm64)

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// helloTime is how long a new connection may be silent.
const helloTime = 10 * time.Second

// answerBuffer is the size in bytes that a connection's send buffer is set to; the kernel
// doubles it. The buffer holds answers that the client has not read. The charge for a
// client includes the buffer.
const answerBuffer = 32 << 10

// threadCost is the cost of the thread that may block while it closes a connection.
var threadCost = nic.Cost{Connections: 1}

// Serve accepts and serves clients until ctx ends. Then it closes the socket and every
// connection, waits at most five seconds until the last client is gone, and returns nil. An
// error means that the socket failed. Call Serve once only.
func (l *Listener) Serve(ctx context.Context) error {
	var clients sync.WaitGroup
	defer unixsock.WaitFor(&clients, unixsock.Patience)
	defer l.close()
	next := unixsock.Acceptor{Listener: l.socket, Busy: l.busy, Failed: func(err error) {
		l.device.Report(nic.UnknownUser, slog.LevelWarn, "connection not accepted", "error", err)
	}}
	for {
		conn, err := next.Next(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("server: %w", err)
		case conn == nil: // ctx has ended
			return nil
		}
		cred, err := l.admit(conn)
		if err != nil {
			continue
		}
		clients.Add(1)
		go func() {
			defer clients.Done()
			l.serve(ctx, conn, cred)
		}()
	}
}

// serve serves one connection that was admitted, until the connection or ctx ends. Each call of
// session.serveRequest reads one request and answers it. At the end serve destroys what the client has made.
func (l *Listener) serve(ctx context.Context, conn *net.UnixConn, cred *unix.Ucred) {
	cost := connectionCost // what to refund when the connection is closed
	defer func() { l.device.DiscardConnection(cred.Uid, conn, cost) }()
	defer l.unread.wait(ctx, conn)
	defer unixsock.HangUp(conn) // the client sees it at once
	c, err := l.device.Attach(nameOf(cred), cred.Uid, nic.Hosted{PID: int(cred.Pid)})
	if err != nil {
		l.device.Report(cred.Uid, slog.LevelWarn, "client refused", "client", nameOf(cred), "error", err)
		return
	}
	l.device.Report(cred.Uid, slog.LevelInfo, "client connected", "client", c.Name())
	defer func() {
		// c.Close refunds the thread of the client. Closing the connection may block
		// another thread, so that thread is charged before the refund.
		_ = l.device.Incur(cred.Uid, threadCost)
		cost = cost.Plus(threadCost)
		_ = c.Close()
		l.device.Report(cred.Uid, slog.LevelInfo, "client gone", "client", c.Name())
	}()
	// When ctx ends, the connection is hung up, not closed. If it were closed here, the
	// goroutine that reads would be the last user of the descriptor and would have to close
	// it, and closing can block.
	stop := context.AfterFunc(ctx, func() { unixsock.HangUp(conn) })
	defer stop()
	_ = conn.SetWriteBuffer(answerBuffer)
	_ = conn.SetReadDeadline(time.Now().Add(helloTime))
	s := session{client: c, conn: conn, uid: cred.Uid, unread: l.unread}
	for ctx.Err() == nil {
		if err := s.serveRequest(); err != nil {
			if ctx.Err() == nil && !errors.Is(err, errEnd) {
				l.device.Report(cred.Uid, slog.LevelWarn, "connection ended", "client", c.Name(),
					"error", err)
			}
			return
		}
	}
}
