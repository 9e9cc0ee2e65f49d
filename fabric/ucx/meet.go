//go:build linux && (amd64 || arm64)

package ucx

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// Two engines meet over a TCP connection: each sends a preamble (version.go), they authenticate each other
// if both have keys (keys.go), and each sends an offer (offer.go). connectTo is the side that connects,
// answerMeeting the other side. After the meeting, serveWire serves the connection at both sides.

// waitTime is how long a meeting waits for this engine's process to start again. A start takes some tens of
// milliseconds.
const waitTime = 2 * time.Second

var (
	errNoProcess = errors.New("the process has ended meanwhile")
	errBanned    = errors.New("its worker address has ended the process of this engine")
	errKeys      = errors.New("keys")
)

// awaitProcess returns the process. It waits until the process is ready, for waitTime at most.
func (c *Carrier) awaitProcess() (*process, error) {
	timeout := time.NewTimer(waitTime)
	defer timeout.Stop()
	for {
		c.mu.Lock()
		p, ready, down := c.process, c.ready, c.down
		c.mu.Unlock()
		if p != nil {
			return p, nil
		}
		select {
		case <-ready:
		case <-timeout.C:
			return nil, fmt.Errorf("its process is not there: %s", down)
		case <-c.stop:
			return nil, errors.New(closedHere)
		}
	}
}

// newConn returns a new connection, which has no peer yet, and the offer for it. at is the port that the
// offer names.
func (c *Carrier) newConn(p *process, w *wire, at *port) (*conn, *offer) {
	k := &conn{process: p, wire: w, news: make(chan struct{}, 1)}
	_, _ = rand.Read(k.token[:])
	k.tickets = make([][ticketSize]byte, maxTickets)
	for i := range k.tickets {
		_, _ = rand.Read(k.tickets[i][:])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k.helloSent = c.hello.sequence
	return k, &offer{
		token: k.token, port: uint16(at.address().Port), anywhere: at.anywhere(), doors: p.doors,
		tickets: k.tickets, worker: p.worker, hello: c.hello,
	}
}

// connectTo connects to a target, meets the engine there, and serves the connection. It returns when the
// connection has ended, and why it has ended.
func (c *Carrier) connectTo(t *target) error {
	p, err := c.awaitProcess()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.life, meetingTime)
	defer cancel()
	dialled, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.to)
	if err != nil {
		return portless(err)
	}
	tcp := dialled.(*net.TCPConn)
	defer tcp.Close()
	until := time.Now().Add(meetingTime + waitTime) // the peer may have to wait for its process
	_ = tcp.SetDeadline(until)
	// Close ends the meeting.
	stop := context.AfterFunc(c.life, func() { _ = tcp.SetDeadline(time.Now()) })
	defer stop()
	at, err := c.portFor(tcp.LocalAddr().(*net.TCPAddr))
	if err != nil {
		return err
	}
	from := tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	mine := preamble{protocol, kindMeeting, c.flags(from)}
	if _, err := tcp.Write(mine.append(nil)); err != nil {
		return noAnswer(err)
	}
	var b [preambleSize]byte
	if _, err := io.ReadFull(tcp, b[:]); err != nil {
		return noAnswer(err)
	}
	theirs, err := parsePreamble(b[:])
	if errors.Is(err, errJunk) {
		return errors.New("the other side does not speak as nicless does")
	} else if err != nil {
		return err
	}
	w, err := c.handshake(tcp, from, theirs, mine, true, until)
	if errors.Is(err, errKeys) {
		return err
	} else if err != nil {
		return noAnswer(err)
	}
	k, own := c.newConn(p, w, at)
	k.target = t
	if err := w.put(frameOffer, own.append(nil), until); err != nil {
		return noAnswer(err)
	}
	o, err := w.readOffer()
	if err != nil {
		return noAnswer(err)
	}
	_ = tcp.SetReadDeadline(time.Time{})
	if err := c.join(k, &o, true); err != nil {
		w.bye("refused: " + err.Error())
		return fmt.Errorf("this engine refuses it: %w", err)
	}
	stop()
	return c.serveWire(k)
}

