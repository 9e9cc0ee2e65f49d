//go:build linux && (amd64 || arm64)

package torture

import (
	"errors"
	"net"
	"os"
	"slices"
	"time"

	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

// lingeringSockets is how many sockets a lingerer sends on each of its turns.
const lingeringSockets = 200

// mostRights is the most descriptors of a message that an engine reads.
const mostRights = 12

// linger sends descriptors whose last close blocks for as long as the lingerer wants. It sends
// them in requests of every kind and on connections that end at once. The engine has to close
// them, and no other client may wait for that. If the engine has set its sockets to accept no
// descriptors, each send fails with EPERM.
func (v *hostile) linger() error {
	s, err := newLingering()
	if err != nil {
		return err
	}
	defer s.close()
	for range lingeringSockets {
		c, err := v.dial()
		if err != nil {
			return err
		}
		_ = v.lingerOnce(c, s) // this client may have to wait, but the visitor must not
		c.close()
		v.pause(2 * time.Millisecond)
	}
	v.did(0)
	time.Sleep(time.Duration(v.spec.Seed%3) * time.Second) // blocked closes add up
	return nil
}

func (v *hostile) lingerOnce(c *raw, s *lingering) error {
	if v.r.IntN(3) > 0 {
		if err := c.hello(); err != nil {
			return err
		}
	}
	f, err := s.socket()
	if err != nil {
		return err
	}
	b := control.Append(nil, control.Op(v.r.IntN(int(highestOp))), 0, 1, &control.Empty{})
	if v.r.IntN(4) == 0 {
		b = []byte("garbage")
	}
	// Send several copies: while the close of one copy blocks, the copies after it have to wait.
	fds := slices.Repeat([]int{int(f.Fd())}, mostRights-v.r.IntN(mostRights)/4)
	for range 1 + v.r.IntN(3) {
		v.did(1)
		if err = c.send(b, fds...); err != nil {
			break
		}
	}
	// In most cases this is not the last close, because the message has copies. If it is the
	// last, it blocks.
	go f.Close()
	if err != nil {
		return err
	}
	if v.r.IntN(2) == 0 {
		return nil // disconnect at once, perhaps before the connection is accepted
	}
	_, _, err = c.receive()
	return err
}

// A lingering makes sockets whose close blocks until lingering.close.
type lingering struct {
	listen *net.TCPListener
	peers  []net.Conn
}

func newLingering() (*lingering, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	return &lingering{listen: l}, err
}

// close ends the blocking of all sockets. It closes their peers, which have unread bytes, and
// that resets the sockets.
func (s *lingering) close() {
	for _, p := range s.peers {
		_ = p.Close()
	}
	_ = s.listen.Close()
}

// socket returns a connected socket with bytes that are not read.
func (s *lingering) socket() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "lingering")
	to := s.listen.Addr().(*net.TCPAddr)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4096)
	if err = unix.Connect(fd, &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}); err == nil {
		var peer *net.TCPConn
		if peer, err = s.listen.AcceptTCP(); err == nil {
			_ = peer.SetReadBuffer(4096)
			s.peers = append(s.peers, peer)
			err = unix.SetNonblock(fd, true)
		}
	}
	for b := make([]byte, 1<<16); err == nil; {
		_, err = unix.Write(fd, b)
	}
	if errors.Is(err, unix.EAGAIN) {
		err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600})
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
