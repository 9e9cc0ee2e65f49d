//go:build linux && (amd64 || arm64)

package programs

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/tun"
	"golang.org/x/sys/unix"
)

// joinDirect makes a TUN in each of two network namespaces, and copies every packet from one to the other,
// with offloads: what nicless net does, without an engine. Arguments: MTU; and for each
// namespace its file, and the addresses, with commas.
func joinDirect(args []string) error {
	runtime.GOMAXPROCS(1) // one thread, that copies
	mtu, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var ends [2]*tun.Device
	for i := range ends {
		ends[i], err = openIn(args[1+2*i], mtu, strings.Split(args[2+2*i], ","))
		if err != nil {
			return err
		}
	}
	fmt.Println("joined with offloads:", ends[0].Offloads())
	done := make(chan error)
	for i := range ends {
		go func() { done <- copyPackets(ends[i], ends[1-i]) }()
	}
	return <-done
}

// openIn opens a TUN in another network namespace. It belongs to that namespace then; the thread
// that was there ends.
func openIn(namespace string, mtu int, prefixes []string) (d *tun.Device, err error) {
	c := tun.Config{Name: "direct", MTU: mtu}
	for _, p := range prefixes {
		c.Addresses = append(c.Addresses, netip.MustParsePrefix(p))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var f *os.File
		if f, err = os.Open(namespace); err != nil {
			return
		}
		defer f.Close()
		if err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err == nil {
			d, err = tun.Open(c)
		}
	}()
	<-done
	return d, err
}

func copyPackets(from, to *tun.Device) error {
	b := make([]byte, tun.HeaderSize+tun.MaxPacket)
	for {
		n, err := from.Read(b)
		if err != nil {
			return err
		}
		k := min(n, tun.SnapshotSize)
		if err := tun.Check(b[:k], n-tun.HeaderSize); err != nil {
			return err
		}
		if err := to.Write(b[:k], b[k:n]); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return err
		}
	}
}

// direct joins two nodes by TUNs and one thread.
func direct(t *testing.T, nodes []*node, mtu int) {
	t.Helper()
	args := []any{mtu}
	for _, n := range nodes[:2] {
		args = append(args, fmt.Sprintf("/proc/%d/ns/net", n.pid), strings.Join(n.prefixes(), ","))
	}
	nodes[0].program("direct", args...).says("joined")
}

// cable joins two nodes by a virtual cable of the kernel.
func cable(nodes []*node, mtu int) {
	size := strconv.Itoa(mtu)
	nodes[0].run("ip", "link", "add", "cable", "mtu", size, "type", "veth", "peer", "name", "cable", "mtu", size, "netns", strconv.Itoa(nodes[1].pid))
	for _, n := range nodes[:2] {
		for _, p := range n.prefixes() {
			argv := []string{"ip", "address", "add", p, "dev", "cable"}
			if strings.Contains(p, ":") {
				argv = append(argv, "nodad")
			}
			n.run(argv...)
		}
		n.run("ip", "link", "set", "cable", "up")
	}
}
