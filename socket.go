//go:build linux && (amd64 || arm64)

package nicless

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// answerTime is how long a device may take to answer a control request.
const answerTime = 10 * time.Second

// A socket is a device in another process, reached through a unix socket. The goroutine
// that makes a request waits for the answer in a blocking system call. If one goroutine
// read all answers by the runtime's poller, each answer would wake two more threads.
type socket struct {
	path   string
	fd     int // system calls on fd block for answerTime at most
	hangUp *os.File
	done   chan struct{} // closed when the connection has ended
	once   sync.Once     // makes a second Close do nothing

	mu     sync.Mutex // one request at a time
	closed bool       // fd is closed
	ended  error      // why the connection cannot be used any more, or nil
	tag    uint64
	out    []byte
	in     [control.MaxMessage]byte
	oob    [64]byte
}

type answer struct {
	header  control.Header
	payload []byte // valid until the next answer is read
	files   []*os.File
}

// dial connects to the engine at path.
func dial(path string) (*socket, error) {
	fd, err := connect(path)
	switch {
	case errors.Is(err, unix.EPROTOTYPE):
		return nil, fmt.Errorf("nicless: %s is a socket of another kind, not an engine's (SOCK_SEQPACKET)", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("nicless: this user may not connect to the engine at %s (its owner decides who may: "+
			"nicless engine --mode): %w", path, err)
	case err != nil:
		return nil, fmt.Errorf("nicless: no engine at %s: %w", path, err)
	}
	s := &socket{path: path, fd: fd, done: make(chan struct{})}
	s.hangUp, err = hangUpOf(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("nicless: the engine at %s: %w", path, err)
	}
	go s.watch()
	return s, nil
}

// connect returns a connection whose system calls block for answerTime at most.
func connect(path string) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	t := unix.NsecToTimeval(int64(answerTime))
	err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &t),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &t))
	if err == nil {
		err = retry(func() error { return unix.Connect(fd, &unix.SockaddrUnix{Name: path}) })
		if err != nil {
			err = &net.OpError{Op: "dial", Net: "unixpacket",
				Addr: &net.UnixAddr{Name: path, Net: "unixpacket"}, Err: os.NewSyscallError("connect", err)}
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// retry calls f again until a call is not interrupted by a signal.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// hangUpOf returns a descriptor that becomes readable when the connection of fd has ended.
// Answers on fd do not make the descriptor readable.
func hangUpOf(fd int) (*os.File, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLRDHUP}); err == nil {
		err = unix.SetNonblock(epoll, true)
	}
	if err != nil {
		_ = unix.Close(epoll)
		return nil, err
	}
	return os.NewFile(uintptr(epoll), "nicless:hangup"), nil
}

func (s *socket) Done() <-chan struct{} { return s.done }

