//go:build linux && (amd64 || arm64)

package tun

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Open makes the interface in the network namespace of the calling thread, or takes one of that
// name that was made before (ip tuntap add), and sets it up. An interface that was made here
// ends with Close; one that was there stays, with the addresses that it has then.
//
// Making one needs CAP_NET_ADMIN, which a process has in a user namespace of its own. Taking one
// needs no privilege if it belongs to this user and is set up already.
func Open(c Config) (*Device, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	// The descriptor is attached before Go's poller sees it: until then it cannot be polled.
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, explainDevice(err)
	}
	before, err := find(c.Name)
	if err == nil {
		err = attach(fd, c.Name)
		if err != nil {
			err = explainAttach(c, before, err)
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	d := &Device{name: c.Name, fd: fd}
	if err := d.setUp(c, before != nil); err != nil {
		if deleted(fd) {
			err = explainGone(c.Name, err)
		}
		unix.Close(fd)
		return nil, err
	}
	d.file = os.NewFile(uintptr(fd), "/dev/net/tun")
	return d, nil
}

// setUp sets the size of the header and the offloads, and configures the interface. existed says whether
// the interface existed before Open.
func (d *Device) setUp(c Config, existed bool) error {
	if err := unix.IoctlSetPointerInt(d.fd, unix.TUNSETVNETHDRSZ, HeaderSize); err != nil {
		return fmt.Errorf("tun: interface %s: the kernel refuses headers of %d bytes: %w", c.Name, HeaderSize, err)
	}
	var err error
	d.offloads, err = setOffloads(d.fd, c)
	if err != nil {
		return err
	}
	d.index, err = configure(c, d.fd, existed)
	return err
}

// attach makes or takes the interface. A persistent interface gets the flags of the process that attaches
// to it, so it has headers then, however it was made.
func attach(fd int, name string) error {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
}

// setOffloads asks for as much as this kernel has. Before Linux 6.2 it has no USO.
func setOffloads(fd int, c Config) (Offloads, error) {
	const tso = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6
	var err error
	for _, try := range []struct {
		has  Offloads
		bits int
	}{
		{Checksum | TSO | USO, tso | unix.TUN_F_USO4 | unix.TUN_F_USO6},
		{Checksum | TSO, tso},
		{Checksum, unix.TUN_F_CSUM},
		{0, 0},
	} {
		if c.Plain && try.has != 0 {
			continue
		}
		if err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, try.bits); err == nil {
			return try.has, nil
		}
	}
	return 0, fmt.Errorf("tun: interface %s: the kernel refuses to be without offloads: %w", c.Name, err)
}
