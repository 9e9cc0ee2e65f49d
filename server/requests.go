//go:build linux && (amd64 || arm64)

package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// A session serves the requests of one connection. Only one goroutine uses it.
type session struct {
	client  nic.Client
	conn    *net.UnixConn
	uid     uint32
	unread  *unreadAnswers
	greeted bool                         // hello was answered
	refused bool                         // the last request was refused
	in      [control.MaxMessage + 1]byte // the request that is served; reused
	out     []byte                       // the last answer; reused
}

var (
	errEnd      = errors.New("the client has closed")
	errProtocol = errors.New("not a request of this protocol")
)

// serveRequest reads one request and answers it. An error ends the connection.
func (s *session) serveRequest() error {
	n, _, flags, err := unixsock.Peek(s.conn, s.in[:], nil)
	switch {
	case err != nil:
		return err
	case flags&unix.MSG_CTRUNC != 0:
		// This can happen before Linux 6.16. The descriptors stay in the connection and
		// are closed with it.
		return fmt.Errorf("%w: descriptors came along; a client sends none", errProtocol)
	case n == 0:
		return errEnd
	}
	if err := unixsock.Take(s.conn); err != nil {
		return err
	}
	h, payload, err := control.ParseHeader(s.in[:n])
	if err != nil || h.Flags&^control.FlagLinked != 0 || flags&unix.MSG_TRUNC != 0 {
		return fmt.Errorf("%w: %d bytes", errProtocol, n)
	}
	if !s.greeted && h.Op != control.OpHello {
		return s.refuse(h, control.Errorf(control.CodeVersion, "%v before hello", h.Op))
	}
	if s.refused && h.Flags&control.FlagLinked != 0 {
		return s.refuse(h, control.Errorf(control.CodeState, "%v: not executed, because the request before it, to which it is linked, was refused", h.Op))
	}
	ans, reply, err := s.call(h.Op, payload)
	if err != nil {
		var refusal *control.Error
		if !errors.As(err, &refusal) {
			return err
		}
		s.unread.sent(s.conn)
		return s.refuse(h, refusal)
	}
	s.refused = false
	if h.Op == control.OpHello {
		s.greeted = true
		_ = s.conn.SetReadDeadline(time.Time{})
	}
	err = s.answer(h, ans, reply)
	if answerDescriptors[h.Op] > 0 {
		s.unread.sent(s.conn)
	}
	return err
}

// answerDescriptors has, for each operation, the most descriptors that its answer carries.
var answerDescriptors = map[control.Op]int{
	control.OpHello: 2, control.OpCreateChannel: 1, control.OpOpenEvents: 1, control.OpWake: 1,
	control.OpCreateRegion: 1, control.OpWatch: 1,
}

// call makes a request of the device.
func (s *session) call(op control.Op, payload []byte) (ans control.Message, r control.Reply, err error) {
	if n := answerDescriptors[op]; n > 0 {
		if err := s.unread.charge(s.conn, s.uid, n); err != nil {
			return nil, r, control.Errorf(control.CodeLimit, "%v: %v", op, err)
		}
	}
	ans, r, err = s.client.Call(op, payload)
	if err == nil && (op == control.OpCreateCQ || op == control.OpCreateQP) {
		// The client has mapped and sealed its pages: it could not have made a queue otherwise.
		s.client.ClosePageFiles()
	}
	return ans, r, err
}

// answer sends the device's answer to the client.
func (s *session) answer(h control.Header, m control.Message, r control.Reply) error {
	var files []*os.File
	if r.UAR != nil {
		files = append(files, r.UAR.File(), r.Status.File())
	}
	for _, f := range []*os.File{r.Events, r.Wake, r.Rings} {
		if f != nil {
			defer f.Close()
			files = append(files, f)
		}
	}
	if r.Memory != nil {
		files = append(files, r.Memory)
	}
	s.out = control.Append(s.out[:0], h.Op, control.FlagAnswer, h.Tag, m)
	return unixsock.Send(s.conn, s.out, files...)
}

func (s *session) refuse(h control.Header, e *control.Error) error {
	s.refused = true
	s.out = control.Append(s.out[:0], h.Op, control.FlagAnswer|control.FlagError, h.Tag, e)
	return unixsock.Send(s.conn, s.out)
}
