package verbs

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/nicless/nicless/verbs/internal/cm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A cable joins servers, which are engines of their own.
type cable struct {
	mu   sync.Mutex
	ends []*cableEnd
	mtu  int
	held int
	pool bool // it joins InfiniBand ports, as pools and UCX do; otherwise it is RoCE
}

// A cableEnd is the fabric of one server.
type cableEnd struct {
	*cable
	s       *Server
	gids    map[[gidSize]byte]bool
	receive func([]byte, bool)
	denied  error // of May
	packets chan []byte
	told    [][]RemotePort // by SetAddresses
}

func (c *cable) server(t testing.TB) *cableEnd {
	e := &cableEnd{cable: c, gids: make(map[[gidSize]byte]bool), packets: make(chan []byte, 100)}
	cfg := Config{Fabric: e}
	if c.pool {
		cfg.Links, cfg.NoDEVX = []Link{InfiniBand}, true
	}
	e.s = newServingWith(t, cfg)
	c.mu.Lock()
	c.ends = append(c.ends, e)
	c.mu.Unlock()
	done := make(chan bool)
	t.Cleanup(func() { close(e.packets); <-done })
	go func() {
		for b := range e.packets {
			e.mu.Lock()
			f := e.receive
			e.mu.Unlock()
			if f != nil {
				f(b, !c.pool)
			}
		}
		close(done)
	}()
	return e
}

func (e *cableEnd) far(gid [gidSize]byte) *cableEnd {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.ends {
		if o != e && (o.gids[gid] || slices.ContainsFunc(o.last(), func(p RemotePort) bool { return p.GID == gid && p.LID != 0 })) {
			return o
		}
	}
	return nil
}

// last returns the addresses that the server has told last. The caller holds the lock.
func (e *cableEnd) last() []RemotePort {
	if len(e.told) == 0 {
		return nil
	}
	return e.told[len(e.told)-1]
}

func (e *cableEnd) Ports() (list []LinkedPort) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, o := range e.ends {
		for _, p := range o.last() {
			if o != e && p.LID != 0 {
				list = append(list, LinkedPort{p, o.s.engine.GUID(), fmt.Sprintf("node %d", i), true})
			}
		}
	}
	return list
}

var errUnplugged = errors.New("nothing is plugged in")

func (e *cableEnd) MTU(to RemotePort) (int, error) {
	if e.far(to.GID) == nil {
		return 0, errUnplugged
	}
	return e.mtu, nil
}

func (e *cableEnd) Path(to RemotePort, _, _ uint8, _ nic.User) (nic.Path, func(), error) {
	return nic.Path{}, func() {}, nil // the queue pairs of these tests send nothing
}

func (e *cableEnd) SetLocal(func([gidSize]byte, uint16) bool) {}

func (e *cableEnd) SetAddresses(list []RemotePort) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, list)
}

func (e *cableEnd) heard() [][]RemotePort {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.told
}

func (e *cableEnd) Find(name netip.Addr) (RemotePort, bool) {
	return RemotePort{GID: name.As16()}, e.far(name.As16()) != nil
}

func (e *cableEnd) May(to RemotePort, who nic.User) (network bool, err error) { return true, e.denied }

func (e *cableEnd) Hold(gids [][gidSize]byte, _ bool, _ string, _ nic.User) Reach {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held++
	return Reach{GIDs: gids, Release: func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.held--
	}}
}

func (e *cableEnd) SendManagement(to RemotePort, head, grh, payload []byte) error {
	o := e.far(to.GID)
	if o == nil {
		return errUnplugged
	}
	o.packets <- append(append(append([]byte{}, head...), grh...), payload...)
	return nil
}

func (e *cableEnd) SetNotes(func() []string) {}

func (e *cableEnd) SetManagement(f func([]byte, bool)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.receive = f
}

// A cmClient is a program of librdmacm in a namespace of a server, without a process.
type cmClient struct {
	testing.TB
	s       *Server
	program *cm.Program
	channel *cm.Channel
	ip      netip.Addr
	tokens  chan bool
}

