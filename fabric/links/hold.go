//go:build linux && (amd64 || arm64)

package links

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs"
)

// A holding is a local address that queue pairs or listeners use. Its sockets are open as long as
// that, and a little longer: a peer may not have got the last acknowledgement, and programs often
// connect again.
type holding struct {
	count int
	uses  map[string]int // how many uses have this reason
	named bool           // by --link: it is open all the time, for all clients
	err   error          // why it could not be opened
	ready chan struct{}  // closed when it is open, or err is set; nil: it is open
	timer *time.Timer    // closes the address
}

// linger is how long a local address stays open after its last use.
const linger = 5 * time.Second

// may returns an error if RoCE does not serve a user on a local address. A local address that --link
// names serves all clients, as pools and UCX do: the owner of the engine has decided where the link
// leads, and the mode of the socket decides which users are its clients. A link that opens by itself opens
// a port of the host because of a client, so the owner decides for which clients. It does not matter whether
// another client has opened the address already.
func (t *Table) may(a netip.Addr, who nic.User) error {
	if !routable(a) {
		return fmt.Errorf("the queue pair's own address, %v, is of no network; choose another entry of the GID table", a)
	}
	t.mu.Lock()
	h := t.held[a]
	named := h != nil && h.named
	t.mu.Unlock()
	switch {
	case named:
		return nil
	case !t.options.Auto:
		if t.now.Load().roce == nil {
			return errors.New("RoCE does not open by itself here (--link)")
		}
		return fmt.Errorf("RoCE is not open on the local address %v; --link names others", a)
	case t.options.Addresses != nil && !within(t.options.Addresses, a):
		return fmt.Errorf("RoCE does not open on the local address %v: --link auto,address= names others", a)
	case !t.options.Users.may(who.UID):
		return fmt.Errorf("%w: uid %d may not open RoCE on %v; the owner of the engine allows it with --link-users", nic.ErrDenied, who.UID, a)
	}
	return nil
}

// hold counts one more use of a local address, and opens it if it is not open. It waits until the
// address is open.
func (t *Table) hold(a netip.Addr, why string, who nic.User) (release func(), err error) {
	if err := t.may(a, who); err != nil {
		return nil, err
	}
	h, open, err := t.begin(a, why)
	if err != nil {
		return nil, err
	}
	if open {
		t.opens(a, h, why, who)
	}
	return t.finish(a, h, why)
}

// begin counts one more use of a local address. open says that the caller has to open it.
func (t *Table) begin(a netip.Addr, why string) (h *holding, open bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false, errStops
	}
	if h = t.held[a]; h == nil {
		h, open = &holding{uses: make(map[string]int), ready: make(chan struct{})}, true
		t.held[a] = h
	}
	h.count++
	h.uses[why]++
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	return h, open, nil
}

// opens opens a local address, after begin has returned true.
func (t *Table) opens(a netip.Addr, h *holding, why string, who nic.User) {
	h.err = explained(t.open(a, why, who.Name), a)
	close(h.ready)
}

// finish waits until a local address is open, whose use has begun.
func (t *Table) finish(a netip.Addr, h *holding, why string) (release func(), err error) {
	if h.ready != nil {
		<-h.ready
	}
	if h.err != nil {
		t.release(a, h, why)
		return nil, h.err
	}
	return func() { t.release(a, h, why) }, nil
}

// await waits for a local address that is being opened.
func (t *Table) await(a netip.Addr) error {
	t.mu.Lock()
	h := t.held[a]
	t.mu.Unlock()
	if h == nil {
		return fmt.Errorf("no program has opened RoCE on %v", a)
	}
	if h.ready != nil {
		<-h.ready
	}
	return h.err
}

// explained adds to an error what can be done about it.
func explained(err error, a netip.Addr) error {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w; the engine runs in another network namespace than the program, or the address is gone: run an engine in the program's namespace", err)
	case err != nil:
		return fmt.Errorf("RoCE on %v: %w", a, err)
	}
	return nil
}

