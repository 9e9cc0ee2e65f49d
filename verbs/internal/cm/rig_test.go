//go:build linux && (amd64 || arm64)

package cm

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A rig is a manager in tests: time passes when the test says so, and what users are charged is
// counted.
type rig struct {
	testing.TB
	m      *Manager
	timers []*timer
	cost   nic.Cost
	limit  int // of memory; 0: none
	hosts  map[netip.Addr]*host
	said   []string
	calls  int // that were made

	elsewhere func(a Name) (PortAddress, bool) // of a rig that is not alone
}

type timer struct {
	d time.Duration
	f func()
}

func newRig(t testing.TB) *rig {
	r := &rig{TB: t, hosts: make(map[netip.Addr]*host)}
	r.m = New(Config{Devices: []Device{{GUID: 0x1122334455667788, AckDelay: 16, MTU: 5}}, Accounts: r,
		After: func(d time.Duration, f func()) (stop func()) {
			t := &timer{d, f}
			r.timers = append(r.timers, t)
			return func() { r.timers = slices.DeleteFunc(r.timers, func(o *timer) bool { return o == t }) }
		}})
	return r
}

func (r *rig) Charge(_ uint32, c nic.Cost) error {
	if r.limit != 0 && r.cost.Memory+c.Memory > r.limit {
		return refuse(unix.ENOMEM, "too much")
	}
	r.cost = r.cost.Plus(c)
	return nil
}

func (r *rig) Refund(_ uint32, c nic.Cost) { r.cost = r.cost.Minus(c) }

// pass lets all timers run out, also those that are made meanwhile.
func (r *rig) pass() {
	for len(r.timers) > 0 {
		all := r.timers
		r.timers = nil
		for _, t := range all {
			t.f()
		}
	}
}

// shortest lets the shortest timer run out, and returns its time.
func (r *rig) shortest() time.Duration {
	r.Helper()
	require.NotEmpty(r, r.timers)
	t := slices.MinFunc(r.timers, func(a, b *timer) int { return int(a.d - b.d) })
	r.timers = slices.DeleteFunc(r.timers, func(o *timer) bool { return o == t })
	t.f()
	return t.d
}

// ends checks that nothing is left.
func (r *rig) ends() {
	r.Helper()
	for _, t := range r.timers {
		require.Contains(r, []time.Duration{patience, afterEnding, recentTime}, t.d, "what nobody is charged for ends soon")
	}
	r.pass()
	require.Zero(r, r.m.Leftovers())
	require.Empty(r, r.m.waiting)
	require.Empty(r, r.m.awaited)
	require.Empty(r, r.m.recent)
	require.Equal(r, nic.Cost{}, r.cost)
}

// manyIDs is from how many ids on the index is not checked after each call, but after as many.
const manyIDs = 64

// indexed checks that every id with a port is in the index where it belongs, and nowhere else.
func (r *rig) indexed() {
	r.Helper()
	want := make(map[portKey]int)
	for _, i := range r.m.ids {
		if i.port == nil {
			continue
		}
		want[*i.port]++
		at, u := i.indexKey(), r.m.ports[*i.port]
		require.True(r, u.all[at.class][i] && u.addr[at.addr][at.class][i] && (at.gid == GID{} || u.gid[at.gid][at.class][i]), "id %d", i.handle)
	}
	require.Len(r, r.m.ports, len(want))
	count := func(h holders) (n int) {
		for _, set := range h {
			n += len(set)
		}
		return n
	}
	for key, n := range want {
		u, atAddresses := r.m.ports[key], 0
		for _, h := range u.addr {
			atAddresses += count(h)
		}
		require.Equal(r, []int{n, n}, []int{count(u.all), atAddresses})
	}
}

// A host is a network namespace with one address besides the loopback addresses. If port has a
// LID, they lead to that InfiniBand port.
type host struct {
	*rig
	ip   netip.Addr
	port PortAddress
}

func (r *rig) host(ip string) *host {
	h := &host{rig: r, ip: netip.MustParseAddr(ip)}
	r.hosts[h.ip] = h
	return h
}

func (h *host) Local(a Name) (Entry, bool) {
	own := a.IP == h.ip || a.IP == loopback(afINET) || a.IP == loopback(afINET6)
	switch {
	case h.port.infiniband():
		return Entry{PortAddress: h.port}, gidOf(a.IP) == h.port.GID || own && !a.IsGID
	case a.IP == h.ip:
		return Entry{PortAddress: PortAddress{GID: gidOf(a.IP)}, Index: 3}, true
	}
	return Entry{PortAddress: PortAddress{GID: gidOf(a.IP)}, Index: 5}, own
}

