package engine

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

// A session is the datagrams of one connection.
type session struct {
	client *Client
	conn   *net.UnixConn
	in     [control.MaxMessage + 1]byte
	out    []byte
}

var (
	errEnd    = errors.New("the client has closed")
	errDesync = errors.New("not a request of this protocol")
)

// next serves one request. An error ends the connection.
func (s *session) next() error {
	n, _, flags, err := Peek(s.conn, s.in[:], nil)
	switch {
	case err != nil:
		return err
	case flags&unix.MSG_CTRUNC != 0:
		// Kernels before 6.16 bring them. They stay in the connection, which a closer
		// closes.
		return fmt.Errorf("%w: descriptors came along; a client sends none", errDesync)
	case n == 0:
		return errEnd
	}
	if err := Take(s.conn); err != nil {
		return err
	}
	h, payload, err := control.ParseHeader(s.in[:n])
	if err != nil || h.Flags != 0 || flags&unix.MSG_TRUNC != 0 {
		return fmt.Errorf("%w: %d bytes", errDesync, n)
	}
	if !s.client.greeted && h.Op != control.OpHello {
		return s.refuse(h, control.Errorf(control.CodeVersion, "%v before hello", h.Op))
	}
	ans, reply, err := s.call(h.Op, payload)
	if err != nil {
		var refusal *control.Error
		if !errors.As(err, &refusal) {
			return err
		}
		s.client.e.flights.sent(s.conn)
		return s.refuse(h, refusal)
	}
	if h.Op == control.OpHello {
		_ = s.conn.SetReadDeadline(time.Time{})
	}
	err = s.answer(h, ans, reply)
	if brings[h.Op] > 0 {
		s.client.e.flights.sent(s.conn)
	}
	return err
}

// brings is how many descriptors the answer to an operation brings, at the most.
var brings = map[control.Op]int{
	control.OpHello: 2, control.OpCreateChannel: 1, control.OpOpenEvents: 1, control.OpWake: 1, control.OpCreateRegion: 1,
}

// call makes a request of the device.
func (s *session) call(op control.Op, payload []byte) (ans control.Message, r control.Reply, err error) {
	if n := brings[op]; n > 0 {
		if err := s.client.e.flights.board(s.conn, s.client.uid, n); err != nil {
			return nil, r, control.Errorf(control.CodeLimit, "%v: %v", op, err)
		}
	}
	var mem Memory
	if op == control.OpCreateRegion {
		if mem, err = s.client.makeMemory(payload); err != nil {
			return nil, r, err
		}
	}
	ans, r, err = s.client.Call(op, payload, mem)
	if err != nil && mem.Region != nil {
		s.client.e.ReleaseMemory(s.client.uid, mem.Region)
	}
	if err == nil && (op == control.OpCreateCQ || op == control.OpCreateQP) {
		s.client.ForgetPages() // mapped and sealed, or there would be no queue
	}
	return ans, r, err
}

func (s *session) answer(h control.Header, m control.Message, r control.Reply) error {
	var fds []int
	if r.UAR != nil {
		fds = append(fds, int(r.UAR.File().Fd()), int(r.Status.File().Fd()))
	}
	if r.Events != nil {
		defer r.Events.Close()
		fds = append(fds, int(r.Events.Fd()))
	}
	if r.Wake != nil {
		defer r.Wake.Close()
		fds = append(fds, int(r.Wake.Fd()))
	}
	if r.Memory != nil {
		fds = append(fds, int(r.Memory.Fd()))
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	s.out = control.Append(s.out[:0], h.Op, control.FlagAnswer, h.Tag, m)
	_, _, err := s.conn.WriteMsgUnix(s.out, oob, nil)
	return err
}

func (s *session) refuse(h control.Header, e *control.Error) error {
	s.out = control.Append(s.out[:0], h.Op, control.FlagAnswer|control.FlagError, h.Tag, e)
	_, _, err := s.conn.WriteMsgUnix(s.out, nil, nil)
	return err
}
