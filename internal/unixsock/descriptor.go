//go:build linux && (amd64 || arm64)

package unixsock

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Descriptor is a descriptor that a peer has sent. It is no os.File, because os.NewFile adds a
// descriptor that does not block to the runtime's poller, and the kernel then asks the
// descriptor's file system whether it is ready. A file system of the peer's need not answer. Until
// it did, every thread of this process that looks at the poller would wait, which no signal ends.
// Whether a descriptor blocks cannot be known beforehand: the peer can change it at any time.
//
// Safe for concurrent use.
type Descriptor struct {
	mu    sync.Mutex
	fd    int
	users int  // number of functions in Control, plus 1 until Close is called; 0 closes the descriptor
	gone  bool // Close was called
}

// NewDescriptor takes over a descriptor.
func NewDescriptor(fd int) *Descriptor { return &Descriptor{fd: fd, users: 1} }

// SyscallConn returns a connection for Control, which can neither Read nor Write.
func (d *Descriptor) SyscallConn() (syscall.RawConn, error) { return rawDescriptor{d}, nil }

// Close closes the descriptor, or lets the last function that uses it do so. This can block for
// as long as the peer likes.
func (d *Descriptor) Close() error {
	d.mu.Lock()
	if d.gone {
		d.mu.Unlock()
		return os.ErrClosed
	}
	d.gone = true
	d.mu.Unlock()
	return d.leave()
}

func (d *Descriptor) leave() error {
	d.mu.Lock()
	d.users--
	last := d.users == 0
	d.mu.Unlock()
	if last {
		return unix.Close(d.fd)
	}
	return nil
}

type rawDescriptor struct{ *Descriptor }

func (d rawDescriptor) Control(f func(fd uintptr)) error {
	d.mu.Lock()
	if d.gone {
		d.mu.Unlock()
		return os.ErrClosed
	}
	d.users++
	d.mu.Unlock()
	defer func() { _ = d.leave() }()
	f(uintptr(d.fd))
	return nil
}

func (rawDescriptor) Read(func(fd uintptr) bool) error  { return errors.ErrUnsupported }
func (rawDescriptor) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }
