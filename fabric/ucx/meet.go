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

// waitTime is how long a meeting waits for this engine's process to start again. A start takes some tens of
// milliseconds.
const waitTime = 2 * time.Second

var (
	errNoProcess = errors.New("the process has ended meanwhile")
	errBanned    = errors.New("its worker address has ended the process of this engine")
	errKeys      = errors.New("keys")
)

// await returns the process, if one is ready within waitTime.
func (c *Carrier) await() (*process, error) {
	late := time.NewTimer(waitTime)
	defer late.Stop()
	for {
		c.mu.Lock()
		p, ready, down := c.process, c.ready, c.down
		c.mu.Unlock()
		if p != nil {
			return p, nil
		}
		select {
		case <-ready:
		case <-late.C:
			return nil, fmt.Errorf("its process is not there: %s", down)
		case <-c.stop:
			return nil, errors.New(closedHere)
		}
	}
}

// newConn returns what this side offers for a new connection.
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

// call meets the engine at a target, which this side connects
// to. It returns when the connection has ended, and why.
func (c *Carrier) call(t *target) error {
	p, err := c.await()
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
	until := time.Now().Add(meetingTime + waitTime) // the peer may wait for its process
	_ = tcp.SetDeadline(until)
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
	if err == nil {
		_ = tcp.SetReadDeadline(time.Time{})
		err = c.join(k, &o, true)
		if err != nil {
			w.bye("refused: " + err.Error())
			return fmt.Errorf("this engine refuses it: %w", err)
		}
		stop()
		return c.attend(k)
	}
	return noAnswer(err)
}

// portless returns the cause of an error of a connection without its addresses: the port on this side is
// another one each time, and the log and reports say what is new. A reset is one, whether a read or a write
// has noticed it.
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

// noAnswer adds words to an error without a reason, and leaves the ports out of one that names them.
func noAnswer(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the other side has closed the connection without a word")
	}
	return portless(err)
}

// called meets an engine that has connected, and has sent a preamble, which may be of another version.
func (c *Carrier) called(
	at *port, h *half, conn *net.TCPConn, from netip.Addr, theirs preamble, wrong error,
) {
	until := time.Now().Add(meetingTime)
	_ = conn.SetDeadline(until)
	mine := preamble{protocol, kindMeeting, c.flags(from)}
	_, err := conn.Write(mine.append(nil))
	var w *wire
	var o offer
	if err == nil && wrong == nil {
		w, err = c.handshake(conn, from, theirs, mine, false, until)
	} else if wrong != nil {
		err = wrong
	}
	if err == nil {
		o, err = w.readOffer()
	}
	if err == nil {
		// From here on it is no stranger, as far as one can know.
		err = c.greet(at, h, w, &o)
	}
	if err == nil {
		return
	}
	if c.crowd.leave(h) {
		if w != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			c.strangerLog.Warn("peer refused", "peer", conn.RemoteAddr().String(), "why", err)
			w.bye("refused: " + err.Error())
		}
		_ = conn.Close() // not by a reset: it would take back what was sent
		c.recordDropped(from, causeOf(err, causeRefused), err)
	}
}

// greet answers an offer, and attends the connection until it ends. An error is why the engine was refused.
func (c *Carrier) greet(at *port, h *half, w *wire, o *offer) error {
	if o.hello.guid == c.hello.guid {
		return fmt.Errorf("its GUID %016x is that of this engine", o.hello.guid)
	}
	p, err := c.await()
	if err != nil {
		return err
	}
	k, own := c.newConn(p, w, at)
	if err := c.join(k, o, false); err != nil {
		return err
	}
	if !c.crowd.leave(h) {
		return nil // it was closed to make room; attend notices that
	}
	_ = w.conn.SetReadDeadline(time.Time{})
	if err := w.send(frameOffer, own.append(nil)); err != nil {
		c.hangUp(k, err.Error())
	}
	_ = c.attend(k)
	return nil
}

// attend reads what a peer sends over its wire, and sends what has changed here, until the connection has
// ended. It returns why.
func (c *Carrier) attend(k *conn) error {
	defer k.wire.conn.Close()
	ends := make(chan struct{})
	defer close(ends)
	go func() {
		for {
			select {
			case <-k.news:
				c.mu.Lock()
				h, again := c.hello, k.helloSent != c.hello.sequence
				k.helloSent = h.sequence
				c.mu.Unlock()
				if again {
					_ = k.wire.send(frameHello, h.append(nil)) // attend notices a wire that takes no bytes
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