func (h *host) Owner(a Name) (Namespace, PortAddress, bool) {
	if e, ok := h.Local(a); ok || a.IP.IsLoopback() {
		return h, e.PortAddress, true
	}
	for _, o := range h.hosts {
		if e, ok := o.Local(a); ok {
			return o, e.PortAddress, true
		}
	}
	if h.elsewhere != nil {
		to, ok := h.elsewhere(a)
		return Elsewhere, to, ok
	}
	return nil, PortAddress{}, false
}

// A file is an open of rdma_cm by a program on a host.
type file struct {
	*host
	program *Program
	ch      *Channel
	tokens  int
	gone    bool
	asked   int // how often Gone was called
}

func (h *host) open() *file {
	h.Helper()
	f := &file{host: h}
	f.program = &Program{UID: 1000, Namespace: h, Network: h, LowPorts: func() bool { return false },
		Explain: func(s string) { h.said = append(h.said, s) }}
	ch, err := h.m.Open(f.program, f)
	require.NoError(h, err)
	f.ch = ch
	return f
}

func (f *file) Put()       { f.tokens++ }
func (f *file) Take(n int) { f.tokens -= min(n, f.tokens) }
func (f *file) Gone() bool { f.asked++; return f.gone }

// call writes a command, satisfies its needs, and returns the error number and the response.
func (f *file) call(number uint32, room int, req []byte) (unix.Errno, []byte) {
	f.Helper()
	return f.write(append(hdr(number, len(req), room), req...))
}

func hdr(number uint32, in, out int) []byte {
	b := le.AppendUint32(nil, number)
	return le.AppendUint16(le.AppendUint16(b, uint16(in)), uint16(out))
}

func (f *file) write(written []byte) (unix.Errno, []byte) {
	f.Helper()
	var results []Result
	for range 8 {
		c := &Call{Program: f.program, Channel: f.ch, Written: written, Results: results}
		err := f.m.Serve(c)
		f.calls++
		if len(f.m.ids) <= manyIDs || f.calls%manyIDs == 0 { // a look takes time with the number of ids
			f.indexed()
		}
		if err == nil {
			if len(c.Stores) == 0 {
				return 0, nil
			}
			require.Len(f, c.Stores, 1)
			return 0, c.Stores[0].Bytes
		}
		if err != ErrAgain {
			var r *Refusal
			require.ErrorAs(f, err, &r)
			return r.Errno, nil
		}
		for _, n := range c.Needs {
			results = append(results, f.meet(n))
		}
	}
	f.Fatal("needs are never met")
	return 0, nil
}

func (f *file) meet(n Need) Result {
	r := Result{Kind: n.Kind}
	switch n.Kind {
	case NeedToken:
		if f.tokens == 0 {
			r.Errno = unix.EAGAIN
		} else {
			f.tokens--
		}
	case NeedRoute:
		to := parseSockaddr(n.Bytes[addressRoom:])
		r.Bytes = make([]byte, addressRoom)
		if to.ip().Is4() != f.ip.Is4() {
			r.Errno = unix.ENETUNREACH
		}
		(&sockaddr{family: to.family, addr: f.ip}).put(r.Bytes)
	case NeedBytes:
		r.Bytes = make([]byte, n.Length)
		copy(r.Bytes, words(uint32(n.Addr))) // in tests, the address is the value
	}
	return r
}

// ok makes a call that has to succeed.
func (f *file) ok(number uint32, room int, req []byte) []byte {
	f.Helper()
	errno, b := f.call(number, room, req)
	require.Zero(f, errno, "%s: %v", commands[number].name, f.said)
	return b
}

func (f *file) create(space uint16, uid uint64) uint32 {
	f.Helper()
	req := make([]byte, abi.CMCreateIDSize)
	le.PutUint64(req[abi.CMCreateIDUID:], uid)
	le.PutUint16(req[abi.CMCreateIDPS:], space)
	req[abi.CMCreateIDQPType] = qptRC
	return le.Uint32(f.ok(abi.CMCmdCreateID, 4, req))
}

func bindRequest(handle uint32, a sockaddr) []byte {
	req := make([]byte, abi.CMBindSize)
	le.PutUint32(req[abi.CMBindID:], handle)
	le.PutUint16(req[abi.CMBindAddrSize:], uint16(a.size()))
	a.put(req[abi.CMBindAddr:])
	return req
}

func inet(ip string, port uint16) sockaddr {
	a := sockaddr{family: afINET, addr: netip.MustParseAddr(ip), port: port}
	if a.addr.Is6() {
		a.family = afINET6
	}
	return a
}

func (f *file) bind(handle uint32, a sockaddr) unix.Errno {
	f.Helper()
	errno, _ := f.call(abi.CMCmdBind, 0, bindRequest(handle, a))
	return errno
}

func words(w ...uint32) (b []byte) {
	for _, v := range w {
		b = le.AppendUint32(b, v)
	}
	return b
}

func (f *file) listen(handle, backlog uint32) unix.Errno {
	f.Helper()
	errno, _ := f.call(abi.CMCmdListen, 0, words(handle, backlog))
	return errno
}

