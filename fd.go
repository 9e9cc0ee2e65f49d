//go:build linux && (amd64 || arm64)

package nicless

import "golang.org/x/sys/unix"

// newEventFD returns a non-blocking eventfd.
func newEventFD() (int, error) { return unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK) }

// readFD reads a non-blocking descriptor.
func readFD(fd int, b []byte) (int, error) { return unix.Read(fd, b) }

// writeFD writes to a descriptor from newEventFD, which cannot fail.
func writeFD(fd int, b []byte) { _, _ = unix.Write(fd, b) }

func closeFD(fd int) { _ = unix.Close(fd) }