// portless returns the cause of an error of a connection, without the addresses. The port of this side
// differs at each attempt, and the log and reports would take the same error for a new one. EPIPE becomes
// ECONNRESET: a write may notice the same reset as a read.
func portless(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		err = op.Err
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err
	}
	if errors.Is(err, syscall.EPIPE) {
		err = syscall.ECONNRESET
	}
	return err
}

// noAnswer returns the error of a meeting that the other side has ended, for the log and reports: in words
// if the error only says that the connection was closed, otherwise without ports.
func noAnswer(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the other side has closed the connection without a word")
	}
	return portless(err)
}

// answerMeeting meets an engine that has connected to a port, and serves the connection. theirs is the
// preamble of the engine. wrongVersion is nil, or the error of parsePreamble if the preamble is of another
// version: then this engine answers with its own preamble, and refuses the other engine.
func (c *Carrier) answerMeeting(
	at *port, pending *pendingConn, conn *net.TCPConn, from netip.Addr, theirs preamble, wrongVersion error,
) {
	until := time.Now().Add(meetingTime)
	_ = conn.SetDeadline(until)
	mine := preamble{protocol, kindMeeting, c.flags(from)}
	_, err := conn.Write(mine.append(nil))
	if wrongVersion != nil {
		err = wrongVersion
	}
	var w *wire
	if err == nil {
		w, err = c.handshake(conn, from, theirs, mine, false, until)
	}
	var o offer
	if err == nil {
		o, err = w.readOffer()
	}
	if err == nil {
		err = c.acceptOffer(at, pending, w, &o)
	}
	if err == nil {
		return
	}
	if c.strangers.remove(pending) { // if not, it was closed to make room, and counted
		if w != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			c.strangerLog.Warn("peer refused", "peer", conn.RemoteAddr().String(), "why", err)
			w.bye("refused: " + err.Error())
		}
		_ = conn.Close() // not by a reset: it would take back what was sent
		c.recordDropped(from, causeOf(err, causeRefused), err)
	}
}

// acceptOffer checks the offer of an engine that has connected, answers with an offer, and serves the
// connection until it ends. An error says why the engine was refused.
func (c *Carrier) acceptOffer(at *port, pending *pendingConn, w *wire, o *offer) error {
	if o.hello.guid == c.hello.guid {
		return fmt.Errorf("its GUID %016x is that of this engine", o.hello.guid)
	}
	p, err := c.awaitProcess()
	if err != nil {
		return err
	}
	k, own := c.newConn(p, w, at)
	if err := c.join(k, o, false); err != nil {
		return err
	}
	// The engine is no stranger any more.
	if !c.strangers.remove(pending) {
		return nil // it was closed to make room; the process ends it, because no message comes over UCX
	}
	_ = w.conn.SetReadDeadline(time.Time{})
	if err := w.send(frameOffer, own.append(nil)); err != nil {
		c.hangUp(k, err.Error())
	}
	_ = c.serveWire(k)
	return nil
}

// serveWire receives a peer's changed hellos over the wire, and sends this engine's changed hello, until the
// connection has ended. It returns why the connection has ended.
func (c *Carrier) serveWire(k *conn) error {
	defer k.wire.conn.Close()
	ends := make(chan struct{})
	defer close(ends)
	go func() {
		for {
			select {
			case <-k.news:
				c.mu.Lock()
				h, isNew := c.hello, k.helloSent != c.hello.sequence
				k.helloSent = h.sequence
				c.mu.Unlock()
				if isNew {
					// If the wire takes no bytes, receive fails below.
					_ = k.wire.send(frameHello, h.append(nil))
				}
			case <-ends:
				return
			}
		}
	}()
	for {
		kind, body, err := k.wire.receive(maxHello)
		switch {
		case err != nil:
			why := "the peer has gone"
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				why = text([]byte(portless(err).Error()))
			}
			return c.hangUp(k, why)
		case kind == frameBye:
			return c.hangUp(k, closeReason(body))
		case kind == frameHello:
			h, err := parseHello(body)
			if err == nil {
				err = c.renewed(k, h)
			}
			if err != nil {
				c.strangerLog.Warn("peer refused", "peer", k.peer.remote, "why", err)
				return c.hangUp(k, "its hello is not valid: "+err.Error())
			}
		default:
			return c.hangUp(k, fmt.Sprintf("the peer has sent a frame of kind %d", kind))
		}
	}
}
