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
	cookie uint64         // of the namespace; 0: nothing is watched
	looks  sync.WaitGroup // those of lookAll
}

// againAfter is how long the watch waits before it subscribes again when the kernel has ended a subscription,
// as it does if changes come faster than they are read. So the server never does more than one look in that
// time because of it.
const againAfter = 100 * time.Millisecond

// watchAddresses watches the addresses of the server's own namespace until the caller calls end, which waits
// at most twice unixsock.Patience. Linux before 5.14, which does not identify namespaces by a cookie, has no
// watch.
func (s *Server) watchAddresses(ctx context.Context) (end func()) {
	cookie := ownNetns()
	if cookie == 0 {
		return func() {}
	}
	s.watch.cookie = cookie
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	sub, err := subscribeAddresses() // before programs come
	watching.Go(func() {
		for ctx.Err() == nil {
			if err == nil {
				err = s.followAddresses(ctx, sub)
			}
			if err != nil && ctx.Err() == nil {
				s.report(nic.UnknownUser, nil, slog.LevelWarn, "verbs changes of addresses missed", "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(againAfter):
			}
			sub, err = subscribeAddresses()
		}
	})
	return func() {
		stop()
		for _, all := range []*sync.WaitGroup{&watching, &s.watch.looks} {
			s.left = !unixsock.WaitFor(all, unixsock.Patience) || s.left
		}
	}
}

// An addressSubscription is a subscription to the kernel's notifications. The kernel ends it if they are
// read too slowly.
type addressSubscription struct {
	updates chan netlink.AddrUpdate // closed at the end
	failed  chan error              // why it has ended
	done    chan struct{}           // is closed to end it
}

func subscribeAddresses() (*addressSubscription, error) {
	sub := &addressSubscription{make(chan netlink.AddrUpdate, 64), make(chan error, 1), make(chan struct{})}
	return sub, netlink.AddrSubscribeWithOptions(sub.updates, sub.done, netlink.AddrSubscribeOptions{
		ErrorCallback: func(err error) {
			select {
			case sub.failed <- err:
			default:
			}
		},
	})
}

// followAddresses looks at the addresses, and again after each change, until ctx ends or the kernel ends the
// subscription.
func (s *Server) followAddresses(ctx context.Context, sub *addressSubscription) error {
	defer func() {
		close(sub.done)
		for range sub.updates { // until the subscription has ended: it waits while the channel is full
		}
	}()
	for open := true; open; {
		for len(sub.updates) > 0 { // one look for all changes so far
			<-sub.updates
		}
		s.lookAll()
		select {
		case <-ctx.Done():
			return nil
		case _, open = <-sub.updates:
		}
	}
	select {
	case err := <-sub.failed:
		return err
	default:
		return errors.New("the kernel has ended the subscription")
	}
}

// lookAll looks at the addresses for all namespaces that are the server's own: one for each user who has
// programs there. None waits for another, because a look waits for calls of the user's programs. Of each
// namespace at most one look waits: it sees all that has changed until it begins.
func (s *Server) lookAll() {
	w := &s.networks
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.all {
		if n.key.cookie == s.watch.cookie && n.lookWaits.CompareAndSwap(false, true) {
			w.hold(n) // so that its files stay meanwhile
			s.watch.looks.Go(func() {
				defer s.leave(n)
				if err := s.look(n, nil); err != nil {
					s.report(nic.UnknownUser, nil, slog.LevelWarn, "verbs addresses not read", "error", err)
				}
			})
		}
	}
}

// look brings the tables of a namespace up to date, which is the server's own. instead counts if the server
// cannot find out the addresses; nil: there is none.
func (s *Server) look(n *netns, instead []address) error {
	n.look.Lock()
	defer n.look.Unlock()
	n.lookWaits.Store(false)
	found, err := ownAddresses()
	if err != nil && instead == nil {
		return err
	}
	if err != nil {
		found = instead
	}
	return s.rescan(n, found)
}

// reported brings the tables of a namespace up to date, of which a program has sent the addresses.
func (s *Server) reported(n *netns, list []address) error {
	if s.watch.cookie != 0 && n.key.cookie == s.watch.cookie {
		return s.look(n, list)
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

// mostDumps is how often the server asks for the addresses while they change.
const mostDumps = 8

// ownAddresses returns the addresses of this process's network namespace, at most maxAddresses, in the order
// in which a program sends them: the kernel's.
func ownAddresses() (found []address, err error) {
	var list []netlink.Addr
	for range mostDumps { // a list is interrupted if links or addresses change meanwhile
		list, err = netlink.AddrList(nil, netlink.FAMILY_ALL)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
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
