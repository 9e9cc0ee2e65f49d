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
	slots     = 16 // chunks under way at most, in each ring
	maxChunk  = 64 << 20
	handshake = 5 * time.Second // for the peer to say who it is

	// trailer, as an immediate, says that the write was the trailer: 8 bytes of
	// length, big-endian, and 32 of SHA-256. Any other immediate is the number
	// of a chunk, modulo trailer.
	trailer     = 1 << 31
	trailerSize = 8 + 32
)

var errEngineGone = errors.New("the engine has stopped")

// runEngine is an engine process; "nicless engine" is the same.
func runEngine(ctx context.Context, o options) error {
	return nicless.Serve(ctx, o.socket, 0o600, nicless.Config{}, func() {
		fmt.Printf("engine, pid %d, at %s\n", os.Getpid(), o.socket)
	})
}

// A nic is a client of the engine with one queue pair.
type nic struct {
	*nicless.Context
	pd *nicless.PD
	cq *nicless.CQ
	qp *nicless.QP
}

func dialEngine(socket string) (n nic, err error) {
	if n.Context, err = nicless.Dial(socket); err != nil {
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
			err = hint{err, "start one: filecopy -role engine -socket " + socket}
		}
		return n, err
	}
	defer func() {
		if err != nil {
			_ = n.Close()
		}
	}()
	if n.pd, err = n.AllocPD(); err != nil {
		return n, err
	}
	// Completions of 16 writes or sends and of 17 receives fit many times.
	if n.cq, err = n.CreateCQ(nicless.CQConfig{}); err != nil {
		return n, err
	}
	n.qp, err = n.pd.CreateQP(nicless.QPConfig{SendCQ: n.cq})
	return n, err
}

// A message is what sender and receiver tell each other outside the queue
// pairs: where they are, how it ended.
type message struct {
	Version int                 `json:"filecopy"`
	QP      *nicless.Descriptor `json:"qp,omitempty"`
	Chunk   int                 `json:"chunk,omitempty"`  // bytes of a slot; the receiver's to say
	SHA256  string              `json:"sha256,omitempty"` // the receiver's last word: the file is in place
	Error   string              `json:"error,omitempty"`  // the last word of either, who gives up
}

// A link is the stream between the two processes, as lines of JSON.
type link struct {
	conn net.Conn
	dec  *json.Decoder
	peer string // "sender" or "receiver"
}

func newLink(conn net.Conn, peer string) *link {
	// Neither has more to say than this.
	return &link{conn: conn, dec: json.NewDecoder(io.LimitReader(conn, 64<<10)), peer: peer}
}

func (l *link) say(m message) error {
	m.Version = version
	_ = l.conn.SetWriteDeadline(time.Now().Add(handshake))
	err := json.NewEncoder(l.conn).Encode(m)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("the %s has gone away", l.peer)
	}
	return err
}

// hear returns what the peer says next. That the peer gives up is an error.
func (l *link) hear() (m message, err error) {
	err = l.dec.Decode(&m)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET):
		return m, fmt.Errorf("the %s has gone away", l.peer)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return m, fmt.Errorf("the %s has said nothing for %v; is it filecopy?", l.peer, handshake)
	case err != nil:
		return m, fmt.Errorf("the %s does not speak as filecopy does: %w", l.peer, err)
	case m.Version != version:
		return m, fmt.Errorf("the %s speaks version %d of filecopy; this is version %d", l.peer, m.Version, version)
	case m.Error != "":
		return m, fmt.Errorf("%s: %s", l.peer, m.Error)
	}
	return m, nil
}

// hello is hear for a first message, which is not waited for long.
func (l *link) hello(ctx context.Context) (m message, err error) {
	_ = l.conn.SetReadDeadline(time.Now().Add(handshake))
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) })
	m, err = l.hear()
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

// watch returns a context that ends when the copy cannot go on: its cause is
// the end of parent, of the engine, or of the peer, in the peer's own words
// where it had any. The peer's last word, if it is none of that, comes on the
// channel.
func watch(parent context.Context, n nic, l *link) (context.Context, <-chan message) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		<-n.Done()
		cancel(errEngineGone)
	}()
	last := make(chan message, 1)
	go func() {
		m, err := l.hear()
		if err == nil {
			last <- m
			return
		}
		cancel(err)
	}()
	return ctx, last
}

// reason returns why a copy failed: err, unless something else is behind it.
// A peer that dies takes its queue pair along, which the device may report
// before the stream does.
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
