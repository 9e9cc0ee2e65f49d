//go:build linux && (amd64 || arm64)

package cm

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A world is several managers, a wire between them, and one clock, which goes from event to event.
// Nothing happens but in run. The same seed makes the same things happen.
type world struct {
	testing.TB
	rigs   []*rig
	now    time.Duration
	events []*occasion // not sorted; their order of creation decides between those of one time
	random *rand.Rand

	lost, doubled float64       // shares of the datagrams
	delay         time.Duration // most time that a datagram takes
	eat           func(msg Message) bool
	path          Path
	broken        error  // there is no path
	public        []GID  // at which listeners on all addresses are not reached
	missing       string // what Hold says of addresses that are not open
	held          int
	sent          []sentMAD
}

// An occasion is something that will happen.
type occasion struct {
	at time.Duration
	f  func()
}

type sentMAD struct {
	at       time.Duration
	from, to PortAddress
	message  Message
	bytes    *MAD
}

// newWorld returns a world with so many managers.
func newWorld(t testing.TB, n int) *world {
	w := &world{TB: t, random: rand.New(rand.NewPCG(1, 2)), path: Path{MTU: 3}}
	for k := range n {
		r := &rig{TB: t, hosts: make(map[netip.Addr]*host)}
		r.elsewhere = func(a Name) (PortAddress, bool) {
			o := w.owner(a.IP)
			if o == nil || o == r {
				return PortAddress{}, false
			}
			e, _ := o.hosts[a.IP].Local(a)
			return e.PortAddress, true
		}
		r.m = New(Config{Devices: []Device{{GUID: 0x1100 + uint64(k), AckDelay: 16, MTU: 5}}, Accounts: r, After: w.after, Wire: wire{w, r}})
		w.rigs = append(w.rigs, r)
	}
	return w
}

// pair returns two programs of different managers, and a listener at port 7000 of the second.
func (w *world) pair() (client, server *file, listener uint32) {
	w.Helper()
	client, server = w.rigs[0].host("10.0.0.1").open(), w.rigs[1].host("10.0.0.2").open()
	return client, server, server.listens("0.0.0.0", 7000)
}

func (f *file) listens(ip string, port uint16) (listener uint32) {
	f.Helper()
	listener = f.create(0x106, 100)
	require.Zero(f, f.bind(listener, inet(ip, port)))
	require.Zero(f, f.listen(listener, 0))
	return listener
}

func (w *world) after(d time.Duration, f func()) (stop func()) {
	o := &occasion{w.now + d, f}
	w.events = append(w.events, o)
	return func() { w.events = slices.DeleteFunc(w.events, func(e *occasion) bool { return e == o }) }
}

// step makes the next thing happen.
func (w *world) step() bool {
	if len(w.events) == 0 {
		return false
	}
	next := 0
	for i, o := range w.events {
		if o.at < w.events[next].at {
			next = i
		}
	}
	o := w.events[next]
	w.events = slices.Delete(w.events, next, next+1)
	w.now = o.at
	o.f()
	return true
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	w.Helper()
	done := false
	w.after(d, func() { done = true })
	for !done {
		require.True(w, w.step())
	}
}

// await lets time pass until something is so, but not longer than connection managers have
// patience.
func (w *world) await(what func() bool) {
	w.Helper()
	for end := w.now + time.Hour; !what(); {
		require.True(w, w.step() && w.now < end, "it never happens; said: %v", w.said())
	}
}

func (w *world) said() (all []string) {
	for _, r := range w.rigs {
		all = append(all, r.said...)
	}
	return all
}

// next waits for an event, which has to be this one.
func (w *world) next(f *file, kind eventKind, uid uint64, status int32) []byte {
	w.Helper()
	w.await(func() bool { return len(f.ch.events) > 0 })
	return f.expect(kind, uid, status)
}

// ends closes the programs, lets time pass until nothing is left to happen, and checks that nothing
// is left over.
func (w *world) ends(all ...*file) {
	w.Helper()
	for _, f := range all {
		f.close()
	}
	for w.step() {
		require.Less(w, w.now, 24*time.Hour)
	}
	for _, r := range w.rigs {
		r.ends()
		require.Zero(w, r.m.detachedLinks)
	}
	require.Zero(w, w.held, "addresses that are held")
}

// owner returns the rig that has an address.
func (w *world) owner(ip netip.Addr) *rig {
	for _, r := range w.rigs {
		if r.hosts[ip] != nil {
			return r
		}
	}
	return nil
}

// messages returns the messages of a type that were sent.
func messages[M Message](w *world) (all []M) {
	for _, s := range w.sent {
		if m, ok := s.message.(M); ok {
			all = append(all, m)
		}
	}
	return all
}

// A wire is the world as one manager sees it.
type wire struct {
	*world
	own *rig
}

func (w wire) Path(Address, PortAddress, *Program) (Path, error) {
	require.NotZero(w, w.held)
	return w.path, w.broken
}

func (w wire) Hold(at Address, to PortAddress, p *Program) *Held {
	w.held++
	released := false
	return &Held{
		Release: func() {
			require.False(w, released, "released twice")
			released = true
			w.held--
		},
		Covers:  func(g GID) bool { return !slices.Contains(w.public, g) || at.GID == g },
		Missing: w.missing,
	}
}

func (w wire) Home(to PortAddress, ip netip.Addr) (Namespace, bool) {
	if to.LID == 0 {
		ip = netip.AddrFrom16(to.GID).Unmap()
	}
	h := w.own.hosts[ip]
	return h, h != nil
}

func (w wire) SendMAD(from, to PortAddress, mad *MAD) error {
	require.True(w, w.own.m.mu.TryLock(), "a datagram is sent without the lock")
	w.own.m.mu.Unlock()
	_, msg, err := parseMAD(mad)
	require.NoError(w, err)
	w.sent = append(w.sent, sentMAD{w.now, from, to, msg, mad})
	if w.broken != nil {
		return w.broken
	}
	copies := 1
	if w.random.Float64() < w.doubled {
		copies = 2
	}
	for range copies {
		if w.random.Float64() < w.lost || w.eat != nil && w.eat(msg) {
			continue
		}
		w.after(time.Microsecond+time.Duration(w.random.Float64()*float64(w.delay)), func() {
			for _, r := range w.rigs {
				for _, h := range r.hosts {
					if e, ok := h.Local(Name{IP: netip.AddrFrom16(to.GID).Unmap(), IsGID: to.LID != 0}); ok && e.PortAddress == to {
						r.m.ReceiveMAD(from, to, mad[:], true)
						return
					}
				}
			}
		})
	}
	return nil
}

var errNoPath = errors.New("the cable is cut")