// release ends a use of a local address.
func (t *Table) release(a netip.Addr, h *holding, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.uses[why]--
	if h.uses[why] == 0 {
		delete(h.uses, why)
	}
	h.count--
	if h.count > 0 || t.held[a] != h {
		return
	}
	if h.err != nil || t.closed {
		delete(t.held, a)
		return
	}
	h.timer = time.AfterFunc(linger, func() { t.expire(a, h) })
}

// expire closes a local address that is not used any more.
func (t *Table) expire(a netip.Addr, h *holding) {
	t.opening.Lock()
	defer t.opening.Unlock()
	t.mu.Lock()
	unused := h.count == 0 && t.held[a] == h && !t.closed
	if unused {
		delete(t.held, a)
	}
	t.mu.Unlock()
	if !unused {
		return
	}
	if c := t.now.Load().roce; c != nil {
		_ = c.RemoveAddress(a)
		t.openLog.Info("RoCE closed", "address", a.String(), "because", "its last queue pair or listener has ended")
		t.announce()
	}
}

// Hold says that a program expects packets at GIDs, until Release of the result is called. wildcard says
// that it listens on all addresses: then the public ones of the list are opened only if --link names them.
// why is for people. The addresses are opened in the background.
func (t *Table) Hold(gids [][16]byte, wildcard bool, why string, who nic.User) (r verbs.Reach) {
	var list []netip.Addr
	for _, gid := range gids {
		list = append(list, netip.AddrFrom16(gid).Unmap())
	}
	if wildcard {
		list, r.Missing = t.ofWildcard(list, who)
	}
	list = slices.DeleteFunc(list, func(a netip.Addr) bool {
		err := t.may(a, who)
		if err != nil && t.options.Auto && routable(a) {
			r.Missing = err
		}
		return err != nil
	})
	stop := make(chan struct{})
	for _, a := range list {
		h, open, err := t.begin(a, why)
		if err != nil {
			continue
		}
		r.GIDs = append(r.GIDs, a.As16())
		go func() {
			if open {
				t.opens(a, h, why, who)
			}
			free, err := t.finish(a, h, why)
			if err != nil {
				t.openLog.Warn("RoCE not opened", "address", a.String(), "for", who.Name,
					"error", err.Error())
				return
			}
			<-stop
			free()
		}()
	}
	r.Release = func() { close(stop) }
	return r
}

// ofWildcard returns those of a program's addresses on which a listener on all addresses is reached from
// elsewhere, and says which others it could be reached on.
func (t *Table) ofWildcard(own []netip.Addr, who nic.User) (list []netip.Addr, missing error) {
	var public []string
	for _, a := range hostAddresses() {
		err := t.may(a, who)
		switch {
		case !slices.Contains(own, a): // of another namespace
		case errors.Is(err, nic.ErrDenied):
			missing = err
		case err != nil:
		case !private(a) && !t.named(a):
			public = append(public, a.String())
		default:
			list = append(list, a)
		}
	}
	if len(public) > 0 {
		missing = fmt.Errorf("RoCE does not open on public addresses for a listener on all addresses: %s; --link auto,address=PREFIX names the addresses that are to be open, private ones included", strings.Join(public, ", "))
	}
	return list, missing
}

// named reports whether --link names a local address.
func (t *Table) named(a netip.Addr) bool {
	return within(t.options.Addresses, a) ||
		slices.ContainsFunc(t.options.Local, func(b netip.Addr) bool { return b.Unmap() == a })
}

// shared is the address space that carriers share among their customers (RFC 6598).
var shared = netip.MustParsePrefix("100.64.0.0/10")

// private reports whether an address is one of a private network (RFC 1918, RFC 6598, RFC 4193). Those
// of the link and of the host alone are not routable, so RoCE does not open on them.
func private(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsPrivate() || shared.Contains(a)
}

// hostAddresses returns the addresses of this host that others reach.
func hostAddresses() (list []netip.Addr) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok && routable(ip) {
				list = append(list, ip.Unmap())
			}
		}
	}
	return list
}
