//go:build linux && (amd64 || arm64)

package sleep

import (
	"os"

	"golang.org/x/sys/unix"
)

// NewEventFD returns an eventfd.
func NewEventFD() (*os.File, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "nicless:wake"), nil
}

// DupEventFD returns another descriptor of an eventfd. It can be given to another party,
// even in this process, which may close it at any time.
func DupEventFD(eventFD *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(eventFD.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), eventFD.Name()), nil
}

// one is the number 1 in little-endian order. Writing it to an eventfd signals the eventfd.
var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// Signal writes to an eventfd.
func Signal(eventFD *os.File) error {
	_, err := unix.Write(int(eventFD.Fd()), one)
	return err
}
