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

// A holding is a local address that queue pairs or listeners use. The sockets of the address are open as long
// as there are uses, and for the time linger after the last use: a peer may not have got the last
// acknowledgement, and programs often connect again.
type holding struct {
	count int            // how many uses there are
	uses  map[string]int // how many uses there are for each reason
	named bool           // --link names the address: it is open all the time, for all clients
	err   error          // why the address could not be opened
	ready chan struct{}  // closed when the address is open, or err is set; nil: it was open from the start
	timer *time.Timer    // closes the address when linger is over; nil while there are uses
}

// linger is how long a local address stays open after its last use.
const linger = 5 * time.Second

// may returns nil if RoCE serves a user on a local address, or an error that says why it does not. There are
// two kinds of local addresses:
//
//   - --link roce:ADDRESS names the address. The owner of the engine has decided where this link leads, as
//     with pools and UCX links. So RoCE serves all clients of the engine on this address. The mode of the
//     engine's socket decides which users are clients.
//   - With --link auto, RoCE opens the address when a client needs it, and so opens a port of the host. RoCE
//     serves only the users that --link-users names. This holds also if the address is open already, because
//     of another client.
func (t *Table) may(a netip.Addr, who nic.User) error {
	if !routable(a) { // such as a loopback or link-local address
		return fmt.Errorf("the queue pair's own address, %v, is of no network; choose another entry of the GID table", a)
	}
	t.mu.Lock()
	h := t.held[a]
	named := h != nil && h.named
	t.mu.Unlock()
	switch {
	case named:
		return nil
	case !t.options.Auto: // only addresses that --link roce:ADDRESS names are open
		if t.current.Load().roce == nil {
			return errors.New("RoCE does not open by itself here (--link)")
		}
		return fmt.Errorf("RoCE is not open on the local address %v; --link names others", a)
	case t.options.Addresses != nil && !within(t.options.Addresses, a): // auto,address= names only others
		return fmt.Errorf("RoCE does not open on the local address %v: --link auto,address= names others", a)
	case !t.options.Users.may(who.UID):
		return fmt.Errorf("%w: uid %d may not open RoCE on %v; the owner of the engine allows it with --link-users", nic.ErrDenied, who.UID, a)
	}
	return nil
}

// hold begins a use of a local address. It opens the address if it is not open, and waits until the address
// is open. why is the reason of the use, for reports. The caller ends the use by release.
func (t *Table) hold(a netip.Addr, why string, who nic.User) (release func(), err error) {
	if err := t.may(a, who); err != nil {
		return nil, err
	}
	h, isNew, err := t.begin(a, why)
	if err != nil {
		return nil, err
	}
	if isNew {
		t.openNew(a, h, why, who)
	}
	return t.awaitUse(a, h, why)
}

// begin counts one more use of a local address. If isNew is true, the caller has to call openNew.
func (t *Table) begin(a netip.Addr, why string) (h *holding, isNew bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false, errStops
	}
	if h = t.held[a]; h == nil {
		h, isNew = &holding{uses: make(map[string]int), ready: make(chan struct{})}, true
		t.held[a] = h
	}
	h.count++
	h.uses[why]++
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	return h, isNew, nil
}

// openNew opens the local address of a holding that begin has made.
func (t *Table) openNew(a netip.Addr, h *holding, why string, who nic.User) {
	h.err = explained(t.open(a, why, who.Name), a)
	close(h.ready)
}

// awaitUse waits until the local address of a use is open. If the address cannot be opened, awaitUse ends the
// use, and returns why.
func (t *Table) awaitUse(a netip.Addr, h *holding, why string) (release func(), err error) {
	if h.ready != nil {
		<-h.ready
	}
	if h.err != nil {
		t.release(a, h, why)
		return nil, h.err
	}
	return func() { t.release(a, h, why) }, nil
}

// await waits until a local address is open that another caller of begin opens. The error says why the
// address is not open.
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

// explained returns an error of opening a local address with a sentence that says how a person can mend it.
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

// expire closes a local address when linger is over, unless there is a use of the address again.
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
	if c := t.current.Load().roce; c != nil {
		_ = c.RemoveAddress(a)
		t.openLog.Info("RoCE closed", "address", a.String(), "because", "its last queue pair or listener has ended")
		t.announce()
	}
}

// Hold notes that a program expects packets at GIDs, until Release of the result is called. wildcard says
// that the program listens on all addresses: then Hold opens public addresses among the GIDs only if --link
// names them. why is the reason, for reports. The addresses are opened in the background.
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
		// Without --link auto, RoCE opens no address for a program. It never opens an address such as
		// 127.0.0.1. So nobody misses RoCE there.
		expected := t.options.Auto && routable(a)
		if err != nil && expected {
			r.Missing = err
		}
		return err != nil
	})
	stop := make(chan struct{})
	for _, a := range list {
		h, isNew, err := t.begin(a, why)
		if err != nil {
			continue
		}
		r.GIDs = append(r.GIDs, a.As16())
		go func() {
			if isNew {
				t.openNew(a, h, why, who)
			}
			release, err := t.awaitUse(a, h, why)
			if err != nil {
				t.openLog.Warn("RoCE not opened", "address", a.String(), "for", who.Name,
					"error", err.Error())
				return
			}
			<-stop
			release()
		}()
	}
	r.Release = func() { close(stop) }
	return r
}

// ofWildcard returns the addresses that RoCE opens for a program that listens on all addresses. own are the
// addresses of the program's network namespace. missing says which other addresses of the namespace the
// program may mean, and why RoCE does not open them; nil: none.
func (t *Table) ofWildcard(own []netip.Addr, who nic.User) (list []netip.Addr, missing error) {
	var public []string
	for _, a := range hostAddresses() {
		if !slices.Contains(own, a) { // the address is not in the program's namespace
			continue
		}
		err := t.may(a, who)
		switch {
		case errors.Is(err, nic.ErrDenied):
			missing = err
		case err != nil:
			continue // the options of --link exclude the address, so nobody misses RoCE there
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

// private reports whether an address is one of a private network (RFC 1918, RFC 6598, RFC 4193). Link-local
// and loopback addresses do not come here: they are not routable, so RoCE does not open on them.
func private(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsPrivate() || shared.Contains(a)
}

// hostAddresses returns the addresses of this host that other hosts can reach.
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
