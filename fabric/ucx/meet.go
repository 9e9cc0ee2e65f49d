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
// if both have keys (keys.go), and each sends an offer (offer.go). An offer names the doors of an engine's
// process: the sockets at which libucx listens (door.go). connectTo is the side that connects,
// answerMeeting the other side. After the meeting, serveWire serves the connection at both sides.

// waitTime is how long a meeting waits until this engine's process has started again. A start takes some tens
// of milliseconds.
const waitTime = 2 * time.Second

var (
	// The process of this engine has ended during the meeting.
	errNoProcess = errors.New("the process has ended meanwhile")

	// The other engine is refused: when libucp has read its worker address, this engine's process crashed.
	errBanned = errors.New("its worker address has ended the process of this engine")

	// An error about keys wraps errKeys, and begins with this word.
	errKeys = errors.New("keys")
)

// awaitProcess waits until the process is ready, for waitTime at most, and returns the process.
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

// newConn returns a new connection, which has no peer yet, and the offer that this engine sends for the
// connection. at is the port that the offer names.
func (c *Carrier) newConn(p *process, w *wire, at *port) (*conn, *offer) {
	k := &conn{process: p, wire: w, helloChanged: make(chan struct{}, 1)}
	_, _ = rand.Read(k.token[:])
	k.tickets = make([][ticketSize]byte, maxTickets)
	for i := range k.tickets {
		_, _ = rand.Read(k.tickets[i][:])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k.helloSent = c.hello.sequence
	return k, &offer{
		token: k.token, port: uint16(at.address().Port), onAllAddresses: at.onAllAddresses(), doors: p.doors,
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
		return withoutPorts(err)
	}
	tcp := dialled.(*net.TCPConn)
	defer tcp.Close()
	until := time.Now().Add(meetingTime + waitTime) // the peer may have to wait for its process
	_ = tcp.SetDeadline(until)
	// c.life ends when Carrier.Close is called. Then reads and writes of the meeting fail at once.
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
	_ = tcp.SetReadDeadline(time.Time{}) // the meeting is over
	if err := c.join(k, &o, true); err != nil {
		w.bye("refused: " + err.Error())
		return fmt.Errorf("this engine refuses it: %w", err)
	}
	stop() // from now on, leave tells the peer that this engine leaves
	return c.serveWire(k)
}

// withoutPorts returns the cause of an error of a connection, without the addresses and ports. The port of
// this side differs at each attempt, so the log and reports would take the same error for a new one. EPIPE
// becomes ECONNRESET: after a reset, a write fails with EPIPE and a read with ECONNRESET.
func withoutPorts(err error) error {
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

// noAnswer returns the error of a meeting that has failed, for the log and reports: a sentence if the other
// side has only closed the connection, otherwise the cause without ports.
func noAnswer(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the other side has closed the connection without a word")
	}
	return withoutPorts(err)
}

// answerMeeting meets an engine that has connected to the port at, and serves the connection until it ends.
// from is the engine's address, theirs its preamble. wrongVersion is nil, or the error of parsePreamble if
// the preamble is of another version: then this engine answers with its own preamble, and refuses the other
// engine.
func (c *Carrier) answerMeeting(
	at *port, pending *pendingConn, conn *net.TCPConn, from netip.Addr, theirs preamble, wrongVersion error,
) {
	w, err := c.completeMeeting(at, pending, conn, from, theirs, wrongVersion)
	if err == nil {
		return
	}
	if !c.strangers.remove(pending) {
		return // the connection was closed already, to make room for others, and was counted then
	}
	if w != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.strangerLog.Warn("peer refused", "peer", conn.RemoteAddr().String(), "why", err)
		w.bye("refused: " + err.Error())
	}
	_ = conn.Close() // not by a reset, which would discard bytes that the other engine has not read yet
	c.recordDropped(from, causeOf(err, causeRefused), err)
}

// completeMeeting is answerMeeting without the refusal. The error says why the engine is refused. w is nil
// if the engine cannot be told so.
func (c *Carrier) completeMeeting(
	at *port, pending *pendingConn, conn *net.TCPConn, from netip.Addr, theirs preamble, wrongVersion error,
) (w *wire, err error) {
	until := time.Now().Add(meetingTime)
	_ = conn.SetDeadline(until)
	mine := preamble{protocol, kindMeeting, c.flags(from)}
	_, err = conn.Write(mine.append(nil))
	if wrongVersion != nil {
		return nil, wrongVersion
	}
	if err != nil {
		return nil, err
	}
	w, err = c.handshake(conn, from, theirs, mine, false, until)
	if err != nil {
		return w, err
	}
	o, err := w.readOffer()
	if err != nil {
		return w, err
	}
	return w, c.acceptOffer(at, pending, w, &o)
}

// acceptOffer checks the offer of an engine that has connected, answers with an offer, and serves the
// connection until it ends. An error says why the engine is refused. A connection that fails later is no
// error.
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
	if !c.strangers.remove(pending) { // the engine is no stranger any more
		_ = c.hangUp(k, "its connection was closed to make room for others")
		return nil
	}
	_ = w.conn.SetReadDeadline(time.Time{})
	if err := w.send(frameOffer, own.append(nil)); err != nil {
		_ = c.hangUp(k, err.Error()) // serveWire only closes the connection then
	}
	_ = c.serveWire(k)
	return nil
}

// serveWire receives changed hellos of the peer over the wire, and sends changed hellos of this engine, until
// the connection has ended. Then it closes the wire, and returns why the connection has ended.
func (c *Carrier) serveWire(k *conn) error {
	defer k.wire.conn.Close()
	ends, unsent := make(chan struct{}), make(chan error, 1)
	defer close(ends)
	go func() {
		for {
			select {
			case <-k.helloChanged:
				c.mu.Lock()
				h, isNew := c.hello, k.helloSent != c.hello.sequence
				k.helloSent = h.sequence
				c.mu.Unlock()
				if isNew {
					// After a part of a frame, no other frame can follow. So an error ends the connection:
					// receive below fails.
					if err := k.wire.send(frameHello, h.append(nil)); err != nil {
						unsent <- err
						_ = k.wire.conn.Close()
						return
					}
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
			select {
			case err = <-unsent: // the cause
			default:
			}
			why := "the peer has gone"
			isEnd := errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
			if !isEnd {
				cause := withoutPorts(err)
				why = text([]byte(cause.Error()))
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