func resolveRequest(handle uint32, src, dst sockaddr) []byte {
	req := make([]byte, abi.CMResolveAddrSize)
	le.PutUint32(req[abi.CMResolveAddrID:], handle)
	le.PutUint16(req[abi.CMResolveAddrSrcSize:], uint16(src.size()))
	le.PutUint16(req[abi.CMResolveAddrDstSize:], uint16(dst.size()))
	src.put(req[abi.CMResolveAddrSrcAddr:])
	dst.put(req[abi.CMResolveAddrDstAddr:])
	return req
}

// resolved makes an id that is ready to connect.
func (f *file) resolved(space uint16, uid uint64, dst sockaddr) uint32 {
	f.Helper()
	h := f.create(space, uid)
	f.ok(abi.CMCmdResolveAddr, 0, resolveRequest(h, sockaddr{}, dst))
	f.expect(addrResolved, uid, 0)
	f.ok(abi.CMCmdResolveRoute, 0, words(h, 2000))
	f.expect(routeResolved, uid, 0)
	return h
}

func params(qpn uint32, data string) []byte {
	p := make([]byte, abi.CMConnParamSize)
	le.PutUint32(p[abi.CMConnParamQPNum:], qpn)
	p[abi.CMConnParamPrivateDataLen] = byte(copy(p[abi.CMConnParamPrivateData:], data))
	p[abi.CMConnParamResponderResources], p[abi.CMConnParamInitiatorDepth] = 3, 5
	p[abi.CMConnParamRetryCount], p[abi.CMConnParamRNRRetryCount], p[abi.CMConnParamValid] = 7, 6, 1
	return p
}

func connectRequestOf(handle uint32, p []byte) []byte {
	req := make([]byte, abi.CMConnectSize)
	copy(req[abi.CMConnectConnParam:], p)
	le.PutUint32(req[abi.CMConnectID:], handle)
	le.PutUint32(req[abi.CMConnectECE:], 0x15b3)
	return req
}

func (f *file) connect(handle uint32, data string) unix.Errno {
	f.Helper()
	errno, _ := f.call(abi.CMCmdConnect, 0, connectRequestOf(handle, params(0x111, data)))
	return errno
}

func (f *file) accept(handle uint32, uid uint64, p []byte) unix.Errno {
	f.Helper()
	req := make([]byte, abi.CMAcceptSize)
	le.PutUint64(req[abi.CMAcceptUID:], uid)
	copy(req[abi.CMAcceptConnParam:], p)
	le.PutUint32(req[abi.CMAcceptID:], handle)
	errno, _ := f.call(abi.CMCmdAccept, 0, req)
	return errno
}

// none is the parameters of an ACCEPT that confirms.
var none = make([]byte, abi.CMConnParamSize)

// event reads an event, nil if there is none.
func (f *file) event() []byte {
	f.Helper()
	errno, b := f.call(abi.CMCmdGetEvent, abi.CMEventRespSize, make([]byte, abi.CMGetEventSize))
	if errno == unix.EAGAIN {
		return nil
	}
	require.Zero(f, errno)
	require.Equal(f, f.tokens, len(f.ch.events))
	return b
}

// expect reads an event, which has to be this one.
func (f *file) expect(kind eventKind, uid uint64, status int32) []byte {
	f.Helper()
	b := f.event()
	require.NotNil(f, b, "no event; %s is expected; said: %v", eventNames[kind], f.said)
	require.Equal(f, eventNames[kind], eventNames[eventKind(le.Uint32(b[abi.CMEventRespEvent:]))])
	require.Equal(f, uid, le.Uint64(b[abi.CMEventRespUID:]))
	require.Equal(f, status, int32(le.Uint32(b[abi.CMEventRespStatus:])))
	return b
}

// quiet checks that no event waits.
func (f *file) quiet() {
	f.Helper()
	require.Nil(f, f.event())
}

func idOf(event []byte) uint32 { return le.Uint32(event[abi.CMEventRespID:]) }

// destroy destroys an id and returns how many of its events were read.
func (f *file) destroy(handle uint32) uint32 {
	f.Helper()
	req := make([]byte, abi.CMDestroyIDSize)
	le.PutUint32(req[abi.CMDestroyIDID:], handle)
	return le.Uint32(f.ok(abi.CMCmdDestroyID, 4, req))
}

// close closes the descriptor.
func (f *file) close() {
	f.gone = true
	f.m.Close(f.ch)
}

// pair returns two hosts' programs with a listener at port 7000 of the second.
func (r *rig) pair() (client, server *file, listener uint32) {
	r.Helper()
	client, server = r.host("10.0.0.1").open(), r.host("10.0.0.2").open()
	listener = server.create(abi.CMPSTCP, 100)
	require.Zero(r, server.bind(listener, inet("0.0.0.0", 7000)))
	require.Zero(r, server.listen(listener, 0))
	return client, server, listener
}
