//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
)

const (
	version   = 1
	slots     = 16 // slots of each ring, and so the most chunks under way
	maxChunk  = 64 << 20
	handshake = 5 * time.Second // how long to wait for the peer's first message

	// trailer is the immediate of the write of the trailer, which consists of the length
	// of the file (8 bytes, big-endian) and its SHA-256 (32 bytes). Any other immediate is
	// the number of a chunk, modulo trailer.
	trailer     = 1 << 31
	trailerSize = 8 + 32
)

var errEngineGone = errors.New("the engine has stopped")

// runEngine runs an engine in this process, as "nicless engine" does.
func runEngine(ctx context.Context, o options) error {
	return nicless.Serve(ctx, o.socket, 0o600, nicless.Config{Links: o.links}, func() {
		fmt.Printf("engine, pid %d, at %s\n", os.Getpid(), o.socket)
	})
}

// A nic is a client of the engine with one queue pair.
type nic struct {
	*nicless.Context
	pd *nicless.PD
	cq *nicless.CQ
	qp *nicless.QP

	who   parties // whom an answer needs
	begun mark    // mark taken when connecting began
}

func dialEngine(socket, role string) (n nic, err error) {
	n.who = parties{"engine": listenerAt(socket + nicless.LinksSuffix), role: os.Getpid()}
	n.begun = n.who.mark()
	n.Context, err = nicless.Dial(socket)
	if err != nil {
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
			err = hint{err, "start one: filecopy -role engine -socket " + socket}
		}
		return n, n.who.decide(err, n.begun)
	}
	defer func() {
		if err != nil {
			_ = n.Close()
			err = n.who.decide(err, n.begun)
		}
	}()
	n.pd, err = n.AllocPD()
	if err != nil {
		return n, err
	}
	// The default size of a CQ is more than enough for the completions of 16 writes or
	// sends and of 17 receives.
	n.cq, err = n.CreateCQ(nicless.CQConfig{})
	if err != nil {
		return n, err
	}
	n.qp, err = n.pd.CreateQP(nicless.QPConfig{SendCQ: n.cq})
	return n, err
}

// A message is sent between sender and receiver outside the queue pairs. It describes the
// queue pair of its sender, or the result of the copy.
type message struct {
	Version int                 `json:"filecopy"`
	QP      *nicless.Descriptor `json:"qp,omitempty"`
	Chunk   int                 `json:"chunk,omitempty"`  // from the receiver: size of a slot in bytes
	SHA256  string              `json:"sha256,omitempty"` // from the receiver, last message: the file is in place
	Error   string              `json:"error,omitempty"`  // from either side, last message: why it gives up
}

// A link is the stream between the two processes. It carries lines of JSON.
type link struct {
	conn net.Conn
	dec  *json.Decoder
	peer string // "sender" or "receiver"
}

func newLink(conn net.Conn, peer string) *link {
	// Neither side sends more bytes than this limit.
	return &link{conn: conn, dec: json.NewDecoder(io.LimitReader(conn, 64<<10)), peer: peer}
}

func (l *link) send(m message) error {
	m.Version = version
	_ = l.conn.SetWriteDeadline(time.Now().Add(handshake))
	err := json.NewEncoder(l.conn).Encode(m)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("the %s has gone away", l.peer)
	}
	return err
}

// receive returns the next message of the peer. It returns an error if the message says that
// the peer gives up.
func (l *link) receive() (m message, err error) {
	err = l.dec.Decode(&m)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET):
		return m, fmt.Errorf("the %s has gone away", l.peer)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return m, timeout(fmt.Sprintf("the %s has said nothing for %v; is it filecopy?", l.peer, handshake))
	case err != nil:
		return m, fmt.Errorf("the %s does not speak as filecopy does: %w", l.peer, err)
	case m.Version != version:
		return m, fmt.Errorf("the %s speaks version %d of filecopy; this is version %d", l.peer, m.Version, version)
	case m.Error != "":
		return m, reported(l.peer+": ", m.Error)
	}
	return m, nil
}

// hello is receive for the first message. It waits at most as long as the constant handshake says.
func (l *link) hello(ctx context.Context) (m message, err error) {
	_ = l.conn.SetReadDeadline(time.Now().Add(handshake))
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) })
	m, err = l.receive()
	switch {
	case !stop():
		return m, context.Cause(ctx)
	case err != nil:
		return m, err
	case m.QP == nil:
		return m, fmt.Errorf("the %s has not described its queue pair", l.peer)
	}
	return m, l.conn.SetReadDeadline(time.Time{})
}

// watch returns a context that ends when the context parent, the engine or the peer has ended,
// because the copy cannot continue then. The cause of the context says which of them has ended,
// and contains the peer's error message if the peer has sent one. The channel delivers the
// peer's last message, if that is not an error.
func watch(parent context.Context, n nic, l *link) (context.Context, <-chan message) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		<-n.Done()
		cancel(errEngineGone)
	}()
	last := make(chan message, 1)
	go func() {
		m, err := l.receive()
		if err == nil {
			last <- m
			return
		}
		cancel(err)
	}()
	return ctx, last
}

// reason returns why a copy failed: the cause of ctx's end if ctx has ended, otherwise err.
// When a peer dies, its queue pair is destroyed. The device may report that before the
// stream reports the end of the peer, and so reason waits a moment for the end of ctx.
func reason(ctx context.Context, err error) error {
	if errors.Is(err, nicless.ErrDeviceGone) {
		return errEngineGone
	}
	if work := new(cqe.WorkError); errors.As(err, &work) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