// watch closes done as soon as the connection ends, even while no call waits for an answer.
func (s *socket) watch() {
	defer close(s.done)
	defer s.hangUp.Close()
	raw, err := s.hangUp.SyscallConn()
	if err != nil {
		return
	}
	var event [1]unix.EpollEvent
	_ = raw.Read(func(epoll uintptr) bool {
		n, err := unix.EpollWait(int(epoll), event[:], 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
}

// Close ends the connection. A call that is under way fails. A second Close must do
// nothing, because the number of the descriptor may belong to another file by then.
func (s *socket) Close() (err error) {
	s.once.Do(func() {
		s.hangUpBoth()
		<-s.done // watch has seen the end of the connection
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = true
		err = unix.Close(s.fd)
	})
	return err
}

// companion implements watchable. The engine knows the clients of a process by its number.
func (s *socket) companion() (device, WatchFilter, error) {
	d, err := dial(s.path)
	if err != nil {
		return nil, WatchFilter{}, err // not d: an interface that holds a nil pointer is not nil
	}
	return d, WatchFilter{PID: os.Getpid()}, nil
}

func (s *socket) leave() error { return s.Close() }

// hangUpBoth ends the connection for both sides, but does not close the descriptor.
func (s *socket) hangUpBoth() { _ = unix.Shutdown(s.fd, unix.SHUT_RDWR) }

// NewRegion requests memory from the device, maps the memory, and seals it. The device
// accepts only sealed memory.
func (s *socket) NewRegion(_ string, size int) (mem *shm.Region, id uint32, err error) {
	var region control.RegionID
	r, err := s.Call(control.OpCreateRegion, &control.RegionSize{Size: uint64(size)}, &region)
	if err != nil {
		return nil, 0, err
	}
	mem, err = shm.Attach(r.Memory, false)
	if errors.Is(err, unix.EPERM) { // the device has sealed the memory, because it has given it up
		err = errors.Join(ErrDeviceGone, err)
	}
	if err == nil {
		if err = mem.Seal(); err == nil {
			_, err = s.Call(control.OpPlaceRegion, &control.Placement{ID: region.ID, Addr: mem.Addr()},
				&control.Empty{})
		}
		if err == nil {
			err = mem.CloseFile()
		}
		if err == nil {
			return mem, region.ID, nil
		}
		_ = mem.Close()
	}
	_, _ = s.Call(control.OpDropRegion, &region, &control.Empty{})
	return nil, 0, err
}

// separate implements separable.
func (s *socket) separate() {}

// separated implements separable: the engine is in another process.
func (s *socket) separated(uint32) bool { return true }

func (s *socket) Call(op control.Op, req, ans control.Message) (r control.Reply, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.send(op, 0, req); err != nil {
		return r, err
	}
	a, err := s.receive(op, s.tag)
	if err != nil {
		return r, err
	}
	return take(op, a, ans)
}

// callLinked implements linker: it sends all requests before it reads the first answer. A wait for an answer
// puts this thread to sleep and wakes threads of the engine, which takes longer than most requests.
func (s *socket) callLinked(list []linkedRequest) (done int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.tag + 1
	for i, r := range list {
		flags := control.FlagLinked
		if i == 0 {
			flags = 0
		}
		if err := s.send(r.op, flags, r.m); err != nil {
			return 0, err
		}
	}
	for i, r := range list { // all answers are read, so that the next call finds its own
		a, gone := s.receive(r.op, first+uint64(i))
		if gone != nil {
			return done, gone
		}
		_, refusal := take(r.op, a, &control.Empty{})
		switch {
		case refusal == nil:
			done++
		case err == nil:
			err = refusal // the others were refused because of this one
		}
	}
	return done, err
}

// send sends a request with the next tag. The caller holds mu.
func (s *socket) send(op control.Op, flags uint16, req control.Message) error {
	if s.closed && s.ended == nil {
		s.ended = os.ErrClosed
	}
	if s.ended != nil {
		return s.gone(s.ended)
	}
	s.tag++
	s.out = control.Append(s.out[:0], op, flags, s.tag, req)
	err := retry(func() error { return unix.Sendmsg(s.fd, s.out, nil, nil, unix.MSG_NOSIGNAL) })
	if err != nil {
		return s.end(err) // nobody knows whether requests that were sent before are executed (callLinked)
	}
	return nil
}

// receive returns the answer to the request op that has this tag. The caller holds mu.
func (s *socket) receive(op control.Op, tag uint64) (a answer, err error) {
	for begin := time.Now(); ; {
		n, oobn, _, _, err := unix.Recvmsg(s.fd, s.in[:], s.oob[:], unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR) && time.Since(begin) > answerTime:
			return a, s.end(s.timedOut(op))
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return a, s.end(err)
		}
		a.files = received(s.oob[:oobn])
		if n == 0 {
			closeAll(a.files)
			return a, s.end(errors.New("the engine has closed the connection"))
		}
		a.header, a.payload, err = control.ParseHeader(s.in[:n])
		switch {
		case err != nil || a.header.Flags&control.FlagAnswer == 0:
			closeAll(a.files)
			return a, s.end(fmt.Errorf("what answers is not an engine of this protocol (%d bytes)", n))
		case a.header.Tag == tag && a.header.Op == op:
			return a, nil
		}
		closeAll(a.files) // not an answer to this request
		if time.Since(begin) > answerTime {
			return a, s.end(s.timedOut(op))
		}
	}
}

// timedOut returns the error of a request without an answer. The engine may or may not have
// executed the request.
func (s *socket) timedOut(op control.Op) error { return noAnswer(op) }

// noAnswer is the error of a request that had no answer in answerTime. Callers distinguish it from other ends
// of a connection by its method Timeout.
type noAnswer control.Op

func (n noAnswer) Error() string {
	return fmt.Sprintf("no answer to %v in %v", control.Op(n), answerTime)
}
func (n noAnswer) Timeout() bool { return true }

// end ends the connection. why is the reason that this call and all later calls return.
func (s *socket) end(why error) error {
	s.ended = why
	s.hangUpBoth()
	return s.gone(why)
}

func (s *socket) gone(err error) error {
	if no := noAnswer(0); errors.As(err, &no) {
		return fmt.Errorf("%w: %w", ErrDeviceGone, err)
	}
	return fmt.Errorf("%w: %v", ErrDeviceGone, err)
}

// take unpacks an answer.
func take(op control.Op, a answer, ans control.Message) (r control.Reply, err error) {
	if a.header.Flags&control.FlagError != 0 {
		closeAll(a.files)
		refusal := new(control.Error)
		if err := control.Parse(op, a.payload, refusal); err != nil {
			return r, err
		}
		return r, refusal
	}
	if err := control.Parse(op, a.payload, ans); err != nil {
		closeAll(a.files)
		return r, err
	}
	switch {
	case op == control.OpHello && len(a.files) == 2:
		r.UAR, err = shm.Attach(a.files[0], false)
		if err != nil {
			_ = a.files[1].Close()
			return r, err
		}
		r.Status, err = shm.AttachReadOnly(a.files[1])
		if err != nil {
			_ = r.UAR.Close()
			return r, err
		}
	case (op == control.OpCreateChannel || op == control.OpOpenEvents) && len(a.files) == 1:
		r.Events = a.files[0]
	case op == control.OpCreateRegion && len(a.files) == 1:
		r.Memory = a.files[0]
	case op == control.OpWatch && len(a.files) == 1:
		r.Rings = a.files[0]
	case op == control.OpWake && len(a.files) == 1:
		r.Wake, err = blocking(a.files[0])
		if err != nil {
			return r, err
		}
	case len(a.files) > 0 || op == control.OpHello || op == control.OpCreateChannel ||
		op == control.OpOpenEvents || op == control.OpCreateRegion || op == control.OpWatch:
		closeAll(a.files)
		return r, fmt.Errorf("%v: the answer came with %d descriptors", op, len(a.files))
	}
	return r, nil
}

// received returns the descriptors that came with a datagram. It makes them non-blocking,
// so that the runtime can wait on those from which events are read.
func received(oob []byte) (files []*os.File) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range msgs {
		fds, _ := unix.ParseUnixRights(&msgs[i])
		for _, fd := range fds {
			_ = unix.SetNonblock(fd, true)
			files = append(files, os.NewFile(uintptr(fd), "nicless"))
		}
	}
	return files
}

// blocking returns f as a file that is not in the runtime's poller, because each write to a
// file in the poller would wake the poller.
func blocking(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	return os.NewFile(uintptr(fd), f.Name()), err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// newEventFD returns a non-blocking eventfd.
func newEventFD() (int, error) { return unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK) }

// readFD reads a non-blocking descriptor.
func readFD(fd int, b []byte) (int, error) { return unix.Read(fd, b) }

// writeFD writes to a descriptor from newEventFD, which cannot fail.
func writeFD(fd int, b []byte) { _, _ = unix.Write(fd, b) }

func closeFD(fd int) { _ = unix.Close(fd) }
