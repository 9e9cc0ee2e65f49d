package verbs

import (
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// addressOf returns an address as the shim would send it.
func addressOf(t testing.TB, ifname, cidr string) address {
	t.Helper()
	w, ok := parseAddresses(addressBytes(t, ifname, cidr))
	require.True(t, ok)
	require.Len(t, w.all, 1)
	return w.all[0]
}

// ips returns the addresses of a table that are present, by index of their RoCE v2 entry.
func (n *netns) ips(d *device) map[int]string {
	all := make(map[int]string)
	for i := 1; i < gidTableSize; i += 2 {
		if e, ok := n.entry(d, i); ok {
			all[i] = netip.AddrFrom16(e.gid).Unmap().String() + " " + e.ifname
		}
	}
	return all
}

// A GID keeps its index when other addresses come and go, and gets it back when it returns.
func TestGIDsKeepTheirIndices(t *testing.T) {
	d := newDevice(0, "nicless0", 0x5a4e4cfffe000001, pciPlace{})
	const local = "fe80::5a4e:4cff:fe00:1 "
	n := newNetns(netnsKey{})
	lo, eth, link := addressOf(t, "lo", "127.0.0.1/8"), addressOf(t, "eth0", "192.0.2.2/24"), addressOf(t, "eth0", "fe80::7/64")
	v6, other := addressOf(t, "eth0", "2001:db8::1/64"), addressOf(t, "eth1", "192.0.2.2/24")
	require.True(t, n.scan([]address{lo, link, eth}))
	require.Equal(t, map[int]string{1: local + "eth0", 3: "192.0.2.2 eth0", 5: "fe80::7 eth0", 7: "127.0.0.1 lo"}, n.ips(d))
	require.False(t, n.scan([]address{eth, lo, link}), "the order says nothing")
	require.True(t, n.scan([]address{lo, link, v6, other}))
	require.Equal(t, map[int]string{1: local + "eth0", 5: "fe80::7 eth0", 7: "127.0.0.1 lo", 9: "2001:db8::1 eth0", 11: "192.0.2.2 eth1"}, n.ips(d))
	require.True(t, n.scan([]address{lo, eth}))
	require.Equal(t, map[int]string{1: local + "eth0", 3: "192.0.2.2 eth0", 7: "127.0.0.1 lo"}, n.ips(d))
	e, ok := n.entry(d, 2)
	require.True(t, ok)
	require.Equal(t, gidEntry{eth.gid, abi.GIDTypeRoCEV1, 2, "eth0"}, e)
	eth.ifname = "wan"
	require.True(t, n.scan([]address{lo, eth}), "the interface has another name")
	require.Equal(t, "192.0.2.2 wan", n.ips(d)[3])
	for _, i := range []int{-1, 4, gidTableSize, 1 << 20} {
		_, ok := n.entry(d, i)
		require.False(t, ok, "%d", i)
	}
}

// A namespace that has no address of global scope gets a made one, after those that it has.
func TestEveryNamespaceHasAGlobalGID(t *testing.T) {
	d := newDevice(0, "nicless0", 0x5a4e4cfffe001234, pciPlace{})
	n := newNetns(netnsKey{})
	require.True(t, n.scan([]address{addressOf(t, "lo", "::1/128"), addressOf(t, "lo", "127.0.0.1/8")}))
	require.Equal(t, map[int]string{1: "fe80::5a4e:4cff:fe00:1234 lo", 3: "::1 lo", 5: "127.0.0.1 lo", 7: "198.18.18.52 lo"}, n.ips(d))
	require.True(t, n.scan([]address{addressOf(t, "eth0", "10.1.2.3/8")}))
	require.Equal(t, map[int]string{1: "fe80::5a4e:4cff:fe00:1234 eth0", 7: "198.18.18.52 lo", 9: "10.1.2.3 eth0"}, n.ips(d))
}

// A table that is full gives the entries that have been empty for longest to new addresses.
func TestFullTable(t *testing.T) {
	d := newDevice(0, "nicless0", 1, pciPlace{})
	n := newNetns(netnsKey{})
	var all []address
	for i := range 2 * maxSlots {
		all = append(all, addressOf(t, "eth0", fmt.Sprintf("10.0.0.%d/8", i)))
	}
	n.scan(all)
	require.Len(t, n.ips(d), maxSlots-1, "one slot is for a made GID")
	n.scan(all[1 : maxSlots-2])
	n.scan(all[2 : maxSlots-2])
	n.scan(append(all[2:maxSlots-2:maxSlots-2], all[maxSlots:maxSlots+2]...))
	ips := n.ips(d)
	require.Equal(t, "10.0.0.32 eth0", ips[gidTableSize-1], "the slot that was never used")
	require.Equal(t, "10.0.0.33 eth0", ips[3], "the slot of 10.0.0.0, empty for longest")
	n.scan(nil)
	require.Len(t, n.ips(d), 2)
}

// Tables belong to a user and a namespace. The claims of one user change nothing for another.
func TestClaims(t *testing.T) {
	s := newServing(t)
	mine, of := s.rig(t), func(uid uint32, cookie uint64, addresses ...string) *process {
		r := s.rig(t)
		r.p.key = netnsKey{uid: uid, cookie: cookie}
		r.tell(addresses...)
		return r.p
	}
	mine.p.key = netnsKey{uid: 1, cookie: 7}
	mine.tell("eth0", "192.0.2.1/24")
	other := of(2, 7, "eth0", "192.0.2.1/24", "eth0", "192.0.2.66/24")
	require.NotSame(t, mine.p.net, other.net)
	same := of(1, 7, "eth0", "192.0.2.1/24", "lo", "127.0.0.1/8")
	require.Same(t, mine.p.net, same.net)
	far := of(1, 8, "eth0", "192.0.2.2/24", "eth0", "192.0.2.66/24", "lo", "127.0.0.2/8")

	owner := func(ip string) *netns {
		n, d := s.owner(mine.p.net, addressOf(t, "lo", ip+"/32").gid)
		require.Equal(t, n == nil, d == nil)
		return n
	}
	require.Same(t, mine.p.net, owner("192.0.2.1"))
	require.Same(t, far.net, owner("192.0.2.2"), "namespaces of an engine are joined")
	require.Same(t, far.net, owner("192.0.2.66"), "of the same user, though another claimed it before")
	require.Same(t, mine.p.net, owner("127.0.0.1"))
	require.Nil(t, owner("127.0.0.2"), "loopback addresses stay in their namespace")
	require.Nil(t, owner("203.0.113.1"))

	// A thread in another namespace than its connection changes nothing.
	b := addressBytes(t, "eth0", "203.0.113.1/24")
	le.PutUint64(b, 8)
	h, _, _ := mine.request(opAddresses, 0, b)
	require.Zero(t, h.error)
	require.Nil(t, owner("203.0.113.1"))
}

// Namespaces that are not in use are kept for a while. A user can have so many, and no more.
func TestNamespacesAreBounded(t *testing.T) {
	s := newServing(t)
	var all []*netns
	for i := range userNetns {
		n, err := s.join(netnsKey{uid: 5, cookie: uint64(1 + i)})
		require.NoError(t, err)
		all = append(all, n)
	}
	_, err := s.join(netnsKey{uid: 5, cookie: 1000})
	require.ErrorContains(t, err, "64 network namespaces of this user")
	n, err := s.join(netnsKey{uid: 6, cookie: 1000})
	require.NoError(t, err)
	s.leave(n)
	for _, n := range all {
		s.leave(n)
	}
	require.Len(t, s.networks.all, idleNetns)
	again, err := s.join(all[userNetns-1].key)
	require.NoError(t, err)
	require.Same(t, all[userNetns-1], again)
	require.Len(t, s.networks.idle, idleNetns-1)
	s.leave(again)
}

// However many users take all the namespaces that they can, the next user gets some.
func TestNamespacesAreShared(t *testing.T) {
	s := newServing(t)
	var all []*netns
	for uid := range uint32(7) {
		mine := 0
		for ; ; mine++ {
			n, err := s.join(netnsKey{uid: uid, cookie: uint64(1 + mine)})
			if err != nil {
				require.Equal(t, unix.ENOSPC, refusalOf(err).errno)
				break
			}
			all = append(all, n)
		}
		require.Equal(t, []int{64, 64, 64, 32, 16, 8, 4}[uid], mine, "user %d", uid)
	}
	for _, n := range all {
		s.leave(n)
	}
}

// Each namespace has a tree of files with its own GIDs. The time of a device's directory, by
// which libibverbs recognises the device, is the same in all, and never changes.
func TestTreeOfANamespace(t *testing.T) {
	s := newServing(t)
	dir := t.TempDir()
	require.NoError(t, s.writeTrees(dir))
	a, b := s.rig(t), s.rig(t)
	a.p.key, b.p.key = netnsKey{cookie: 1}, netnsKey{cookie: 2}
	const device = "class/infiniband/nicless1"
	read := func(tree, path string) string {
		text, err := os.ReadFile(filepath.Join(dir, tree, treeName, device, path))
		if err != nil {
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
		return strings.TrimSpace(string(text))
	}
	time := func(tree string) int64 {
		st, err := os.Stat(filepath.Join(dir, tree, treeName, device))
		require.NoError(t, err)
		return st.ModTime().UnixNano()
	}
	one, two := a.tell("eth0", "192.0.2.1/24"), b.tell("veth7", "192.0.2.2/24")
	require.NotEqual(t, one, two)
	require.Equal(t, "0000:0000:0000:0000:0000:ffff:c000:0201", read(one, "ports/1/gids/3"))
	require.Equal(t, "0000:0000:0000:0000:0000:ffff:c000:0202", read(two, "ports/1/gids/2"))
	require.Equal(t, "RoCE v2", read(one, "ports/1/gid_attrs/types/3"))
	require.Equal(t, "veth7", read(two, "ports/1/gid_attrs/ndevs/3"))
	require.DirExists(t, filepath.Join(dir, two, treeName, device, "device/net/veth7"))
	require.Equal(t, "1: CA", read(one, "node_type"))
	require.Equal(t, read("", "node_guid"), read(two, "node_guid"))
	require.Empty(t, read(one, "ports/1/gid_attrs/types/4"))
	before := time("")
	require.Equal(t, before, time(one))

	require.Equal(t, two, b.tell("eth0", "192.0.2.9/24"), "a namespace keeps its tree")
	require.Equal(t, before, time(two))
	require.Equal(t, "0000:0000:0000:0000:0000:0000:0000:0000", read(two, "ports/1/gids/3"))
	require.Equal(t, "0000:0000:0000:0000:0000:ffff:c000:0209", read(two, "ports/1/gids/5"))
	require.Empty(t, read(two, "ports/1/gid_attrs/ndevs/3"))
	require.NoDirExists(t, filepath.Join(dir, two, treeName, device, "device/net/veth7"))
	require.DirExists(t, filepath.Join(dir, two, treeName, device, "device/net/eth0"))
	require.Equal(t, "0000:0000:0000:0000:0000:ffff:c000:0201", read(one, "ports/1/gids/3"), "nothing happened to the other")

	st, err := os.Stat(filepath.Join(dir, netName))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o711), st.Mode().Perm(), "the names of namespaces are not listed")
	s.prune(0)
	require.DirExists(t, filepath.Join(dir, one), "in use")
	require.NoError(t, removeTrees(dir))
	require.NoDirExists(t, filepath.Join(dir, netName))
}

// No file is written outside a program's tree, whatever addresses the program sends.
func FuzzAddresses(f *testing.F) {
	f.Add(addressBytes(f, "eth0", "192.0.2.1/24", "lo", "::1/128"))
	f.Add(addressBytes(f, "../../x", "10.0.0.1/8"))
	f.Add(u64s(0, 1<<32-1))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, ok := parseAddresses(b)
		require.LessOrEqual(t, len(w.all), maxAddresses)
		n := newNetns(netnsKey{})
		n.scan(w.all)
		for i := range gidTableSize {
			e, present := n.entry(newDevice(0, "nicless0", 1, pciPlace{}), i)
			if present {
				require.True(t, filepath.IsLocal(e.ifname) && filepath.Base(e.ifname) == e.ifname && e.ifname != ".")
			}
		}
		require.True(t, ok || len(w.all) == 0)
	})
}