func (e *cableEnd) client(t *testing.T, ip string) *cmClient {
	n, err := e.s.join(netnsKey{uid: uint32(os.Getuid()), cookie: 7})
	require.NoError(t, err)
	t.Cleanup(func() { e.s.leave(n) })
	n.scan([]address{addressOf(t, "lo", "127.0.0.1/8"), addressOf(t, "eth0", ip+"/24")})
	c := &cmClient{TB: t, s: e.s, ip: netip.MustParseAddr(ip), tokens: make(chan bool, 100)}
	e.mu.Lock()
	e.gids[c.ip.As16()] = true
	e.mu.Unlock()
	c.program = &cm.Program{Owner: &process{uid: uint32(os.Getuid()), subscriber: &subscriber{s: e.s, counts: make(map[nic.Source]int)}}, UID: uint32(os.Getuid()), Namespace: namespaceOf(n), Network: cmNetwork{e.s, n}, Explain: func(text string) { t.Log(text) }}
	c.channel, err = e.s.manager.Open(c.program, c)
	require.NoError(t, err)
	return c
}

func (c *cmClient) Put() { c.tokens <- true }
func (c *cmClient) Take(n int) {
	for ; n > 0 && len(c.tokens) > 0; n-- {
		<-c.tokens
	}
}
func (c *cmClient) Gone() bool { return false }

// call writes a command and returns its response.
func (c *cmClient) call(number uint32, room int, req []byte) []byte {
	c.Helper()
	written := le.AppendUint32(nil, number)
	written = le.AppendUint16(le.AppendUint16(written, uint16(len(req))), uint16(room))
	call := &cm.Call{Program: c.program, Channel: c.channel, Written: append(written, req...)}
	for {
		err := c.s.manager.Serve(call)
		if err == nil {
			break
		}
		require.ErrorIs(c, err, cm.ErrAgain)
		for _, n := range call.Needs {
			r := cm.Result{Kind: n.Kind}
			switch n.Kind {
			case cm.NeedRoute:
				r.Bytes = append(c.sockaddr(c.ip, 0), make([]byte, 16)...)
			case cm.NeedToken:
				await.Receive(c, "an event", c.tokens)
			}
			call.Results = append(call.Results, r)
		}
		call.Needs = nil
	}
	if len(call.Stores) == 0 {
		return nil
	}
	return call.Stores[0].Bytes
}

// sockaddr returns a struct sockaddr_in.
func (c *cmClient) sockaddr(ip netip.Addr, port uint16) []byte {
	b := make([]byte, 16)
	le.PutUint16(b, unix.AF_INET)
	b[2], b[3] = byte(port>>8), byte(port)
	copy(b[4:], ip.AsSlice())
	return b
}

func (c *cmClient) create(uid uint64) uint32 {
	c.Helper()
	return le.Uint32(c.call(abi.CMCmdCreateID, 4, createIDCommand()[abi.CMHdrSize:]))
}

// next waits for an event, which has to be of this kind (enum rdma_cm_event_type).
func (c *cmClient) next(kind uint32) []byte {
	c.Helper()
	e := c.call(abi.CMCmdGetEvent, abi.CMEventRespSize, make([]byte, abi.CMGetEventSize))
	require.Equal(c, kind, le.Uint32(e[abi.CMEventRespEvent:]))
	return e
}

// attributes returns the attributes of a queue pair for a state.
func (c *cmClient) attributes(id, state uint32) []byte {
	c.Helper()
	req := make([]byte, abi.CMInitQPAttrSize)
	le.PutUint32(req[abi.CMInitQPAttrID:], id)
	le.PutUint32(req[abi.CMInitQPAttrQPState:], state)
	return c.call(abi.CMCmdInitQPAttr, abi.UQPAttrSize, req)
}

