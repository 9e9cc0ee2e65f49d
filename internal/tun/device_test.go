//go:build linux && (amd64 || arm64)

package tun

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func prefixes(all ...string) (list []netip.Prefix) {
	for _, s := range all {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

// echo returns an ICMP echo request from 10.77.9.2 to 10.77.9.1, with its header.
func echo() []byte {
	b := make([]byte, HeaderSize+28)
	p := b[HeaderSize:]
	copy(p, []byte{0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1, 0, 0, 10, 77, 9, 2, 10, 77, 9, 1, 8, 0, 0, 0, 0, 1, 0, 1})
	for _, r := range [][2]int{{0, 20}, {20, 28}} {
		at, sum := r[0]+10, uint32(0)
		if r[0] == 20 {
			at = 22
		}
		for i := r[0]; i < r[1]; i += 2 {
			sum += uint32(p[i])<<8 | uint32(p[i+1])
		}
		sum = ^(sum>>16 + sum&0xffff)
		p[at], p[at+1] = byte(sum>>8), byte(sum)
	}
	return b
}

// The kernel answers what Write gives it, and Read has the answer; neither allocates. Close ends a Read
// that waits, and Write.
func TestReadAndWrite(t *testing.T) {
	needDevice(t)
	if !inside(t) {
		return
	}
	d := open(t, Config{Name: "echo", MTU: 1500, Addresses: prefixes("10.77.9.1/24")})
	assert.Equal(t, "echo", d.Name())
	request, b := echo(), make([]byte, HeaderSize+MaxPacket)
	for _, cut := range []int{HeaderSize, 12, len(request)} {
		require.NoError(t, d.Write(request[:cut], request[cut:]))
		n, err := d.Read(b)
		require.NoError(t, err)
		require.Equal(t, len(request), n)
		require.NoError(t, Check(b[:n], n-HeaderSize))
		require.Equal(t, byte(0), b[HeaderSize+20], "an echo reply")
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if d.Write(request[:20], request[20:]) != nil {
			t.Fail()
		}
		if _, err := d.Read(b); err != nil {
			t.Fail()
		}
	}))
	k, err := d.Counters()
	require.NoError(t, err)
	assert.Equal(t, Counters{SentPackets: 104, SentBytes: 104 * 28, ReceivedPackets: 104, ReceivedBytes: 104 * 28}, k)

	var users sync.WaitGroup
	users.Go(func() {
		var err error
		for err == nil {
			_, err = d.Read(b)
		}
		assert.ErrorIs(t, err, os.ErrClosed)
	})
	for range 4 {
		users.Go(func() {
			var err error
			for err == nil {
				err = d.Write(request, nil)
			}
			assert.ErrorIs(t, err, os.ErrClosed)
		})
	}
	await.Until(t, "1000 packets are received", func() bool {
		k, err := d.Counters()
		return err == nil && k.ReceivedPackets > 1000
	})
	require.NoError(t, d.Close())
	users.Wait()
	_, err = d.Read(b)
	assert.ErrorIs(t, err, os.ErrClosed)
	assert.ErrorIs(t, d.Close(), os.ErrClosed)
	link, err := find("echo")
	assert.NoError(t, err)
	assert.Nil(t, link, "the interface ends with the device")
}

// Close ends a Read that waits for a packet that never comes.
func TestCloseEndsRead(t *testing.T) {
	needDevice(t)
	if !inside(t) {
		return
	}
	d := open(t, Config{Name: "quiet", MTU: 1500})
	got := make(chan error)
	go func() {
		_, err := d.Read(make([]byte, 2000))
		got <- err
	}()
	require.NoError(t, d.Close())
	require.Equal(t, os.ErrClosed, <-got)
}

