//go:build linux && (amd64 || arm64)

package torture

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// A raw connection sends and receives control messages without the checks of the host API.
type raw struct {
	conn  *net.UnixConn
	files []*os.File // files received with answers
	uar   *shm.Region
	in    [control.MaxMessage]byte
	tag   uint64
	guid  uint64        // GUID of the engine
	hang  time.Duration // how long the engine may take to answer
}

func (v *hostile) dial() (*raw, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: v.spec.Socket, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	return &raw{conn: conn, hang: v.spec.hang()}, nil
}

func (r *raw) close() {
	_ = r.conn.Close()
	for _, f := range r.files {
		_ = f.Close()
	}
	if r.uar != nil {
		_ = r.uar.Close()
	}
}

// hello sends the first request and maps the UAR pages.
func (r *raw) hello() error {
	var w control.Welcome
	hello := &control.Hello{Magic: control.Magic, Major: control.Major, Minor: control.Minor, Name: "hostile"}
	if err := r.call(control.OpHello, hello, &w); err != nil {
		return err
	}
	if len(r.files) == 0 {
		return errors.New("the answer to hello has no descriptors")
	}
	r.guid = w.GUID
	var err error
	r.uar, err = shm.Attach(r.files[0], false)
	if err == nil {
		err = r.uar.Seal()
	}
	r.files = r.files[1:]
	return err
}

// call sends a request and waits for its answer. A refusal is a *control.Error.
func (r *raw) call(op control.Op, req, ans control.Message, fds ...int) error {
	r.tag++
	if err := r.send(control.Append(nil, op, 0, r.tag, req), fds...); err != nil {
		return err
	}
	for {
		h, payload, err := r.receive()
		switch {
		case err != nil:
			return err
		case h.Tag != r.tag || h.Op != op:
			continue
		case h.Flags&control.FlagError != 0:
			refusal := new(control.Error)
			if err := control.Parse(op, payload, refusal); err != nil {
				return err
			}
			return refusal
		}
		return control.Parse(op, payload, ans)
	}
}

func (r *raw) send(b []byte, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_ = r.conn.SetDeadline(time.Now().Add(r.hang))
	_, _, err := r.conn.WriteMsgUnix(b, oob, nil)
	return err
}

func (r *raw) receive() (h control.Header, payload []byte, err error) {
	var oob [128]byte
	n, oobn, _, _, err := r.conn.ReadMsgUnix(r.in[:], oob[:])
	if err != nil {
		return h, nil, err
	}
	if msgs, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil {
		for i := range msgs {
			fds, _ := unix.ParseUnixRights(&msgs[i])
			for _, fd := range fds {
				r.files = append(r.files, os.NewFile(uintptr(fd), "from the engine"))
			}
		}
	}
	if n == 0 {
		return h, nil, io.EOF
	}
	return control.ParseHeader(r.in[:n])
}

// region creates a region at the engine and maps it. If usable is true, it also seals and places
// the region. Otherwise the caller seals and places the region, and can attack the memory before.
func (r *raw) region(size int, usable bool) (mem *shm.Region, id uint32, err error) {
	var made control.RegionID
	if err := r.call(control.OpCreateRegion, &control.RegionSize{Size: uint64(size)}, &made); err != nil {
		return nil, 0, err
	}
	if len(r.files) == 0 {
		return nil, 0, errors.New("the answer to a region request has no descriptor")
	}
	last := len(r.files) - 1
	mem, err = shm.Attach(r.files[last], false)
	r.files = r.files[:last]
	if err != nil || !usable {
		return mem, made.ID, err
	}
	if err = mem.Seal(); err == nil {
		err = r.call(control.OpPlaceRegion, &control.Placement{ID: made.ID, Addr: mem.Addr()},
			&control.Empty{})
	}
	if err != nil {
		_ = mem.Close()
		return nil, 0, err
	}
	return mem, made.ID, nil
}

// refused reports whether err is a refusal by the engine.
func refused(err error) bool {
	var e *control.Error
	return errors.As(err, &e)
}

// wrongFile returns a descriptor that no engine should accept as memory.
func wrongFile(r *rand.Rand) (*os.File, error) {
	switch r.IntN(6) {
	case 0:
		return os.Open("/dev/zero")
	case 1:
		return os.Open("/")
	case 2:
		a, b, err := os.Pipe()
		if err == nil {
			_ = b.Close()
		}
		return a, err
	case 3: // memory that could shrink
		fd, err := unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			return nil, err
		}
		f := os.NewFile(uintptr(fd), "unsealed")
		return f, f.Truncate(1 << 20)
	case 4: // memory with a size of 0
		fd, err := unix.MemfdCreate("empty", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			return nil, err
		}
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS,
			unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		return os.NewFile(uintptr(fd), "empty"), err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket pair: %w", err)
	}
	_ = unix.Close(fds[1])
	return os.NewFile(uintptr(fds[0]), "socket"), nil
}
