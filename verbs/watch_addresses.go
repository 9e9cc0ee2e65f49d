//go:build linux && (amd64 || arm64)

package verbs

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Programs send the addresses of their namespace when they start and when they open a device. In the
// server's own namespace, which is that of most programs, the server looks itself, whenever the kernel
// notifies it of a change. There a program's list is only a reason to look again: an older list must not
// replace a newer one.

// An addressWatch is the watch of the server's own namespace.
type addressWatch struct {
	cookie uint64 // of the namespace; 0: nothing is watched
}

// againAfter is how long the watch waits before it subscribes again when the kernel has ended a subscription,
// as it does if changes come faster than they are read. So the server never does more than one look in that
// time because of it.
const againAfter = 100 * time.Millisecond

// watchAddresses watches the addresses of the server's own namespace until the caller calls end, which waits
// at most unixsock.Patience. Linux before 5.14, which does not identify namespaces by a cookie, has no watch.
func (s *Server) watchAddresses(ctx context.Context) (end func()) {
	cookie := ownNetns()
	if cookie == 0 {
		return func() {}
	}
	s.watch.cookie = cookie
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			if err := s.followAddresses(ctx); err != nil && ctx.Err() == nil {
				s.report(nic.UnknownUser, nil, slog.LevelWarn, "verbs changes of addresses missed", "error", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(againAfter):
			}
		}
	})
	return func() {
		stop()
		s.left = !unixsock.WaitFor(&watching, unixsock.Patience) || s.left
	}
}

// followAddresses looks at the addresses, and again after each change, until ctx ends or the kernel ends the
// subscription.
func (s *Server) followAddresses(ctx context.Context) error {
	updates := make(chan netlink.AddrUpdate, 64)
	failed := make(chan error, 1)
	done := make(chan struct{})
	err := netlink.AddrSubscribeWithOptions(updates, done, netlink.AddrSubscribeOptions{
		ErrorCallback: func(err error) {
			select {
			case failed <- err:
			default:
			}
		},
	})
	if err != nil {
		return err
	}
	defer func() {
		close(done)
		for range updates { // until the subscription has ended: it waits while the channel is full
		}
	}()
	for open := true; open; {
		for len(updates) > 0 { // one look for all changes so far
			<-updates
		}
		if err := s.lookAll(); err != nil {
			s.report(nic.UnknownUser, nil, slog.LevelWarn, "verbs addresses not read", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case _, open = <-updates:
		}
	}
	select {
	case err := <-failed:
		return err
	default:
		return errors.New("the kernel has ended the subscription")
	}
}

// lookAll looks at the addresses for all namespaces that are the server's own: one for each user who has
// programs there.
func (s *Server) lookAll() (all error) {
	w := &s.networks
	w.mu.Lock()
	var own []*netns
	for _, n := range w.all {
		if n.key.cookie == s.watch.cookie {
			w.hold(n) // so that its files stay meanwhile
			own = append(own, n)
		}
	}
	w.mu.Unlock()
	for _, n := range own {
		all = errors.Join(all, s.look(n))
		s.leave(n)
	}
	return all
}

// look brings the tables of a namespace up to date, which is the server's own.
func (s *Server) look(n *netns) error {
	n.look.Lock()
	defer n.look.Unlock()
	found, err := ownAddresses()
	if err != nil {
		return err
	}
	return s.rescan(n, found)
}

// reported brings the tables of a namespace up to date, of which a program has sent the addresses. They
// count if the server cannot look itself.
func (s *Server) reported(n *netns, list []address) error {
	if s.watch.cookie != 0 && n.key.cookie == s.watch.cookie && s.look(n) == nil {
		return nil
	}
	return s.rescan(n, list)
}

// ownNetns returns the cookie of this process's network namespace, 0 if it has none.
func ownNetns() uint64 {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0
	}
	return cookie
}

// ownAddresses returns the addresses of this process's network namespace, at most maxAddresses, in the order
// in which a program sends them: the kernel's.
func ownAddresses() (found []address, err error) {
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, err
	}
	links, err := net.Interfaces() // at once: each question for one link lists all of them
	if err != nil {
		return nil, err
	}
	names := make(map[int]string)
	for _, l := range links {
		names[l.Index] = l.Name
	}
	for i := range list[:min(len(list), maxAddresses)] {
		a := &list[i]
		name := names[a.LinkIndex]
		if !validIfname(name) {
			continue // it has gone, or a program would leave it out too
		}
		network := a.IPNet
		if a.Peer != nil { // the prefix is that of the peer, and the address alone has 32 bits or 128
			network = a.Peer
		}
		ones, _ := network.Mask.Size()
		to := address{ifindex: uint32(a.LinkIndex), ifname: name, prefix: uint8(ones)}
		copy(to.gid[:], a.IP.To16())
		if ip := to.ip(); !ip.IsUnspecified() && !ip.IsMulticast() {
			found = append(found, to)
		}
	}
	return slices.Clip(found), nil
}