// The interface is deleted, or taken down.
func TestGone(t *testing.T) {
	needDevice(t)
	if !inside(t) {
		return
	}
	d := open(t, Config{Name: "gone0", MTU: 1500, Addresses: prefixes("10.77.9.1/24")})
	got := make(chan error)
	go func() {
		_, err := d.Read(make([]byte, 2000))
		got <- err
	}()
	link, err := find("gone0")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetDown(link))
	require.ErrorContains(t, d.Write(echo(), nil), "tun: interface gone0 is down")
	require.NoError(t, netlink.LinkDel(link))
	require.ErrorContains(t, <-got, "tun: interface gone0 is gone: somebody has deleted it")
	require.ErrorContains(t, d.Write(echo(), nil), "is gone")
	_, err = d.Counters()
	require.Error(t, err)

	isGone := func(err error) {
		t.Helper()
		require.ErrorContains(t, err, "tun: interface gone0 is gone: somebody has deleted it")
		require.ErrorIs(t, err, unix.EBADFD)
	}
	for range 20 { // before and after Go's poller was notified
		_, err = d.Read(make([]byte, 2000))
		isGone(err)
		fd, err := unix.Dup(d.fd)
		require.NoError(t, err)
		late := &Device{name: d.name, fd: fd, file: os.NewFile(uintptr(fd), "/dev/net/tun")}
		_, err = late.Read(make([]byte, 2000))
		isGone(err)
		isGone(late.Write(echo(), nil))
		require.NoError(t, late.Close())
	}
	require.NoError(t, d.Close())
	_, err = d.Read(make([]byte, 2000))
	require.Equal(t, os.ErrClosed, err)
}

// Each interface is deleted as soon as it is there: Open says so, or the first Read.
func TestGoneWhileItOpens(t *testing.T) {
	needDevice(t)
	if !inside(t) {
		return
	}
	var end atomic.Bool
	var deleter sync.WaitGroup
	deleter.Go(func() {
		for !end.Load() {
			if link, err := find("gone1"); err == nil && link != nil {
				_ = netlink.LinkDel(link)
			}
		}
	})
	defer deleter.Wait()
	defer end.Store(true)
	for range 20 {
		d, err := Open(Config{Name: "gone1", MTU: 1400, Addresses: prefixes("10.77.9.1/24", "fd77:9::1/64")})
		if err == nil {
			_, err = d.Read(make([]byte, 2000))
			require.NoError(t, d.Close())
		}
		require.ErrorContains(t, err, "tun: interface gone1 is gone: somebody has deleted it")
	}
}

// The kernel refuses no packet that Check accepts. The packets are real ones with random changes.
func TestKernelAcceptsWhatCheckAccepts(t *testing.T) {
	needDevice(t)
	if !inside(t) {
		return
	}
	d := open(t, Config{Name: "judge", MTU: 65520, Addresses: prefixes("10.77.8.2/24", "fd77::2/64")})
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 0))
	accepted, refused := 0, 0
	for range 40_000 {
		p := packets[random.IntN(len(packets))]
		b := append(snapshot(t, p.bytes, p.length), make([]byte, max(0, HeaderSize+p.length-SnapshotSize))...)
		for range 1 + random.IntN(3) {
			at := random.IntN(HeaderSize)
			if random.IntN(2) == 0 {
				at = random.IntN(min(60, len(b)))
			}
			b[at] = byte(random.Uint32())
		}
		if Check(b, p.length) != nil {
			refused++
			continue
		}
		accepted++
		require.NoError(t, d.Write(b[:40], b[40:]), "seed %d: %x", seed, b[:min(len(b), 90)])
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	assert.Greater(t, min(accepted, refused), 1000)
}

