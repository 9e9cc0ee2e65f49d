//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const namespaceEnv = "NICLESS_ROCE_TEST_NAMESPACE"

// inNamespace runs the rest of a test in a process with new user and network namespaces, in
// which it may do anything with network devices. It needs no privileges. It returns true in
// that process, and false in the first one, when the other process has passed the test.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(namespaceEnv) == t.Name() {
		setLink(t, "lo", true, 0)
		return true
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	args := []string{"-test.run=^" + t.Name() + "$", "-test.count=1", "-test.v"}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), namespaceEnv+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "in unprivileged namespaces (user namespaces must be allowed):\n%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// A netns is another network namespace, without a process of its own.
type netns struct{ file *os.File }

// newNetns makes a network namespace with a working loopback device.
func newNetns(t *testing.T) netns {
	t.Helper()
	f := tryNetns()
	require.NotNil(t, f, "a second network namespace")
	t.Cleanup(func() { f.Close() })
	n := netns{f}
	n.do(func() { setLink(t, "lo", true, 0) })
	return n
}

// tryNetns makes a network namespace; it returns nil if the process may not.
func tryNetns() *os.File {
	result := make(chan *os.File)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		var f *os.File
		if unix.Unshare(unix.CLONE_NEWNET) == nil {
			f, _ = os.Open("/proc/thread-self/ns/net")
		}
		result <- f
	}()
	return <-result
}

// do calls f in the namespace.
func (n netns) do(f func()) {
	done := make(chan any)
	go func() {
		runtime.LockOSThread()
		defer func() { done <- recover() }()
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err)
		}
		f()
	}()
	if failed := <-done; failed != nil {
		panic(failed)
	}
}

// rtnetlink sends a request about links, addresses or routes, in the namespace of the calling
// thread.
func rtnetlink(t testing.TB, kind, flags uint16, body []byte) {
	t.Helper()
	if err := tryNetlink(kind, flags, body); err != nil {
		panic(fmt.Sprintf("rtnetlink request %d: %v", kind, err))
	}
}

func tryNetlink(kind, flags uint16, body []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(16+len(body)))
	b = le.AppendUint16(b, kind)
	b = le.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	b = append(b, 1, 0, 0, 0, 0, 0, 0, 0)
	if err := unix.Sendto(fd, append(b, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < 20 {
		return fmt.Errorf("answer of %d bytes: %v", n, err)
	}
	if code := int32(le.Uint32(answer[16:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// attr returns a netlink attribute.
func attr(kind uint16, data []byte) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(4+len(data)))
	b = binary.LittleEndian.AppendUint16(b, kind)
	b = append(b, data...)
	return append(b, make([]byte, -len(data)&3)...)
}

func attr32(kind uint16, v uint32) []byte {
	return attr(kind, binary.LittleEndian.AppendUint32(nil, v))
}

func join(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// link returns struct ifinfomsg.
func link(index int, flags, change uint32) []byte {
	b := make([]byte, 16)
	binary.LittleEndian.PutUint32(b[4:], uint32(index))
	binary.LittleEndian.PutUint32(b[8:], flags)
	binary.LittleEndian.PutUint32(b[12:], change)
	return b
}

// addVeth makes a pair of devices. The second is in another namespace.
func addVeth(t testing.TB, name, peer string, in netns) {
	t.Helper()
	other := join(link(0, 0, 0), attr(unix.IFLA_IFNAME, append([]byte(peer), 0)), attr32(unix.IFLA_NET_NS_FD, uint32(in.file.Fd())))
	rtnetlink(t, unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, join(link(0, 0, 0),
		attr(unix.IFLA_IFNAME, append([]byte(name), 0)),
		attr(unix.IFLA_LINKINFO, join(attr(unix.IFLA_INFO_KIND, []byte("veth")), attr(unix.IFLA_INFO_DATA, attr(1, other))))))
}

func indexOf(t testing.TB, name string) int {
	t.Helper()
	d, err := net.InterfaceByName(name)
	if err != nil {
		panic(err)
	}
	return d.Index
}

// setLink sets a device up or down, and its MTU if mtu is not 0.
func setLink(t testing.TB, name string, up bool, mtu int) {
	t.Helper()
	flags := uint32(0)
	if up {
		flags = unix.IFF_UP
	}
	b := link(indexOf(t, name), flags, unix.IFF_UP)
	if mtu != 0 {
		b = join(b, attr32(unix.IFLA_MTU, uint32(mtu)))
	}
	rtnetlink(t, unix.RTM_NEWLINK, 0, b)
}

func deleteLink(t testing.TB, name string) {
	t.Helper()
	rtnetlink(t, unix.RTM_DELLINK, 0, link(indexOf(t, name), 0, 0))
}

// setAddress adds or removes an address of a device.
func setAddress(t testing.TB, add bool, name, address string) {
	t.Helper()
	p := netip.MustParsePrefix(address)
	family := byte(unix.AF_INET)
	if p.Addr().Is6() {
		family = unix.AF_INET6
	}
	b := []byte{family, byte(p.Bits()), unix.IFA_F_NODAD, 0}
	b = binary.LittleEndian.AppendUint32(b, uint32(indexOf(t, name)))
	b = join(b, attr(unix.IFA_LOCAL, p.Addr().AsSlice()), attr(unix.IFA_ADDRESS, p.Addr().AsSlice()))
	if add {
		rtnetlink(t, unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, b)
	} else {
		rtnetlink(t, unix.RTM_DELADDR, 0, b)
	}
}

// limitRoute makes packets from a namespace to an address have at most some bytes.
func limitRoute(t testing.TB, name string, to netip.Addr, mtu int) {
	t.Helper()
	family := byte(unix.AF_INET)
	if to.Is6() {
		family = unix.AF_INET6
	}
	b := []byte{family, byte(to.BitLen()), 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RT_SCOPE_LINK, unix.RTN_UNICAST, 0, 0, 0, 0}
	rtnetlink(t, unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, join(b, attr(unix.RTA_DST, to.AsSlice()),
		attr32(unix.RTA_OIF, uint32(indexOf(t, name))), attr(unix.RTA_METRICS, attr32(unix.RTAX_MTU, uint32(mtu)))))
}

// isLocal reports whether the kernel takes packets for an address, in the
// namespace of the calling thread. It makes the route for an IPv6 address in
// a work queue, after the address is there, and drops packets until then.
func isLocal(a netip.Addr) bool {
	routes, err := netlink.RouteGet(a.AsSlice())
	return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL
}
