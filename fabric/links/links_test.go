//go:build linux && (amd64 || arm64)

package links

import (
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/auth"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The words of --link, and what is wrong with them.
func TestParse(t *testing.T) {
	for _, row := range []struct {
		list []string
		want Options
	}{
		{nil, Options{Auto: true}},
		{[]string{"auto"}, Options{Auto: true}},
		{[]string{"none"}, Options{}},
		{[]string{"auto,address=10.0.0.0/8,peer=192.0.2.9,address=2001:db8::1", "auto,peer=fd00::/8"}, Options{Auto: true,
			Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128")},
			Peers:     []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32"), netip.MustParsePrefix("fd00::/8")}}},
		{[]string{"roce:192.0.2.1"}, Options{Local: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}},
		{[]string{"roce:192.0.2.1,peer=10.0.0.0/8,peer=192.0.2.9", "auto", "roce:2001:db8::1"}, Options{
			Local: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")},
			Peers: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.9/32")}, Auto: true}},
	} {
		got, err := Parse(row.list)
		require.NoError(t, err, "%q", row.list)
		require.Equal(t, row.want, got, "%q", row.list)
	}
	keys := auth.Options{Key: "k", Peers: "p", Trust: true, Encrypt: true}
	for _, list := range [][]string{
		{"auto,key=k,peers=p,trust=first,encrypt"}, {"auto", "roce:192.0.2.1,key=k,peers=p,trust=first,encrypt"}, {"auto,key=k,encrypt", "roce:192.0.2.1,peers=p,trust=first"},
	} {
		o, err := Parse(list)
		require.NoError(t, err, "%q", list)
		require.Equal(t, keys, o.Auth, "%q: all RoCE has one key", list)
		require.True(t, o.Auto)
	}
	o, err := Parse([]string{"pool:/dev/shm/p,node=3", "ucx:listen=0.0.0.0:7000"})
	require.NoError(t, err)
	require.Equal(t, "/dev/shm/p", o.Pools[0].Path)
	require.Equal(t, 3, o.Pools[0].Node)
	require.Equal(t, "0.0.0.0:7000", o.UCX[0].Listen)
	require.False(t, o.Auto)
	for _, list := range [][]string{ // these look alike
		{"pool:/dev/shm/p,node=0", "pool:/dev/shm/p,node=0,offset=64M"}, {"pool:/dev/shm/p,node=0", "pool:/dev/shm/q,node=0"},
		{"roce:fe80::1%eth0", "roce:fe80::1%eth1"},
	} {
		_, err := Parse(list)
		require.NoError(t, err, "%q", list)
	}

	for _, row := range []struct {
		list []string
		want string
	}{
		{[]string{"none", "auto"}, "link none excludes other links"},
		{[]string{""}, `link ""; none, auto, roce:ADDRESS, pool:PATH and ucx:HOST:PORT are possible`},
		{[]string{"auto,"}, `link auto: part 2, "": address=PREFIX or peer=PREFIX is needed`},
		{[]string{"auto,peer=10.0.0.0/8,192.0.2.1"}, `link auto: part 3, "192.0.2.1": address=PREFIX or peer=PREFIX is needed`},
		{[]string{"auto,address=10.0.0.0/33"}, "link auto: address=10.0.0.0/33: an address or a prefix such as 10.0.0.0/8 is needed"},
		{[]string{"auto,address=127.0.0.1"}, "link auto: address=127.0.0.1: a loopback address leads to no other host"},
		{[]string{"auto,peer="}, "link auto: peer=: an address or a prefix"},
		{[]string{"auto:10.0.0.1"}, "the options of auto follow a comma: auto,address=PREFIX,peer=PREFIX"},
		{[]string{"none", "auto,peer=10.0.0.0/8"}, "link none excludes other links"},
		{[]string{"roce:192.0.2.1,address=10.0.0.0/8"}, `part 2, "address=10.0.0.0/8"`},
		{[]string{"rdma:1"}, `link "rdma:1"; none, auto`},
		{[]string{"auto,x"}, `link auto: part 2, "x": address=PREFIX or peer=PREFIX is needed, or for keys one of key=FILE, peers=FILE, trust=first, auth=required, auth=offered and encrypt`},
		{[]string{"auto,encrypt"}, "need key=FILE"},
		{[]string{"roce:192.0.2.1,auth=required"}, "need key=FILE"},
		{[]string{"auto,key=a", "roce:192.0.2.1,key=b"}, "a link has one"},
		{[]string{"roce:"}, `link roce: part 1, "": a local IP address or peer=PREFIX is needed`},
		{[]string{"roce:192.0.2.1,foo=1"}, `link roce: part 2, "foo=1": a local IP address or peer=PREFIX is needed, or for keys one of key=FILE, peers=FILE, trust=first, auth=required, auth=offered and encrypt`},
		{[]string{"roce:peer=10.0.0.0/8"}, "link roce:peer=10.0.0.0/8: no local address"},
		{[]string{"roce:192.0.2.1,peer=10.0.0.0/33"}, "peer=10.0.0.0/33: an address or a prefix such as 10.0.0.0/8 is needed"},
		{[]string{"roce:192.0.2.1,192.0.2"}, `part 2, "192.0.2"`},
		{[]string{"roce:127.0.0.1"}, "link roce:127.0.0.1: a loopback address leads to no other host; name an address of a network interface"},
		{[]string{"roce:192.0.2.1,127.8.8.8"}, "link roce:127.8.8.8: a loopback"},
		{[]string{"roce:::1"}, "link roce:::1: a loopback"},
		{[]string{"roce:::ffff:127.0.0.1"}, "link roce:::ffff:127.0.0.1: a loopback"},
		{[]string{"roce:224.0.0.1"}, "link roce:224.0.0.1: a multicast address belongs to no host; name"},
		{[]string{"roce:ff02::1%eth0"}, "a multicast"},
		{[]string{"roce:0.0.0.0"}, "link roce:0.0.0.0: it stands for all addresses, and RoCE needs the one to which peers send; name"},
		{[]string{"roce:::"}, "link roce:::: it stands for all addresses"},
		{[]string{"roce:192.0.2.1", "roce:192.0.2.1"}, "link roce:192.0.2.1: the address is named twice"},
		{[]string{"roce:192.0.2.1,::ffff:192.0.2.1"}, "the address is named twice"},
		{[]string{"pool:/dev/shm/p,node=0", "pool:/dev/shm/p,node=1"}, "link pool:/dev/shm/p is named twice, with offset=0; an engine is one node of a pool"},
		{[]string{"pool:/dev/shm/p,node=0,offset=4K", "auto", "pool:/dev//shm/./p,offset=4096,node=0"}, "is named twice, with offset=4096"},
		{[]string{"pool:,node=1"}, "a path is needed"},
		{[]string{"pool:/dev/shm/p,node=1024"}, "node 1024; 0 to 1023 are possible"},
		{[]string{"pool:/dev/shm/p,node=-1"}, `option "node=-1"`},
		{[]string{"ucx:127.0.0.1:99999"}, `ucx: "127.0.0.1:99999": port 99999; 1 to 65535 are possible`},
		{[]string{"ucx:127.0.0.1:0"}, `port 0; 1 to 65535 are possible`},
		{[]string{"ucx:here"}, `"here" is no peer; HOST:PORT is needed`},
		{[]string{"ucx:listen=127.0.0.1:1,mtu=3"}, "mtu=3; a multiple of 4 from 256"},
	} {
		_, err := Parse(row.list)
		require.ErrorContains(t, err, row.want, "%q", row.list)
	}
}

// A testDevice is an engine without a thread.
type testDevice struct {
	router atomic.Pointer[nic.Router]
	ports  atomic.Int32

	announced atomic.Pointer[[]board.Entry]
	news      atomic.Pointer[func()]
	heard     sync.Map // the last report of the links, by GUID
	got       sync.Map // the last message, by box
	refusal   error    // the result of Deliver
}

func (d *testDevice) GUID() uint64           { return 77 }
func (d *testDevice) SetRouter(r nic.Router) { d.router.Store(&r) }
func (d *testDevice) Announced() []board.Entry {
	if list := d.announced.Load(); list != nil {
		return *list
	}
	return nil
}
func (d *testDevice) OnAnnounce(f func()) { d.news.Store(&f) }
func (d *testDevice) SetAnnounced(_ any, guid uint64, list []board.Entry) {
	d.heard.Store(guid, list)
}
func (d *testDevice) OnMessage(func(nic.BoxMessage, uint64, nic.User) error) {}
func (d *testDevice) Deliver(to uint64, m nic.BoxMessage) error {
	d.got.Store(to, m)
	return d.refusal
}
func (d *testDevice) AddPort(nic.PortConfig) (nic.Port, error) {
	d.ports.Add(1)
	return &testPort{}, nil
}

type testPort struct{ sent [][]byte }

func (p *testPort) Arrived()                              {}
func (p *testPort) SetUp(bool)                            {}
func (p *testPort) Stats() nic.PortStats                  { return nic.PortStats{} }
func (p *testPort) PathCounts() map[uint32]nic.PathCounts { return nil }
func (p *testPort) Trim()                                 {}
func (p *testPort) Close() error                          { return nil }
func (p *testPort) SendManagement(_ uint32, head, payload []byte) error {
	p.sent = append(p.sent, append(append([]byte(nil), head...), payload...))
	return nil
}

// A testLink leads to one peer.
type testLink struct {
	name   string
	guid   uint64
	gid    [16]byte
	lid    uint16
	path   nic.Path
	closed bool
	misses int // so many times it does not know the address yet
}

func (l *testLink) Name() string { return l.name }
func (l *testLink) Peers() []fabric.Peer {
	return []fabric.Peer{{Name: l.name + "'s", GUID: l.guid, Up: true}}
}
func (l *testLink) Close() error { l.closed = true; return nil }
func (l *testLink) Route(to nic.Address) (nic.Path, bool) {
	if l.misses > 0 {
		l.misses--
		return nic.Path{}, false
	}
	switch {
	case to.GUID != 0:
		return l.path, to.GUID == l.guid
	case to.LID != 0:
		return l.path, to.LID == l.lid
	}
	return l.path, to.GID == l.gid
}

func gid(s string) [16]byte { return netip.MustParseAddr(s).As16() }

// open opens a table with links of the test.
func open(t *testing.T, o Options, list ...*testLink) (*Table, *testDevice) {
	t.Helper()
	d := &testDevice{}
	table, err := Open(t.Context(), d, o, nil)
	require.NoError(t, err)
	for _, l := range list {
		table.add(l)
	}
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	return table, d
}

// Answers to very many strangers, whose addresses may be forged, end no path that this engine has
// requested, and fill only a part of the table of RoCE.
func TestAnswersToStrangers(t *testing.T) {
	own := freeport.Loopback(t, 1)[0]
	table, _ := open(t, Options{Local: []netip.Addr{own}})
	c := table.current.Load().roce
	asked := nic.Address{GID: gid("198.51.100.1"), From: own.As16(), HopLimit: 9}
	before, err := table.Route(asked)
	require.NoError(t, err)
	for i := range 5000 {
		to := verbs.RemotePort{GID: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}).As16(), From: own.As16()}
		_, err := table.MTU(to)
		require.NoError(t, err)
		require.NoError(t, table.SendManagement(to, make([]byte, gsiHead), make([]byte, grhSize), make([]byte, 256)))
	}
	require.Less(t, c.Stats().Paths, 1100)
	after, err := table.Route(asked)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// Addresses lead to this engine, or over the first link that knows them.
func TestRoute(t *testing.T) {
	a := &testLink{name: "a", guid: 5, gid: gid("192.0.2.5"), lid: 9, path: nic.Path{Port: &testPort{}, Number: 1, MTU: 1000}}
	b := &testLink{name: "b", guid: 6, gid: gid("2001:db8::6"), lid: 9, path: nic.Path{Port: &testPort{}, Number: 2, MTU: 2000}}
	table, _ := open(t, Options{}, a, b)
	table.resolveTime = 0
	table.SetLocal(func(g [16]byte, lid uint16) bool { return g == gid("192.0.2.77") || lid == 7 })
	for _, row := range []struct {
		to   nic.Address
		want nic.Path
	}{
		{nic.Address{GUID: 77}, nic.Path{}}, {nic.Address{GID: gid("192.0.2.77")}, nic.Path{}}, {nic.Address{LID: 7}, nic.Path{}},
		{nic.Address{GUID: 5, LID: 7}, a.path}, {nic.Address{GUID: 6}, b.path},
		{nic.Address{GID: a.gid}, a.path}, {nic.Address{GID: b.gid}, b.path}, {nic.Address{LID: 9}, a.path},
	} {
		got, err := table.Route(row.to)
		require.NoError(t, err, "%+v", row.to)
		require.Equal(t, row.want, got, "%+v", row.to)
	}
	for to, want := range map[nic.Address]string{
		{GUID: 8}: "no link leads to engine 0000000000000008", {LID: 8}: "no link leads to LID 0x8", {GID: gid("192.0.2.8")}: "no link leads to 192.0.2.8",
	} {
		_, err := table.Route(to)
		require.ErrorContains(t, err, want)
	}
	mtu, err := table.MTU(verbs.RemotePort{GID: b.gid})
	require.NoError(t, err)
	require.Equal(t, 2000, mtu)
	_, err = table.MTU(verbs.RemotePort{GID: gid("192.0.2.77")})
	require.ErrorContains(t, err, "the address is of this engine")
	path, release, err := table.Path(verbs.RemotePort{GID: a.gid}, 0, 1, nic.User{})
	require.NoError(t, err)
	require.Equal(t, a.path, path)
	release()
	for to, want := range map[verbs.RemotePort]string{
		{LID: 3}: "no link leads to", {GID: gid("127.0.0.2")}: "no link leads to 127.0.0.2",
		{GID: gid("192.0.2.8"), From: gid("192.0.2.77")}: "RoCE does not open by itself here (--link)",
		{GID: gid("192.0.2.8"), From: gid("fe80::1")}:    "is of no network",
	} {
		_, _, err := table.Path(to, 0, 1, nic.User{})
		require.ErrorContains(t, err, want)
	}
	_, ok := table.Find(netip.MustParseAddr("192.0.2.5"))
	require.True(t, ok)
	_, ok = table.Find(netip.MustParseAddr("192.0.2.8"))
	require.False(t, ok, "RoCE does not open by itself")
}

// A queue pair may be connected to an address that its engine has not sent the others yet.
func TestPathWaitsForNews(t *testing.T) {
	a := &testLink{name: "a", gid: gid("192.0.2.5"), path: nic.Path{Port: &testPort{}, Number: 1}, misses: 3}
	table, _ := open(t, Options{}, a)
	table.resolveTime = time.Minute
	path, release, err := table.Path(verbs.RemotePort{GID: a.gid}, 0, 1, nic.User{})
	require.NoError(t, err)
	require.Equal(t, a.path, path)
	require.Zero(t, a.misses)
	release()
}

// RoCE may go where --link says, and not to addresses of no network.
func TestAllowed(t *testing.T) {
	o, err := Parse([]string{"auto", "roce:192.0.2.9,peer=10.0.0.0/8,peer=2001:db8::/32"})
	require.NoError(t, err)
	table := &Table{options: o}
	for name, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "11.1.2.3": false, "2001:db8::1": true, "2001:db9::1": false, "::1": false,
	} {
		require.Equal(t, want, table.allowed(netip.MustParseAddr(name)), name)
	}
	require.True(t, (&Table{}).allowed(netip.MustParseAddr("203.0.113.1")))
	for name, want := range map[string]bool{
		"127.0.0.1": false, "0.0.0.0": false, "224.0.0.1": false, "169.254.1.1": false, "fe80::1": false, "ff02::1": false,
		"::ffff:127.0.0.1": false, "192.0.2.1": true, "2001:db8::1": true,
	} {
		require.Equal(t, want, routable(netip.MustParseAddr(name)), name)
	}
	require.False(t, routable(netip.Addr{}))
}

// own returns an address of this host that others reach.
func own(t *testing.T) netip.Addr {
	t.Helper()
	list := hostAddresses()
	if len(list) == 0 {
		t.Skip("this host has no address on a network")
	}
	return list[0]
}

// A local address is opened by its first use, stays open for a moment after its last one, and says
// why it is open.
func TestHold(t *testing.T) {
	a := own(t)
	table, d := open(t, Options{Auto: true})
	release, err := table.hold(a, "one", nic.User{})
	if err != nil {
		t.Skipf("RoCE cannot be opened on %v here: %v", a, err)
	}
	again, err := table.hold(a, "two", nic.User{})
	require.NoError(t, err)
	require.EqualValues(t, 1, d.ports.Load())
	require.Equal(t, a.String()+": one; "+a.String()+": two", table.why())
	release()
	require.Equal(t, a.String()+": two", table.why())
	again()
	require.Contains(t, table.why(), "in use less than 5s ago")
	third, err := table.hold(a, "three", nic.User{})
	require.NoError(t, err, "before it has closed")
	h := table.held[a]
	table.expire(a, h)
	require.Same(t, h, table.held[a], "it is in use")
	third()
	table.expire(a, h)
	require.Empty(t, table.held)
	require.Empty(t, table.why())
	_, err = table.hold(netip.MustParseAddr("203.0.113.77"), "it is not of this host", nic.User{})
	require.ErrorContains(t, err, "another network namespace")
	require.Empty(t, table.held)
	require.NoError(t, table.Close())
	_, err = table.hold(a, "late", nic.User{})
	require.ErrorContains(t, err, "the engine stops")
}

// Answers to strangers open no address for longer than it would be open without them.
func TestAnswersKeepNothingOpen(t *testing.T) {
	a := own(t)
	table, _ := open(t, Options{Auto: true})
	release, err := table.hold(a, "one", nic.User{})
	if err != nil {
		t.Skipf("RoCE cannot be opened on %v here: %v", a, err)
	}
	release()
	stranger := netip.MustParseAddr("203.0.113.9")
	if a.Is6() {
		stranger = netip.MustParseAddr("2001:db8::9")
	}
	h := table.held[a]
	timer := h.timer
	to := verbs.RemotePort{GID: stranger.As16(), From: a.As16()}
	answer := func() error {
		return table.SendManagement(to, make([]byte, gsiHead), make([]byte, grhSize), make([]byte, 256))
	}
	require.NoError(t, answer())
	require.Same(t, timer, h.timer, "the time at which it closes has not changed")
	require.Zero(t, h.count)
	table.expire(a, h)
	require.Empty(t, table.held)
	require.ErrorContains(t, answer(), "no program has opened RoCE on "+a.String())
	require.Empty(t, table.held)
}

// Packets for queue pair 1 that come from a pool or from UCX must come from an address of that peer.
func TestManagementFromPeers(t *testing.T) {
	a := &testLink{name: "a", gid: gid("192.0.2.5"), path: nic.Path{Port: &testPort{}, Number: 1}}
	b := &testLink{name: "b", gid: gid("2001:db8::6"), path: nic.Path{Port: &testPort{}, Number: 2}}
	table, _ := open(t, Options{}, a, b)
	var got int
	table.SetManagement(func(_ []byte, network bool) { require.False(t, network); got++ })
	from4 := make([]byte, gsiHead+grhSize+256)
	copy(from4[gsiHead+20:], []byte{0x45})
	copy(from4[gsiHead+32:], []byte{192, 0, 2, 5})
	from6 := make([]byte, gsiHead+grhSize)
	from6[gsiHead] = 0x60
	copy(from6[gsiHead+8:], b.gid[:])
	table.fromPeer(a.path, from4)
	table.fromPeer(b.path, from6)
	require.Equal(t, 2, got)
	table.fromPeer(b.path, from4) // it says that it is a
	table.fromPeer(a.path, from6)
	table.fromPeer(nic.Path{Port: a.path.Port, Number: 3}, from4)
	for n := range gsiHead + grhSize {
		table.fromPeer(b.path, from6[:n])
	}
	table.fromPeer(b.path, make([]byte, 300))
	require.Equal(t, 2, got)
	table.SetManagement(nil)
	table.fromPeer(a.path, from4)
	require.Equal(t, 2, got)

	require.NoError(t, table.SendManagement(verbs.RemotePort{GID: a.gid}, []byte("head"), []byte("grh"), []byte("mad")))
	require.Equal(t, []byte("headgrhmad"), a.path.Port.(*testPort).sent[0])
	require.Error(t, table.SendManagement(verbs.RemotePort{GID: gid("192.0.2.8")}, nil, nil, nil))
}

// The socket of reports answers every connection, whatever its peer sends or does not read.
func TestServe(t *testing.T) {
	a := &testLink{name: "a", guid: 5}
	table, _ := open(t, Options{}, a)
	path := filepath.Join(t.TempDir(), "links")
	require.NoError(t, os.WriteFile(path, nil, 0o600)) // of an engine that was killed
	stop, err := table.Serve(path, 0o620)
	require.NoError(t, err)
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o620), st.Mode().Perm())
	ask := func(send []byte) []Report {
		c, err := net.Dial("unix", path)
		require.NoError(t, err)
		defer c.Close()
		_, _ = c.Write(send) // the other side may have closed already
		await.Deadline(t, c)
		var list []Report
		require.NoError(t, json.NewDecoder(c).Decode(&list))
		_, err = io.ReadAll(c)
		if len(send) == 0 {
			require.NoError(t, err)
		}
		return list
	}
	want := []Report{{Link: "a", Peers: []fabric.Peer{{Name: "a's", GUID: 5, Up: true}}}}
	require.Equal(t, want, ask(nil))
	require.Equal(t, want, ask(make([]byte, 1<<16)))
	require.Equal(t, want, ask([]byte(`{"Link":`)))
	for range 100 { // these do not wait for the answer
		c, err := net.Dial("unix", path)
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
	require.Equal(t, want, ask(nil))
	stop()
	require.NoFileExists(t, path)
	_, err = table.Serve(filepath.Join(path, "no", "directory"), 0o600)
	require.ErrorContains(t, err, "links:")
}

// No program can connect to the socket of reports before it has its mode, whatever the umask is.
func TestServeIsNeverOpen(t *testing.T) {
	table, _ := open(t, Options{})
	defer unix.Umask(unix.Umask(0))
	path := filepath.Join(t.TempDir(), "links")
	done, ended := make(chan struct{}), make(chan fs.FileMode, 1)
	go func() {
		var seen fs.FileMode
		for {
			if st, err := os.Lstat(path); err == nil {
				seen |= st.Mode().Perm()
			}
			select {
			case <-done:
				ended <- seen
				return
			default:
			}
		}
	}()
	for range 300 {
		stop, err := table.Serve(path, 0o600)
		require.NoError(t, err)
		stop()
	}
	close(done)
	require.Zero(t, <-ended&0o077)
}

// The router is given to the engine when there is an address to ask for, and taken back.
func TestRouterOfTheEngine(t *testing.T) {
	table, d := open(t, Options{})
	require.Nil(t, d.router.Load(), "no links")
	table.add(&testLink{})
	table.SetLocal(func([16]byte, uint16) bool { return false })
	require.Equal(t, nic.Router(table), *d.router.Load())
	l := table.current.Load().links[0].(*testLink)
	require.NoError(t, table.Close())
	require.Nil(t, *d.router.Load())
	require.True(t, l.closed)
}

// The queue pair of a native client is connected to an address: over the link that knows it, else by RoCE.
func TestHoldPath(t *testing.T) {
	peer := gid("198.51.100.1")
	a := &testLink{name: "a", guid: 5, gid: gid("192.0.2.5"), path: nic.Path{Port: &testPort{}, Number: 1, MTU: 1000}}
	table, _ := open(t, Options{}, a)
	table.options.Local = []netip.Addr{netip.MustParseAddr("127.88.3.9"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("192.0.2.77")}
	require.Equal(t, gid("192.0.2.77"), table.Own(), "the others lead to no other host")
	path, release, err := table.HoldPath(nic.Address{GID: a.gid}, nic.User{})
	require.NoError(t, err)
	require.Equal(t, a.path, path)
	release()
	for to, want := range map[[16]byte]string{
		{}:                 "no link leads there, and the peer's engine has no IP address for RoCE",
		gid("192.0.2.77"):  "RoCE does not connect two engines with one address (192.0.2.77), but a pool connects engines of one host",
		gid("2001:db8::1"): "this engine is 192.0.2.77 and the peer's is 2001:db8::1; name local addresses of one version of IP",
		gid("224.0.0.1"):   "no link leads to 224.0.0.1",
	} {
		_, _, err := table.HoldPath(nic.Address{GID: to}, nic.User{})
		require.ErrorContains(t, err, want)
	}
	table.options.Local = nil
	require.Zero(t, table.Own())
	_, _, err = table.HoldPath(nic.Address{GID: peer}, nic.User{})
	require.ErrorContains(t, err, "not by RoCE to 198.51.100.1, because this engine has no IP address for it (--link")

	own := own(t)
	auto, d := open(t, Options{Auto: true})
	require.True(t, routable(netip.AddrFrom16(auto.Own()).Unmap()))
	if auto.Own() != own.As16() || !own.Is4() {
		t.Skipf("RoCE is tried on %v, which is not the first address", own)
	}
	_, release, err = auto.HoldPath(nic.Address{GID: peer}, nic.User{})
	if err != nil {
		t.Skipf("RoCE cannot be opened on %v here: %v", own, err)
	}
	require.EqualValues(t, 1, d.ports.Load())
	require.Equal(t, own.String()+": a queue pair is connected to 198.51.100.1", auto.why())
	release()
	require.Contains(t, auto.why(), "in use less than 5s ago")
}

// The files of keys are read when the links open, also if RoCE opens later: a mistake in them is reported to
// the user who starts the engine.
func TestKeysAreReadAtTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	start := func() error {
		o, err := Parse([]string{"auto,key=" + file})
		require.NoError(t, err)
		table, err := Open(t.Context(), &testDevice{}, o, nil)
		if err == nil {
			require.NoError(t, table.Close())
		}
		return err
	}
	require.ErrorContains(t, start(), "roce: auth: key file: open "+file+": no such file")
	_, err := auth.NewIdentity(file)
	require.NoError(t, err)
	require.NoError(t, start())
	require.NoError(t, os.WriteFile(file+".peers", []byte("# one\n192.0.2.1 x\n"), 0o600))
	require.ErrorContains(t, start(), "file of peers "+file+".peers: line 2: ")
	require.NoError(t, os.Remove(file+".peers"))
	require.NoError(t, os.Chmod(file, 0o644))
	require.ErrorContains(t, start(), "chmod 0600")
}

// openingLink is a link that somebody else is opening.
type openingLink struct {
	*testLink
	up *upPort
}

func (l *openingLink) Look(to nic.Address) (nic.Path, bool) { return l.Route(to) }
func (l *openingLink) Why(nic.Address) string               { return "" }
func (l *openingLink) Opening(nic.Address) bool             { return !l.up.Stats().Up }

// upPort is up after some looks at it.
type upPort struct {
	testPort
	looks atomic.Int32
}

func (p *upPort) Stats() nic.PortStats { return nic.PortStats{Up: p.looks.Add(1) > 5} }

// A caller that asks for a path while another one opens it waits until it is up, too.
func TestReachWaitsForALinkThatOthersOpen(t *testing.T) {
	table, _ := open(t, Options{})
	up := &upPort{}
	table.add(&openingLink{&testLink{name: "a pool", guid: 5, path: nic.Path{Port: up}}, up})
	path, release, err := table.HoldPath(nic.Address{GUID: 5}, nic.User{})
	require.NoError(t, err)
	release()
	require.Equal(t, nic.Port(up), path.Port)
	require.Greater(t, up.looks.Load(), int32(5))
}

// closedLink is a link that leads everywhere, and is not open.
type closedLink struct {
	*testLink
	opened atomic.Int32
}

func (l *closedLink) Why(nic.Address) string                { return "" }
func (l *closedLink) Opening(nic.Address) bool              { return false }
func (l *closedLink) Look(nic.Address) (nic.Path, bool)     { return nic.Path{MTU: 1024}, true }
func (l *closedLink) Route(to nic.Address) (nic.Path, bool) { l.opened.Add(1); return l.Look(to) }

// A datagram from the network whose source is forged, and questions about addresses, open no link.
func TestQuestionsOpenNoLink(t *testing.T) {
	table, _ := open(t, Options{})
	l := &closedLink{testLink: &testLink{name: "a pool"}}
	table.add(l)
	table.SetManagement(func([]byte, bool) { require.Fail(t, "it would be answered") })
	to := verbs.RemotePort{GID: netip.MustParseAddr("192.0.2.9").As16()}
	b := make([]byte, gsiHead+grhSize+256)
	b[gsiHead] = 6 << 4
	copy(b[gsiHead+8:], to.GID[:])
	table.fromRoCE(0, b)
	_, ok := table.Find(netip.MustParseAddr("192.0.2.9"))
	require.True(t, ok)
	network, err := table.May(to, nic.User{})
	require.NoError(t, err)
	require.False(t, network)
	mtu, err := table.MTU(to)
	require.NoError(t, err)
	require.Equal(t, 1024, mtu)
	require.Zero(t, l.opened.Load())
}
