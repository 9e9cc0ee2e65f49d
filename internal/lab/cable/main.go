//go:build linux && (amd64 || arm64)

// A cable between a machine of package lab and the network namespace in which this program runs:
//
//	cable NAME SEED
//
// The machine's end is descriptor 3, a socket of packets, one for each Ethernet frame. The other
// end is a network interface, a TAP device with the given name. A line on standard input, such as
// "loss 0.03", says how many of the RoCE packets the cable loses from then on, in both directions.
// Frames of other kinds always arrive, so that programs can find each other by TCP. At the end of
// its input the cable prints how many packets it carried and lost.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "cable:", err)
		os.Exit(1)
	}
}

func run(name, seed string) error {
	n, err := strconv.ParseUint(seed, 0, 64)
	if err != nil {
		return err
	}
	tap, err := openTAP(name)
	if err != nil {
		return fmt.Errorf("/dev/net/tun: %w", err)
	}
	c := &cable{}
	go c.carry(tap, 3, rand.New(rand.NewPCG(n, 1)))
	go c.carry(3, tap, rand.New(rand.NewPCG(n, 2)))
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var loss float64
		if _, err := fmt.Sscanf(in.Text(), "loss %g", &loss); err != nil {
			return fmt.Errorf("%q: %w", in.Text(), err)
		}
		c.loss.Store(math.Float64bits(loss))
		fmt.Printf("loss is %g; carried %d and lost %d RoCE packets\n", loss, c.carried.Load(), c.lost.Load())
	}
	return nil
}

// openTAP makes a TAP interface and returns its file descriptor.
func openTAP(name string) (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	req, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	return fd, unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
}

// A cable has two directions, each with a generator of its own.
type cable struct {
	loss          atomic.Uint64 // the bits of a float64
	carried, lost atomic.Uint64 // RoCE packets
}

// carry carries frames from one descriptor to another. The process ends when one of them is closed.
func (c *cable) carry(from, to int, r *rand.Rand) {
	frame := make([]byte, 1<<16)
	for {
		n, err := unix.Read(from, frame)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			os.Exit(0)
		}
		if isRoCE(frame[:n]) {
			if r.Float64() < math.Float64frombits(c.loss.Load()) {
				c.lost.Add(1)
				continue
			}
			c.carried.Add(1)
		}
		_, _ = unix.Write(to, frame[:n]) // a full queue loses frames, as cables do
	}
}

// isRoCE says whether an Ethernet frame is a UDP datagram to port 4791. IPv6 headers have no
// extensions here.
func isRoCE(frame []byte) bool {
	const ethernet, ipv4, ipv6, udp, port = 14, 0x0800, 0x86dd, 17, 4791
	if len(frame) < ethernet+20 {
		return false
	}
	ip, size, protocol := frame[ethernet:], 0, byte(0)
	switch binary.BigEndian.Uint16(frame[ethernet-2:]) {
	case ipv4:
		size, protocol = int(ip[0]&15)*4, ip[9]
	case ipv6:
		size, protocol = 40, ip[6]
	}
	return protocol == udp && len(ip) >= size+4 && binary.BigEndian.Uint16(ip[size+2:]) == port
}