// Programs of two servers connect over a fabric, by packets for queue pair 1.
func TestConnectionOverFabric(t *testing.T) {
	wires := &cable{mtu: 2000}
	a, b := wires.server(t), wires.server(t)
	client, server := a.client(t, "192.0.2.1"), b.client(t, "192.0.2.2")

	listener := server.create(7)
	bind := make([]byte, abi.CMBindSize)
	le.PutUint32(bind[abi.CMBindID:], listener)
	le.PutUint16(bind[abi.CMBindAddrSize:], 16)
	copy(bind[abi.CMBindAddr:], server.sockaddr(netip.IPv4Unspecified(), 7000))
	server.call(abi.CMCmdBind, 0, bind)
	server.call(abi.CMCmdListen, 0, u32s(listener, 5))

	active := client.create(7)
	resolve := make([]byte, abi.CMResolveAddrSize)
	le.PutUint32(resolve[abi.CMResolveAddrID:], active)
	le.PutUint16(resolve[abi.CMResolveAddrDstSize:], 16)
	copy(resolve[abi.CMResolveAddrDstAddr:], client.sockaddr(server.ip, 7000))
	client.call(abi.CMCmdResolveAddr, 0, resolve)
	client.next(0) // ADDR_RESOLVED
	client.call(abi.CMCmdResolveRoute, 0, u32s(active, 2000))
	client.next(2) // ROUTE_RESOLVED
	param := make([]byte, abi.CMConnParamSize)
	le.PutUint32(param[abi.CMConnParamQPNum:], 0x111)
	param[abi.CMConnParamValid], param[abi.CMConnParamPrivateDataLen] = 1, 5
	copy(param[abi.CMConnParamPrivateData:], "hello")
	connect := make([]byte, abi.CMConnectSize)
	le.PutUint32(connect[abi.CMConnectID:], active)
	copy(connect[abi.CMConnectConnParam:], param)
	client.call(abi.CMCmdConnect, 0, connect)

	e := server.next(4) // CONNECT_REQUEST
	require.Equal(t, "hello", string(e[abi.CMEventRespParam+abi.CMConnParamPrivateData:][:5]))
	passive := le.Uint32(e[abi.CMEventRespID:])
	le.PutUint32(param[abi.CMConnParamQPNum:], 0x222)
	accept := make([]byte, abi.CMAcceptSize)
	le.PutUint64(accept[abi.CMAcceptUID:], 8)
	le.PutUint32(accept[abi.CMAcceptID:], passive)
	copy(accept[abi.CMAcceptConnParam:], param)
	server.call(abi.CMCmdAccept, 0, accept)
	client.next(5) // CONNECT_RESPONSE
	ours, theirs := client.attributes(active, 2), server.attributes(passive, 3)
	require.Equal(t, uint32(0x222), le.Uint32(ours[abi.UQPAttrDestQPNum:]))
	require.Equal(t, uint32(3), le.Uint32(ours[abi.UQPAttrPathMTU:]), "1024 bytes: the most that fits into 2000")
	require.Equal(t, server.ip.As16(), [gidSize]byte(ours[abi.UQPAttrAHAttr+abi.AHAttrGRHDGID:]))
	require.Equal(t, le.Uint32(ours[abi.UQPAttrRQPSN:]), le.Uint32(theirs[abi.UQPAttrSQPSN:]))
	confirm := make([]byte, abi.CMAcceptSize)
	le.PutUint32(confirm[abi.CMAcceptID:], active)
	client.call(abi.CMCmdAccept, 0, confirm)
	server.next(9) // ESTABLISHED

	a.s.manager.Close(client.channel) // the program dies
	server.next(10)                   // DISCONNECTED
	b.s.manager.Close(server.channel)
	empty := func() bool { return a.s.manager.Leftovers()+b.s.manager.Leftovers() == 0 }
	await.Until(t, "nothing is left", empty)
	await.Until(t, "no wire is held", func() bool { wires.mu.Lock(); defer wires.mu.Unlock(); return wires.held == 0 })
	require.Equal(t, cm.WireStats{Sent: 3, Received: 2}, a.s.manager.WireStats())
}

// Datagrams that strangers send to queue pair 1 are counted.
func TestGarbageForQueuePair1(t *testing.T) {
	wires := &cable{}
	a := wires.server(t)
	c := a.client(t, "192.0.2.1")
	theirs := netip.MustParseAddr("192.0.2.9").As16()
	a.receive(nil, true)
	a.receive(gsiBytes(theirs, c.ip.As16(), make([]byte, cm.MADSize)), true)
	require.Equal(t, cm.WireStats{Received: 2, Malformed: 2}, a.s.manager.WireStats())

	_, _, known := cmNetwork{a.s, a.s.nowhere}.Owner(cm.Name{IP: netip.MustParseAddr("192.0.2.9")})
	require.False(t, known)
	w := &cmWire{s: a.s, fabric: a}
	_, err := w.Path(cm.Address{}, cm.PortAddress{GID: theirs}, c.program)
	require.ErrorIs(t, err, errUnplugged)
	a.denied = nic.ErrDenied
	_, err = w.Path(cm.Address{}, cm.PortAddress{GID: theirs}, c.program)
	require.ErrorIs(t, err, nic.ErrDenied)
	a.denied = nil
	for _, to := range []struct {
		ip   string
		home bool
	}{{"192.0.2.1", true}, {"127.0.0.1", false}, {"192.0.2.9", false}} {
		_, home := w.Home(cm.PortAddress{GID: netip.MustParseAddr(to.ip).As16()}, netip.Addr{})
		require.Equal(t, to.home, home, to.ip)
	}
	require.Equal(t, []uint8{0, 0, 1, 3, 5, 5}, []uint8{mtuOf(0), mtuOf(255), mtuOf(256), mtuOf(1500), mtuOf(4096), mtuOf(1 << 20)})
	a.s.manager.Close(c.channel)
}
