//go:build linux && (amd64 || arm64)

package tun

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A Device is a program's end of a TUN interface. Its functions are safe for concurrent use.
type Device struct {
	name     string
	index    int
	offloads Offloads
	file     *os.File // in Go's poller

	// Writes use the descriptor, without the lock of file, which lets only one thread write. Close waits
	// for them, because the number can belong to another file afterwards.
	writers sync.RWMutex
	fd      int
	closed  bool
}

// Name returns the name of the interface.
func (d *Device) Name() string { return d.name }

// Index returns the index of the interface, which stays when the interface gets another name.
func (d *Device) Index() int { return d.index }

// Offloads returns what the kernel took of the offloads.
func (d *Device) Offloads() Offloads { return d.offloads }

// Read waits for a packet that the kernel sends, puts its header and the packet into b, and
// returns the length of both. A packet that is longer than b is cut, as by recv(2), and Check
// refuses it. After Close, the error is os.ErrClosed. While Read waits, it occupies no thread.
func (d *Device) Read(b []byte) (int, error) {
	n, err := d.file.Read(b)
	if err == nil {
		return n, nil
	}
	if !errors.As(err, new(unix.Errno)) && d.deleted() {
		err = unix.EBADFD // Go's poller was notified first, and has an error of its own: not pollable
	}
	return 0, d.explain("read", err)
}

// Write gives the kernel one packet, whose bytes are those of head and then those of rest. It
// begins with a header. The kernel reads every byte once. Write neither waits nor allocates.
func (d *Device) Write(head, rest []byte) error {
	d.writers.RLock()
	defer d.writers.RUnlock()
	if d.closed {
		return os.ErrClosed
	}
	for {
		iov := [2][]byte{head, rest}
		_, err := unix.Writev(d.fd, iov[:])
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return d.explain("write", err)
		}
	}
}

// explain says what an error of Read or Write means.
func (d *Device) explain(what string, err error) error {
	switch {
	case errors.Is(err, os.ErrClosed):
		return os.ErrClosed
	case errors.Is(err, unix.EBADFD), errors.Is(err, unix.EFAULT) && what == "read":
		return explainGone(d.name, err)
	case errors.Is(err, unix.EIO):
		return fmt.Errorf("tun: interface %s is down (%w)", d.name, err)
	case errors.Is(err, unix.EINVAL) && what == "write":
		return fmt.Errorf("tun: interface %s: the kernel refuses a packet, or its header (%w)", d.name, err)
	}
	return fmt.Errorf("tun: interface %s: %s: %w", d.name, what, err)
}

// deleted reports whether the interface has been deleted.
func (d *Device) deleted() bool {
	d.writers.RLock()
	defer d.writers.RUnlock()
	return !d.closed && deleted(d.fd)
}

// deleted reports whether the interface to which a descriptor was attached has been deleted. Nothing else
// is an error to poll(2).
func deleted(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1 && p[0].Revents&unix.POLLERR != 0
}

// Counters queries the interface's counters.
func (d *Device) Counters() (Counters, error) {
	link, err := netlink.LinkByIndex(d.index)
	if err != nil {
		return Counters{}, fmt.Errorf("tun: interface %s: netlink: %w", d.name, err)
	}
	s := link.Attrs().Statistics
	if s == nil {
		return Counters{}, fmt.Errorf("tun: interface %s: the kernel gives no counters", d.name)
	}
	return Counters{
		SentPackets: s.TxPackets, SentBytes: s.TxBytes, SentDropped: s.TxDropped, SentErrors: s.TxErrors,
		ReceivedPackets: s.RxPackets, ReceivedBytes: s.RxBytes, ReceivedDropped: s.RxDropped,
		ReceivedErrors: s.RxErrors,
	}, nil
}

// Close ends Read and Write, and the interface if Open made it. It returns os.ErrClosed if the
// device is closed already.
func (d *Device) Close() error {
	d.writers.Lock()
	defer d.writers.Unlock()
	if d.closed {
		return os.ErrClosed
	}
	d.closed = true
	return d.file.Close()
}
