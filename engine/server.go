package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// helloTime is how long a new connection may be silent.
const helloTime = 10 * time.Second

// A Listener accepts clients on a unix socket.
type Listener struct {
	e    *Engine
	sock *net.UnixListener
	lock *os.File // held as long as the socket is ours
}

// Listen makes a socket at path, which other processes connect to; mode is its
// permission bits, which decide who may. A socket left behind by an engine that
// is gone is replaced; one that still answers is an error. PATH.lock beside it
// keeps two engines that start together apart.
func (e *Engine) Listen(path string, mode fs.FileMode) (_ *Listener, err error) {
	lock, err := lockSocket(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unlockSocket(lock)
		}
	}()
	addr := &net.UnixAddr{Name: path, Net: "unixpacket"}
	if st, err := os.Lstat(path); err == nil {
		if st.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("engine: %s exists and is not a socket", path)
		}
		c, err := net.DialUnix("unixpacket", nil, addr)
		switch {
		case err == nil:
			_ = c.Close()
			return nil, fmt.Errorf("engine: another engine is listening at %s", path)
		case !errors.Is(err, unix.ECONNREFUSED): // of another kind, full, or not ours to ask
			return nil, fmt.Errorf("engine: %s is in use: %w", path, err)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("engine: socket left behind: %w", err)
		}
	}
	// A socket's file gets the mode that its descriptor has, so nobody can
	// connect between bind and chmod who may not afterwards.
	private := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		return errors.Join(raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0) }), err)
	}}
	sock, err := private.Listen(context.Background(), addr.Net, path)
	if err != nil {
		return nil, fmt.Errorf("engine: socket: %w", err)
	}
	if err := os.Chmod(path, mode.Perm()); err != nil {
		_ = sock.Close()
		return nil, fmt.Errorf("engine: socket: %w", err)
	}
	return &Listener{e: e, sock: sock.(*net.UnixListener), lock: lock}, nil
}

// lockSocket takes the lock of a socket path, which lasts until the file is
// closed. Who removes a lock file holds it, so a lock that was taken counts
// only if the file is still the one at that path.
func lockSocket(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("engine: socket: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("engine: another engine is listening at %s", path)
		}
		mine, err := f.Stat()
		if there, err2 := os.Lstat(f.Name()); err == nil && err2 == nil && os.SameFile(mine, there) {
			return f, nil
		}
		_ = f.Close()
	}
}

func unlockSocket(f *os.File) {
	_ = os.Remove(f.Name())
	_ = f.Close()
}

// Serve accepts and serves clients until ctx ends, then closes the socket and
// every connection, and returns when the last client is gone.
func (l *Listener) Serve(ctx context.Context) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	defer unlockSocket(l.lock)
	defer l.sock.Close()
	stop := context.AfterFunc(ctx, func() { _ = l.sock.Close() })
	defer stop()
	for {
		conn, err := l.sock.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ECONNABORTED):
			l.e.journal.say(slog.LevelWarn, "connection not accepted", "error", err)
			select { // descriptors come back when clients go
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		case err != nil:
			return fmt.Errorf("engine: accept: %w", err)
		}
		clients.Add(1)
		go func() {
			defer clients.Done()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			l.e.serve(conn)
		}()
	}
}

// serve serves one connection until it ends, and destroys what was made on it.
func (e *Engine) serve(conn *net.UnixConn) {
	defer conn.Close()
	cred, err := credentials(conn)
	if err != nil {
		e.journal.say(slog.LevelWarn, "connection without credentials", "error", err)
		return
	}
	name := fmt.Sprintf("pid %d uid %d", cred.Pid, cred.Uid)
	c, err := e.attach(name, cred.Uid, shm.Create, shm.CreateReadOnly)
	if err != nil {
		e.journal.say(slog.LevelWarn, "client refused", "client", name, "error", err)
		return
	}
	e.journal.say(slog.LevelInfo, "client connected", "client", name)
	defer func() {
		_ = c.Close()
		e.journal.say(slog.LevelInfo, "client gone", "client", name)
	}()
	_ = conn.SetReadDeadline(time.Now().Add(helloTime))
	s := session{client: c, conn: conn}
	for {
		if err := s.next(); err != nil {
			if !errors.Is(err, net.ErrClosed) && !errors.Is(err, errEnd) {
				e.journal.say(slog.LevelWarn, "connection ended", "client", name, "error", err)
			}
			return
		}
	}
}

// credentials says who is at the other end, from the kernel.
func credentials(conn *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return cred, errors.Join(err, credErr)
}

// A session is the datagrams of one connection.
type session struct {
	client  *Client
	conn    *net.UnixConn
	greeted bool
	in      [control.MaxMessage + 1]byte
	oob     [64]byte
	out     []byte
}

var (
	errEnd    = errors.New("the client has closed")
	errDesync = errors.New("not a request of this protocol")
)

// next serves one request. An error ends the connection.
func (s *session) next() error {
	n, oobn, flags, _, err := s.conn.ReadMsgUnix(s.in[:], s.oob[:])
	switch {
	case errors.Is(err, io.EOF): // what package net makes of a datagram of 0 bytes, too
		return errEnd
	case err != nil:
		return err
	}
	files, err := received(s.oob[:oobn])
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	if err != nil {
		return err
	}
	h, payload, err := control.ParseHeader(s.in[:n])
	if err != nil || h.Flags != 0 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || len(files) > 1 {
		return fmt.Errorf("%w: %d bytes, %d descriptors", errDesync, n, len(files))
	}
	if !s.greeted && h.Op != control.OpHello {
		return s.refuse(h, control.Errorf(control.CodeVersion, "%v before hello", h.Op))
	}
	var mem Memory
	if len(files) == 1 {
		region, err := shm.Attach(files[0], false)
		files = nil // Attach owns it
		if err != nil {
			return s.refuse(h, control.Errorf(control.CodeMemory, "%v", err))
		}
		// The mapping is enough; a descriptor for each would run out.
		_ = region.Forget()
		mem = Memory{Region: region, Owned: true}
	}
	ans, reply, err := s.client.Call(h.Op, payload, mem)
	if err != nil {
		if mem.Region != nil {
			_ = mem.Region.Close()
		}
		var refusal *control.Error
		if !errors.As(err, &refusal) {
			return err
		}
		return s.refuse(h, refusal)
	}
	if h.Op == control.OpHello && !s.greeted {
		s.greeted = true
		_ = s.conn.SetReadDeadline(time.Time{})
	}
	return s.answer(h, ans, reply)
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

// received returns the descriptors of a datagram, which are the caller's to
// close, also when there is an error.
func received(oob []byte) (files []*os.File, err error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: ancillary data: %v", errDesync, err)
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			continue // credentials and the like
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}
