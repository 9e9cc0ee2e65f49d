//go:build linux && (amd64 || arm64)

// Package sealer seals memory in a separate process, the sealer.
//
// A client may be killed before it has sealed memory that the device made for it. As long as
// memory is not sealed, a process can punch holes into it. Unmapping then waits until a hole
// that is being punched is complete, and the whole process of the device waits with it. So
// the memory is sealed before it is unmapped.
//
// Sealing can wait as well, for the lock of the inode. A client holds this lock during a
// write(2) to the memory's file, and that call hangs if the page that it copies from never
// becomes available. No signal ends such a wait.
// So the sealer does the sealing. Of the device's descriptors it has only those of the memory
// to be sealed. If the sealer hangs, only the sealer hangs, and the device can end.
//
// One sealer serves all devices of a process. It runs the same program: importing this
// package makes the program a sealer if the environment says so. While a program starts a
// process, its Go runtime cannot stop the world until the new process gets a core. So the
// sealer is started before devices serve.
package sealer

import (
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// variable is an environment variable that makes a process of this program a sealer. The
// sealer's descriptor 3 is a socket. Each message on it brings a descriptor of memory, and
// the writing end of a pipe. The sealer closes the pipe when it has sealed the memory.
const variable = "NICLESS_SEALER"

func init() {
	if os.Getenv(variable) != "" {
		serve(3)
		os.Exit(0)
	}
}

// serve seals the memory that messages on a socket bring, until the socket is closed. Each
// message is served by a goroutine of its own.
func serve(socket int) {
	var b [1]byte
	oob := make([]byte, unix.CmsgSpace(2*4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(socket, b[:], oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		if fds, err := unixsock.Descriptors(oob[:oobn]); err == nil && len(fds) == 2 {
			go func() {
				_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_ADD_SEALS,
					unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL)
				_ = unix.Close(fds[0])
				_ = unix.Close(fds[1])
			}()
		}
	}
}

// A sealer is the process that seals, as seen by the device. Safe for concurrent use.
type sealer struct {
	mu      sync.Mutex
	running bool
	socket  int
}

var shared sealer

// Start starts the sealer, unless it runs. Seal starts it too.
func Start() error { return shared.start() }

// Seal makes the sealer seal the memory of r, and waits until that is done. It waits for as
// long as clients prevent the sealing. Seal reports whether the memory is sealed now, no
// matter which process has sealed it.
func Seal(r *shm.Region) bool { return shared.seal(r) }

func (s *sealer) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return nil
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	theirs := os.NewFile(uintptr(fds[1]), "sealer")
	defer theirs.Close()
	c := exec.Command("/proc/self/exe")
	c.Env = []string{variable + "=1"}
	c.ExtraFiles = []*os.File{theirs}
	if err := c.Start(); err != nil {
		_ = unix.Close(fds[0])
		return err
	}
	go func() { _ = c.Wait() }()
	s.running, s.socket = true, fds[0]
	return nil
}

// send sends memory to the sealer. The sealer closes done when it has tried to seal the
// memory.
func (s *sealer) send(memory, done *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running { // another call has closed s.socket, and a client's connection may have its number now
		return unix.EPIPE
	}
	rights := unix.UnixRights(int(memory.Fd()), int(done.Fd()))
	err := unix.Sendmsg(s.socket, []byte{0}, rights, nil, unix.MSG_NOSIGNAL)
	if err != nil { // the sealer was killed
		_ = unix.Close(s.socket)
		s.running = false
	}
	return err
}

func (s *sealer) seal(r *shm.Region) bool {
	f := r.File()
	for try := 0; try < 2 && f != nil && !r.Sealed(); try++ {
		if s.start() != nil {
			break
		}
		in, out, err := os.Pipe()
		if err != nil {
			break
		}
		err = s.send(f, out)
		_ = out.Close()
		if err == nil {
			_, _ = io.Copy(io.Discard, in) // returns when the sealer has closed out
		}
		_ = in.Close()
		if err == nil {
			break
		}
	}
	return r.Sealed()
}