// An interface that root has made for a user works without privilege, and what is not right about
// it is said with the command that changes it.
func TestInterfaceOfRoot(t *testing.T) {
	needDevice(t)
	if !inside(t) {
		return
	}
	if _, err := exec.LookPath("ip"); err != nil {
		missing(t, "%v (Debian: apt install iproute2)", err)
	}
	c := Config{Name: "made0", MTU: 9000, Addresses: prefixes("10.77.9.1/24", "fd77:9::1/64")}
	ip := func(line string) {
		t.Helper()
		said, err := exec.Command("sh", "-c", line).CombinedOutput()
		require.NoError(t, err, "%s: %s", line, said)
	}
	// The capabilities are those of a thread.
	unprivileged := func(do func()) {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var none [2]unix.CapUserData
			err := unix.Capset(&header, &none[0])
			if err == nil {
				do()
			}
			done <- err
		}()
		require.NoError(t, <-done)
	}
	fails := func(says string) {
		t.Helper()
		unprivileged(func() {
			_, err := Open(c)
			assert.ErrorContains(t, err, says)
		})
	}
	fails("tun: interface made0: making it needs the capability CAP_NET_ADMIN (operation not permitted). Either run this in a network namespace of your own, with\n" +
		"  unshare --user --map-root-user --net COMMAND\nor let root make the interface for you once, with\n" +
		"  ip tuntap add dev made0 mode tun user 0 && ip link set dev made0 mtu 9000 up && ip address add 10.77.9.1/24 dev made0 && ip address add fd77:9::1/64 dev made0 nodad")
	ip("ip tuntap add dev made0 mode tun user 0")
	fails("tun: interface made0 has MTU 1500, not 9000, and this process may not change it: run as root (operation not permitted)\n  ip link set dev made0 mtu 9000")
	ip("ip link set dev made0 mtu 9000")
	fails("tun: interface made0 lacks the address 10.77.9.1/24, and this process may not change it: run as root (operation not permitted)\n  ip address add 10.77.9.1/24 dev made0")
	ip("ip address add 10.77.9.1/24 dev made0")
	fails("run as root (operation not permitted)\n  ip address add fd77:9::1/64 dev made0 nodad")
	ip("ip address add fd77:9::1/64 dev made0 nodad")
	fails("tun: interface made0 is down, and this process may not change it: run as root (operation not permitted)\n  ip link set dev made0 up")
	ip("ip link set dev made0 up")
	unprivileged(func() {
		d, err := Open(c)
		if !assert.NoError(t, err) {
			return
		}
		request, b := echo(), make([]byte, HeaderSize+MaxPacket)
		assert.NoError(t, d.Write(request, nil))
		n, err := d.Read(b)
		assert.NoError(t, err)
		assert.NoError(t, Check(b[:n], n-HeaderSize))
		assert.NoError(t, d.Close())
	})
	link, err := find("made0")
	require.NoError(t, err)
	require.NotNil(t, link, "it stays")
	err = explainAttach(c, link, unix.EPERM) // this namespace has no other user
	require.ErrorContains(t, err, "tun: interface made0 exists and belongs to another user: run as root (operation not permitted)\n  ip link delete made0 && ip tuntap add dev made0 mode tun user 0 && ")
	ip("ip link delete made0 && ip tuntap add dev made0 mode tun multi_queue user 0")
	fails("tun: interface made0 exists, and is not a TUN with one queue")
}

// Open says what is wrong in one sentence.
func TestOpenRefuses(t *testing.T) {
	needDevice(t)
	if !inside(t) {
		return
	}
	open(t, Config{Name: "first", MTU: 1500, Addresses: prefixes("10.77.9.1/24", "fd77:9::1/64")})
	for _, row := range []struct {
		c    Config
		says string
	}{
		{Config{Name: "first", MTU: 1500}, "tun: interface first is used by another process: end it, or choose another name"},
		{Config{Name: "lo", MTU: 1500}, "tun: interface lo exists, and is not a TUN: choose another name"},
		{Config{Name: "other", MTU: 1500, Addresses: prefixes("10.77.9.1/16")}, "tun: address 10.77.9.1: interface first of this host has it already"},
		{Config{Name: "other", MTU: 1500, Addresses: prefixes("fd77:9::1/64")}, "tun: address fd77:9::1: interface first of this host has it already"},
	} {
		_, err := Open(row.c)
		require.ErrorContains(t, err, row.says)
		link, err := find("other")
		require.NoError(t, err)
		require.Nil(t, link, "nothing is left behind")
	}
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	_, err := Open(Config{Name: "other", MTU: 1500, Addresses: prefixes("fd77:8::1/64")})
	require.ErrorContains(t, err, "tun: address fd77:8::1/64: IPv6 is turned off here")

	require.NoError(t, unix.Mount("none", "/dev/net", "tmpfs", 0, ""))
	_, err = Open(Config{Name: "other", MTU: 1500})
	require.ErrorContains(t, err, "tun: there is no /dev/net/tun: run modprobe tun as root, or start the container with --device /dev/net/tun")
	require.True(t, errors.Is(err, os.ErrNotExist))
	require.NoError(t, os.WriteFile("/dev/net/tun", nil, 0))
	_, err = Open(Config{Name: "other", MTU: 1500})
	require.ErrorContains(t, err, "TUNSETIFF")
}

func TestExplanations(t *testing.T) {
	assert.ErrorContains(t, explainDevice(unix.EACCES), "tun: /dev/net/tun may not be opened by this user")
	for _, r := range restrictions {
		err := restriction(func(name string) string {
			if name == r.name {
				return r.bad
			}
			return ""
		})
		require.EqualError(t, err, fmt.Sprintf("tun: this system restricts user namespaces: %s is %s. Run sysctl -w %s=%s as root (%s)", r.name, r.bad, r.name, r.good, r.who))
	}
	require.NoError(t, restriction(func(string) string { return "" }))
}
