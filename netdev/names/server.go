//go:build linux && (amd64 || arm64)

package names

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Limits of a Server.
const (
	MaxQuery       = 1232 // bytes of a query: what EDNS suggests for every network
	MaxConnections = 16   // TCP connections of an address at one time; more are closed at once

	// connectionsOfOne is how many of them may come from one address. A resolver needs one, and a node with
	// four addresses leaves four to others.
	connectionsOfOne = 3

	// connectionTime is how long a connection may stay without a query, or take for one.
	connectionTime = 5 * time.Second

	port = 53
)

// A Server answers at addresses of this host, by UDP and TCP. Its functions are safe for concurrent use.
type Server struct {
	zone    Zone
	through int // index of an interface
	log     *slog.Logger
	port    uint16

	mu     sync.Mutex // guards the fields below
	at     map[netip.Addr]*socket
	failed map[netip.Addr]string // why there is no socket; the log says each once
	closed bool
	all    sync.WaitGroup
}

// NewServer makes a server without addresses. It answers this host, and those who send through the interface
// of that index: nobody else hears anything, who reaches an address by another interface. log gets a line for
// each address at which it cannot answer, and can be nil.
func NewServer(z Zone, through int, log *slog.Logger) *Server {
	return &Server{zone: z, through: through, log: cmp.Or(log, slog.New(slog.DiscardHandler)), port: port,
		at: make(map[netip.Addr]*socket), failed: make(map[netip.Addr]string)}
}

// Listen answers at these addresses, and at no others from now on.
func (s *Server) Listen(list []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for ip, at := range s.at {
		if !slices.Contains(list, ip) {
			at.close()
			delete(s.at, ip)
		}
	}
	maps.DeleteFunc(s.failed, func(ip netip.Addr, _ string) bool { return !slices.Contains(list, ip) })
	for _, ip := range list {
		if s.at[ip] != nil {
			continue
		}
		at, err := open(netip.AddrPortFrom(ip, s.port), s.through)
		if err != nil {
			if s.failed[ip] != err.Error() {
				s.log.Warn("names are not answered at an address", "address", ip, "why", err.Error())
			}
			s.failed[ip] = err.Error()
			continue
		}
		delete(s.failed, ip)
		s.at[ip] = at
		s.all.Go(func() { at.serveUDP(s.zone) })
		s.all.Go(func() { at.serveTCP(s.zone) })
	}
}

// Close ends the server, and waits until nothing of it runs.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for _, at := range s.at {
		at.close()
	}
	s.mu.Unlock()
	s.all.Wait()
}

// A socket is the UDP and the TCP socket of one address.
type socket struct {
	udp *net.UDPConn
	tcp *net.TCPListener

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
	all    sync.WaitGroup // of connections
}

func open(at netip.AddrPort, through int) (*socket, error) {
	l := filtered(through)
	packets, err := l.ListenPacket(context.Background(), "udp", at.String())
	if err != nil {
		return nil, err
	}
	udp := packets.(*net.UDPConn)
	at = netip.AddrPortFrom(at.Addr(), udp.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	tcp, err := l.Listen(context.Background(), "tcp", at.String())
	if err != nil {
		return nil, errors.Join(err, udp.Close())
	}
	return &socket{udp: udp, tcp: tcp.(*net.TCPListener), open: make(map[net.Conn]bool)}, nil
}

func (s *socket) close() {
	_, _ = s.udp.Close(), s.tcp.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.open {
		_ = c.Close()
	}
}

// serveUDP answers datagrams one after the other. Those that come faster are the kernel's to drop.
func (s *socket) serveUDP(z Zone) {
	b := make([]byte, MaxQuery+1)
	for {
		n, from, err := s.udp.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n > MaxQuery {
			continue // an error of an earlier answer, or no query
		}
		if out := Answer(b[:n], z); out != nil {
			_, _ = s.udp.WriteToUDPAddrPort(out, from)
		}
	}
}

// serveTCP takes connections.
func (s *socket) serveTCP(z Zone) {
	defer s.all.Wait()
	for {
		c, err := s.tcp.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(connectionTime / 10) // no descriptor is free
			continue
		}
		if !s.keep(c) {
			_ = c.Close()
			continue
		}
		s.all.Go(func() {
			defer s.drop(c)
			for serve(c, z) == nil {
			}
		})
	}
}

// keep notes a connection, if there is room for it.
func (s *socket) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.open) >= MaxConnections || s.connectionsOf(c) >= connectionsOfOne {
		return false
	}
	s.open[c] = true
	return true
}

// connectionsOf is how many connections the client of a new one has.
func (s *socket) connectionsOf(c net.Conn) (n int) {
	for other := range s.open {
		if client(other) == client(c) {
			n++
		}
	}
	return n
}

func client(c net.Conn) netip.Addr { return c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr() }

func (s *socket) drop(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// serve answers one query of a connection.
func serve(c net.Conn, z Zone) error {
	if err := c.SetDeadline(time.Now().Add(connectionTime)); err != nil {
		return err
	}
	var length [2]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint16(length[:])
	if n > MaxQuery {
		return fmt.Errorf("names: a query of %d bytes; at most %d are possible", n, MaxQuery)
	}
	query := make([]byte, n)
	if _, err := io.ReadFull(c, query); err != nil {
		return err
	}
	out := Answer(query, z)
	if out == nil {
		return errors.New("names: not a query")
	}
	_, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
	return err
}
