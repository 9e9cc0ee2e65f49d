package hostpath

import (
	"errors"
	"fmt"
	"io"
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

// A socket is a Device in another process, behind a unix socket.
type socket struct {
	conn *net.UnixConn

	mu  sync.Mutex // one request at a time
	tag uint64
	out []byte

	answers chan answer
	done    chan struct{} // closed by the reader when the connection has ended
	ended   error         // why; readable once done is closed
}

type answer struct {
	header  control.Header
	payload []byte
	files   []*os.File
}

// dial connects to the engine at path.
func dial(path string) (*socket, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	switch {
	case errors.Is(err, unix.EPROTOTYPE):
		return nil, fmt.Errorf("nicless: %s is a socket of another kind, not an engine's (SOCK_SEQPACKET)", path)
	case err != nil:
		return nil, fmt.Errorf("nicless: no engine at %s: %w", path, err)
	}
	s := &socket{conn: conn, answers: make(chan answer, 1), done: make(chan struct{})}
	go s.read()
	return s, nil
}

func (s *socket) Done() <-chan struct{} { return s.done }

func (s *socket) Close() error { return s.conn.Close() }

func (s *socket) Create(name string, size int) (*shm.Region, error) { return shm.Create(name, size) }

// read hands answers to whoever waits for one, and notices the end of the
// connection at once, also when nobody waits.
func (s *socket) read() {
	defer close(s.done)
	var in [control.MaxMessage]byte
	var oob [64]byte
	for {
		n, oobn, _, _, err := s.conn.ReadMsgUnix(in[:], oob[:])
		if err == nil && n == 0 || errors.Is(err, io.EOF) {
			err = errors.New("the engine has closed the connection")
		}
		if err != nil {
			s.ended = err
			return
		}
		files := received(oob[:oobn])
		h, payload, err := control.ParseHeader(in[:n])
		if err != nil || h.Flags&control.FlagAnswer == 0 {
			closeAll(files)
			s.ended = fmt.Errorf("what answers is not an engine of this protocol (%d bytes)", n)
			_ = s.conn.Close()
			return
		}
		a := answer{header: h, payload: append([]byte(nil), payload...), files: files}
		select {
		case s.answers <- a:
		default: // nobody asked
			closeAll(files)
		}
	}
}

func (s *socket) Call(op control.Op, req, ans control.Message, mem *shm.Region) (r control.Reply, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tag++
	s.out = control.Append(s.out[:0], op, 0, s.tag, req)
	var oob []byte
	if mem != nil {
		oob = unix.UnixRights(int(mem.File().Fd()))
	}
	if _, _, err := s.conn.WriteMsgUnix(s.out, oob, nil); err != nil {
		return r, s.gone(err)
	}
	late := time.NewTimer(answerTime)
	defer late.Stop()
	for {
		select {
		case a := <-s.answers:
			if a.header.Tag != s.tag || a.header.Op != op {
				closeAll(a.files)
				continue // of a request that was given up
			}
			return take(op, a, ans)
		case <-s.done:
			return r, s.gone(s.ended)
		case <-late.C:
			// What it does with the request cannot be known any more.
			_ = s.conn.Close()
			return r, s.gone(fmt.Errorf("no answer to %v in %v", op, answerTime))
		}
	}
}

func (s *socket) gone(err error) error { return fmt.Errorf("%w: %v", ErrDeviceGone, err) }

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
		if r.UAR, err = shm.Attach(a.files[0], false); err != nil {
			_ = a.files[1].Close()
			return r, err
		}
		if r.Status, err = shm.AttachReadOnly(a.files[1]); err != nil {
			_ = r.UAR.Close()
			return r, err
		}
	case (op == control.OpCreateChannel || op == control.OpOpenEvents) && len(a.files) == 1:
		r.Events = a.files[0]
	case op == control.OpWake && len(a.files) == 1:
		if r.Wake, err = blocking(a.files[0]); err != nil {
			return r, err
		}
	case len(a.files) > 0 || op == control.OpHello || op == control.OpCreateChannel || op == control.OpOpenEvents:
		closeAll(a.files)
		return r, fmt.Errorf("%v: the answer came with %d descriptors", op, len(a.files))
	}
	return r, nil
}

// received returns the descriptors that came with a datagram. They are made
// non-blocking, so that the runtime can wait for those that yield events.
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

// blocking returns f as a file that the runtime does not wait for: it would be
// woken each time something is written.
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
