//go:build linux && (amd64 || arm64)

package links

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// A holding is a local address that queue pairs or listeners use. Its sockets are open as long as
// that, and a little longer: a peer may not have got the last acknowledgement, and programs often
// connect again.
type holding struct {
	count int
	uses  map[string]int // how many uses have this reason
	err   error          // why it could not be opened
	ready chan struct{}
	timer *time.Timer // closes the address
}

// linger is how long a local address stays open after its last use.
const linger = 5 * time.Second

// hold counts one more use of a local address, and opens it if it is not open. It waits until the
// address is open.
func (t *Table) hold(a netip.Addr, why string) (release func(), err error) {
	if !routable(a) {
		return nil, fmt.Errorf("the queue pair's own address, %v, is of no network; choose another entry of the GID table", a)
	}
	t.mu.Lock()
	h := t.held[a]
	switch {
	case t.closed:
		t.mu.Unlock()
		return nil, errStops
	case h != nil:
		h.count++
		h.uses[why]++
		if h.timer != nil {
			h.timer.Stop()
			h.timer = nil
		}
		t.mu.Unlock()
	case !t.options.Auto:
		t.mu.Unlock()
		if t.now.Load().roce == nil {
			return nil, errors.New("RoCE does not open by itself here (--link)")
		}
		return nil, fmt.Errorf("RoCE is not open on the local address %v; --link names others", a)
	default:
		h = &holding{count: 1, uses: map[string]int{why: 1}, ready: make(chan struct{})}
		t.held[a] = h
		t.mu.Unlock()
		h.err = explained(t.open(a, why), a)
		close(h.ready)
	}
	if h.ready != nil {
		<-h.ready
	}
	if h.err != nil {
		t.release(a, h, why)
		return nil, h.err
	}
	return func() { t.release(a, h, why) }, nil
}

// lingers reports whether a local address is open although nobody uses it.
func (t *Table) lingers(a netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.held[a]
	return h != nil && h.count == 0
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
	if h.uses[why]--; h.uses[why] == 0 {
		delete(h.uses, why)
	}
	if h.count--; h.count > 0 || t.held[a] != h {
		return
	}
	if h.err != nil || t.closed {
		delete(t.held, a)
		return
	}
	h.timer = time.AfterFunc(linger, func() { t.expire(a, h) })
}

// expire closes a local address that nobody uses any more.
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
		t.log.Info("RoCE closed", "address", a.String(), "because", "its last queue pair or listener has ended")
		t.announce()
	}
}

// Hold says that programs expect packets at a GID, until release is called. A zero GID means all
// addresses of this host. The addresses are opened in the background.
func (t *Table) Hold(gid [16]byte) (release func()) {
	var list []netip.Addr
	if gid == ([16]byte{}) {
		list = hostAddresses()
	} else {
		list = []netip.Addr{netip.AddrFrom16(gid).Unmap()}
	}
	stop := make(chan struct{})
	for _, a := range list {
		if !routable(a) || !t.options.Auto {
			continue
		}
		go func() {
			free, err := t.hold(a, "a program waits for connections")
			if err != nil {
				t.log.Warn("RoCE not opened", "address", a.String(), "error", err.Error())
				return
			}
			<-stop
			free()
		}()
	}
	return func() { close(stop) }
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
