//go:build linux && (amd64 || arm64)

package links

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/verbs"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

const namespaceEnv = "NICLESS_LINKS_TEST"

// addresses of the host that inNamespace makes, on a device of its own.
var (
	private4, shared4, public4, public4b = "10.66.0.1", "100.64.3.1", "203.0.113.5", "198.51.100.5"
	private6, public6                    = "fd66::1", "2001:db8::5"
)

// inNamespace runs the test again in a user namespace and a network namespace of its own, in which a host
// has private and public addresses, and returns false. There, it returns true.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(namespaceEnv) != t.Name() {
		exe, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
		cmd.Env = append(os.Environ(), namespaceEnv+"="+t.Name())
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "in unprivileged namespaces (user namespaces must be allowed):\n%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return false
	}
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(lo))
	a := netlink.NewLinkAttrs()
	a.Name = "net0"
	require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "net1"}))
	for _, name := range []string{"net0", "net1"} {
		l, err := netlink.LinkByName(name)
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(l))
		if name != "net0" {
			continue
		}
		for _, s := range []string{private4 + "/24", shared4 + "/32", public4 + "/32", public4b + "/32", private6 + "/64", public6 + "/64"} {
			addr, err := netlink.ParseAddr(s)
			require.NoError(t, err)
			if addr.IP.To4() == nil {
				addr.Flags = syscall.IFA_F_NODAD
			}
			require.NoError(t, netlink.AddrAdd(l, addr))
		}
	}
	return true
}

// gids returns the GIDs of addresses.
func gids(list ...string) (all [][16]byte) {
	for _, s := range list {
		all = append(all, gid(s))
	}
	return all
}

var everywhere = gids(private4, shared4, public4, public4b, private6, public6)

// A logged is a log at the level that is the command's default.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.buf.String()), "\n")
}

// opened opens a table as the command does, with its log.
func opened(t *testing.T, users Users, list ...string) (*Table, *logged) {
	t.Helper()
	o, err := Parse(list)
	require.NoError(t, err)
	o.Users = users
	log := new(logged)
	table, err := Open(t.Context(), &testDevice{}, o, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	return table, log
}

// isOpen reports whether UDP port 4791 of an address is in use.
func isOpen(t *testing.T, s string) bool {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(s), packet.Port)))
	if err != nil {
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		return true
	}
	require.NoError(t, c.Close())
	return false
}

// opens waits until these addresses are open, and checks that the others of the host are not.
func (l *logged) opens(t *testing.T, list ...string) {
	t.Helper()
	await.Until(t, "all are opened", func() bool { return len(l.with("RoCE opened")) >= len(list) }, func() any { return l.lines() })
	for _, a := range everywhere {
		s := netip.AddrFrom16(a).Unmap().String()
		want := false
		for _, o := range list {
			want = want || o == s
		}
		require.Equal(t, want, isOpen(t, s), s)
	}
}

func (l *logged) with(text string) (list []string) {
	for _, s := range l.lines() {
		if strings.Contains(s, text) {
			list = append(list, s)
		}
	}
	return list
}

var root = nic.User{UID: 0, Name: `pid 7 uid 0 "rping"`}

// A listener on all addresses opens private ones. The log says, at the level that it has by default, what was
// opened for whom. The program gets the public addresses that were left out, and how they would be opened.
func TestWildcardOpensPrivateAddresses(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	table, log := opened(t, Users{}, "auto")
	r := table.Hold(everywhere, true, "a test listens", root)
	log.opens(t, private4, shared4, private6)
	require.ElementsMatch(t, gids(private4, shared4, private6), r.GIDs)
	require.Len(t, log.with("RoCE opened"), 3, "one line each")
	for _, text := range []string{"level=WARN", `address=` + private4, "port=4791", "peers=all", `because="a test listens"`, `for="pid 7 uid 0 \"rping\""`} {
		require.Contains(t, log.with("address=" + private4)[0], text)
	}
	for _, text := range []string{public4, public4b, public6, "--link auto,address=PREFIX"} {
		require.ErrorContains(t, r.Missing, text)
	}
	r.Release()

	// Of a program in another namespace.
	again := table.Hold(gids(private4, public4), true, "a test listens", root)
	require.ElementsMatch(t, gids(private4), again.GIDs)
	again.Release()
}

// One address is opened if a listener names it, or a path goes from it, public or not.
func TestNamedAddressesOpen(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	table, log := opened(t, Users{}, "auto")
	r := table.Hold(gids(public4), false, "a test listens", root)
	require.NoError(t, r.Missing)
	log.opens(t, public4)
	_, release, err := table.Path(verbs.RemotePort{GID: gid("192.0.2.9"), From: gid(public4b)}, 0, 0, root)
	require.NoError(t, err)
	log.opens(t, public4, public4b)
	require.Contains(t, log.with("address=" + public4b)[0], `because="a queue pair is connected to 192.0.2.9"`)
	release()
	r.Release()
}

