//go:build linux && (amd64 || arm64)

package ucx

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A port is a TCP port of the carrier. Engines meet there, and the connections of libucx begin there.
type port struct {
	listener   *net.TCPListener
	forEngines bool // engines may meet here; if false, only connections of libucx with a ticket are accepted
}

// listenAt opens a port. forEngines says whether engines may meet there.
func (c *Carrier) listenAt(a *net.TCPAddr, forEngines bool) (*port, error) {
	l, err := net.ListenTCP("tcp", a)
	if err != nil {
		return nil, fmt.Errorf("ucx: cannot listen at %v: %w", a, errors.Unwrap(err))
	}
	p := &port{listener: l, forEngines: forEngines}
	c.loops.Add(1)
	go c.accept(p)
	return p, nil
}

func (p *port) address() *net.TCPAddr { return p.listener.Addr().(*net.TCPAddr) }

// onAllAddresses reports whether the port is one of all addresses of the host.
func (p *port) onAllAddresses() bool { return p.address().IP.IsUnspecified() }

// portFor returns the port that this engine names to a peer, after it has connected to the peer from a local
// address. It is the port of Config.Listen, or without that a port at the local address that is only for
// connections of libucx.
func (c *Carrier) portFor(local *net.TCPAddr) (*port, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listening != nil {
		return c.listening, nil
	}
	key := local.AddrPort().Addr()
	if p := c.ports[key]; p != nil {
		return p, nil
	}
	if c.closing() {
		return nil, net.ErrClosed
	}
	p, err := c.listenAt(&net.TCPAddr{IP: local.IP, Zone: local.Zone}, false)
	if err == nil {
		c.ports[key] = p
	}
	return p, err
}

// accept accepts connections until the port is closed.
func (c *Carrier) accept(p *port) {
	defer c.loops.Done()
	for {
		conn, err := p.listener.AcceptTCP()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Too many descriptors, for example.
			select {
			case <-c.stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		from := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		covers := func(p netip.Prefix) bool { return p.Contains(from.WithZone("")) }
		if p.forEngines && len(c.cfg.Peers) > 0 && !slices.ContainsFunc(c.cfg.Peers, covers) {
			c.drop(conn, from, causeAddress, errors.New("peer= does not allow its address"))
			continue
		}
		pending, displaced := c.strangers.add(conn, from)
		if displaced {
			c.recordDropped(from, causeTooMany, fmt.Errorf("%d connections have sent too little", mostPendingEach))
		}
		c.loops.Add(1)
		go func() {
			defer c.loops.Done()
			c.dispatch(p, pending, conn, from)
		}()
	}
}

// drop closes a connection of a stranger by a reset, so nothing of it stays in the kernel, and counts it.
func (c *Carrier) drop(conn *net.TCPConn, from netip.Addr, why cause, err error) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
	c.recordDropped(from, why, err)
}

// recordDropped counts a connection that was dropped, and logs it. The log has a line about each refused
// key, up to the limit of that log, and about other causes a line a minute.
func (c *Carrier) recordDropped(from netip.Addr, why cause, err error) {
	logs := c.strangers.countDropped(why)
	if why == causeKeys { // each line names another key, which the owner may want to accept
		c.keysLog.Warn("peer refused", "from", from.String(), "why", err)
		return
	}
	if logs {
		c.strangerLog.Warn("a connection to the link's port was dropped", "from", from.String(), "why", err, "so far", c.strangers.counts[why].Load())
	}
}

// dispatch reads the preamble of a connection, and begins what its kind says: a meeting, or a connection of
// libucx. A meeting begins also if the preamble is of another version, so that the other engine gets this
// engine's version.
func (c *Carrier) dispatch(p *port, pending *pendingConn, conn *net.TCPConn, from netip.Addr) {
	until := time.Now().Add(greetTime)
	_ = conn.SetDeadline(until)
	var b [preambleSize]byte
	_, err := io.ReadFull(conn, b[:])
	var theirs preamble
	if err == nil {
		theirs, err = parsePreamble(b[:])
	}
	otherVersion := errors.As(err, new(errVersion))
	meets := theirs.kind == kindMeeting && p.forEngines
	switch {
	case err == nil && theirs.kind == kindSocket:
		err = c.admit(conn)
		if c.strangers.remove(pending) && err != nil {
			c.drop(conn, from, causeOf(err, causeTicket), err)
		}
	case meets && !c.strangers.takeMeeting(from, time.Now()):
		c.strangers.remove(pending)
		c.drop(conn, from, causeTooOften, fmt.Errorf("its address has met this engine more than %d times a second", meetingsRate))
	case meets && (err == nil || otherVersion):
		c.answerMeeting(p, pending, conn, from, theirs, err)
	default:
		if err == nil {
			err = errJunk
		}
		if c.strangers.remove(pending) {
			c.drop(conn, from, causeOf(err, causeJunk), err)
		}
	}
}

// causeOf returns why a connection was dropped: a cause that the error names, or the cause otherwise.
func causeOf(err error, otherwise cause) cause {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return causeSlow
	case errors.As(err, new(errVersion)):
		return causeVersion
	case errors.Is(err, errBanned):
		return causeBanned
	case errors.Is(err, errKeys):
		return causeKeys
	}
	return otherwise
}

var errTicket = errors.New("a connection for UCX without a ticket of this engine")

// admit gives a connection to the process, for libucx, if the connection brings a ticket. A ticket admits one
// connection, and is used up then.
func (c *Carrier) admit(conn *net.TCPConn) error {
	var b [ticketSize + doorSize]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return err
	}
	ticket, door := [ticketSize]byte(b[:]), doorName(b[ticketSize:])
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.tickets[ticket]
	if !ok || c.process == nil || !slices.Contains(c.process.doors, door) {
		return errTicket
	}
	delete(c.tickets, ticket)
	_ = conn.SetDeadline(time.Time{})
	_ = c.sendSocket(c.process, &message{kind: msgSocket, body: door[:]}, conn)
	return conn.Close() // closes the descriptor of this process; the other process has its own
}

// sendSocket sends a message with a connection to the process.
func (c *Carrier) sendSocket(p *process, m *message, conn *net.TCPConn) error {
	inner, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	control, err := p.control.SyscallConn()
	if err != nil {
		return err
	}
	_ = p.control.SetWriteDeadline(time.Now().Add(sendTime))
	sent := errors.New("ucx: the connection is closed")
	err = inner.Control(func(fd uintptr) {
		err := control.Write(func(to uintptr) bool {
			sent = unix.Sendmsg(int(to), m.append(nil), unix.UnixRights(int(fd)), nil, unix.MSG_NOSIGNAL)
			return !errors.Is(sent, unix.EAGAIN)
		})
		if err != nil {
			sent = err
		}
	})
	return errors.Join(err, sent)
}
