//go:build linux && (amd64 || arm64)

// Package sealer seals memory in a process of its own.
//
// A client may be killed before it has sealed memory that the device made for it.
// Unmapping memory that can lose pages waits for a hole that is being punched, and all of
// the process waits with it, so the memory is sealed first. Sealing can wait as well, for
// the inode's lock, which a client may hold while it writes to the memory from a page
// that never comes. No signal ends such a wait. So another process seals, which has
// nothing of the device's but those descriptors: if it hangs, it hangs alone, and the
// device can end.
//
// There is one such process for all devices of a process, and it is this program again:
// importing the package makes the program a sealer if the environment says so. It is
// started before devices serve, because starting a process keeps the runtime from
// stopping the world for as long as the new process waits for a core.
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

// variable in the environment makes a process of this program a sealer: descriptor 3 is
// a socket that brings memory, and with it a pipe which is closed when the memory has
// been sealed.
const variable = "NICLESS_SEALER"

func init() {
	if os.Getenv(variable) != "" {
		serve(3)
		os.Exit(0)
	}
}

// serve seals what a socket brings, each on a thread of its own, until the socket ends.
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
				_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL)
				_ = unix.Close(fds[0])
				_ = unix.Close(fds[1])
			}()
		}
	}
}

// A sealer is a process that seals. Safe for concurrent use.
type sealer struct {
	mu      sync.Mutex
	running bool
	socket  int
}

var shared sealer

// Start starts the process, unless it runs. Seal does so too.
func Start() error { return shared.start() }

// Seal has memory sealed and waits for that, for as long as clients keep the memory from
// being sealed. It reports whether the memory is sealed now, whichever process has done
// it.
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

// send gives the process memory to seal. The process closes done when it has tried.
func (s *sealer) send(memory, done *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running { // another call has found that it was killed; the socket's number may be a client's connection now
		return unix.EPIPE
	}
	rights := unix.UnixRights(int(memory.Fd()), int(done.Fd()))
	err := unix.Sendmsg(s.socket, []byte{0}, rights, nil, unix.MSG_NOSIGNAL)
	if err != nil { // it was killed
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
			_, _ = io.Copy(io.Discard, in) // until it is closed
		}
		_ = in.Close()
		if err == nil {
			break
		}
	}
	return r.Sealed()
}