// address= names the only addresses that open, for all listeners and paths.
func TestAddressesOfAuto(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	table, log := opened(t, Users{}, "auto,address=203.0.113.0/24,address="+private4, "roce:"+public6)
	r := table.Hold(everywhere, true, "a test listens", root)
	require.NoError(t, r.Missing)
	require.ElementsMatch(t, gids(private4, public4, public6), r.GIDs)
	log.opens(t, private4, public4, public6)
	one := table.Hold(gids(shared4), false, "a test listens", root)
	require.ErrorContains(t, one.Missing, "RoCE does not open on the local address "+shared4+": --link auto,address= names others")
	require.Empty(t, one.GIDs)
	_, _, err := table.Path(verbs.RemotePort{GID: gid("192.0.2.9"), From: gid(public4b)}, 0, 0, root)
	require.ErrorContains(t, err, "does not open on the local address "+public4b)
	table.options.Local = nil
	require.Contains(t, gids(private4, public4), table.Own(), "of native clients")
	log.opens(t, private4, public4, public6)
	r.Release()
	one.Release()
}

// With peer=, connections to others are refused.
func TestPeersOfAuto(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	table, log := opened(t, Users{}, "auto,peer=10.66.0.0/24")
	to := func(s string) verbs.RemotePort { return verbs.RemotePort{GID: gid(s), From: gid(private4)} }
	_, _, err := table.Path(to("10.67.0.1"), 0, 0, root)
	require.ErrorContains(t, err, "10.67.0.1 is not among the peers of RoCE (--link auto,peer=")
	_, ok := table.Find(netip.MustParseAddr("10.67.0.1"))
	require.False(t, ok)
	log.opens(t)
	_, release, err := table.Path(to("10.66.0.9"), 0, 0, root)
	require.NoError(t, err)
	log.opens(t, private4)
	require.Contains(t, log.with("RoCE opened")[0], "peers=[10.66.0.0/24]")
	release()
}

// Only the users whom the owner names open RoCE, or use what
// others have opened; the error names the uid and the flag.
func TestUsersOfAuto(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	table, log := opened(t, Users{}, "auto", "roce:"+shared4)
	bystander := nic.User{UID: 1001, Name: "pid 8 uid 1001"}
	from := func(s string) verbs.RemotePort { return verbs.RemotePort{GID: gid("10.66.0.9"), From: gid(s)} }
	denied := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, nic.ErrDenied)
		require.ErrorContains(t, err, "uid 1001 may not open RoCE on "+private4+"; the owner of the engine allows it with --link-users")
	}
	for range 2 {
		_, _, err := table.Path(from(private4), 0, 0, bystander)
		denied(err)
		_, err = table.May(from(private4), bystander)
		denied(err)
		table.own = netip.MustParseAddr(private4)
		table.options.Local, bystander.Name = nil, "native"
		_, _, err = table.HoldPath(nic.Address{GID: gid("10.66.0.9")}, bystander)
		denied(err)
		r := table.Hold(gids(private4), false, "a test listens", bystander)
		denied(r.Missing)
		require.Empty(t, r.GIDs)
		r.Release()
		// The second time, another program has opened the address.
		_, _, err = table.Path(from(private4), 0, 0, root)
		require.NoError(t, err)
	}
	log.opens(t, private4, shared4)
	r := table.Hold(everywhere, true, "a test listens", bystander)
	require.ErrorIs(t, r.Missing, nic.ErrDenied)
	require.Equal(t, gids(shared4), r.GIDs, "not what others have opened, but what --link names")
	r.Release()
	table.options.Local = []netip.Addr{netip.MustParseAddr(shared4)}
	_, release, err := table.Path(from(shared4), 0, 0, bystander)
	require.NoError(t, err, "what --link names serves all clients")
	release()

	all, log := opened(t, Users{All: true}, "auto")
	_, release, err = all.Path(from(public4), 0, 0, bystander)
	require.NoError(t, err)
	require.Contains(t, log.with("RoCE opened")[0], `for=native`)
	release()
}

// The words of --link-users.
func TestParseUsers(t *testing.T) {
	u, err := ParseUsers(nil)
	require.NoError(t, err)
	require.True(t, u.may(0))
	require.True(t, u.may(uint32(os.Geteuid())))
	require.False(t, u.may(4242))
	u, err = ParseUsers([]string{"4242", " root", "4242"})
	require.NoError(t, err)
	require.Equal(t, Users{UIDs: []uint32{4242, 0}}, u)
	require.True(t, u.may(4242))
	require.False(t, u.may(4243))
	u, err = ParseUsers([]string{"all"})
	require.NoError(t, err)
	require.True(t, u.may(4242))
	for list, want := range map[string]string{
		"all,root": "all excludes other users", "nobody-has-this-name": "a name, a uid or all is needed", "": `user ""`,
		"4294967296": `user "4294967296"`, "-1": `user "-1"`,
	} {
		_, err := ParseUsers(strings.Split(list, ","))
		require.ErrorContains(t, err, want, list)
	}
}
