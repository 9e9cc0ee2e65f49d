//go:build linux && (amd64 || arm64)

package roce

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Socket options that package unix does not have (linux/udp.h and others).
const (
	udpSegment   = 103 // UDP_SEGMENT
	udpGRO       = 104 // UDP_GRO
	udpNoCheck6  = 102 // UDP_NO_CHECK6_RX
	ipv6FlowInfo = 11  // IPV6_FLOWINFO (linux/in6.h)
	bufferWanted = 8 << 20
	bufferSmall  = 4 << 10

	// bufferStrangers is less than that for peers: most datagrams that wait there when strangers
	// flood the port are useless. It holds a window of UD packets.
	bufferStrangers = 1 << 20
)

// prepareReceive sets the options of a socket that receives, whose buffer should have wanted bytes. It
// returns the size of its buffer as the kernel counts, and whether the kernel joins datagrams (UDP_GRO).
func prepareReceive(fd int, v6 bool, wanted int) (buffer int, gro bool, err error) {
	type option struct {
		level, name int
		what        string
	}
	options := []option{
		{unix.IPPROTO_IP, unix.IP_RECVTOS, "IP_RECVTOS"},
		{unix.IPPROTO_IP, unix.IP_RECVTTL, "IP_RECVTTL"},
	}
	if v6 {
		options = []option{
			{unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, "IPV6_RECVTCLASS"},
			{unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, "IPV6_RECVHOPLIMIT"},
			{unix.IPPROTO_IPV6, ipv6FlowInfo, "IPV6_FLOWINFO"},
			{unix.IPPROTO_UDP, udpNoCheck6, "UDP_NO_CHECK6_RX"},
		}
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, 1); err != nil {
			return 0, false, fmt.Errorf("set %s: %w", o.what, err)
		}
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return 0, false, err
	}
	gro = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, udpGRO, 1) == nil // Linux 5.0
	return setBuffer(fd, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, wanted), gro, nil
}

// prepareSend sets the options of a socket that sends. All packets have DF set, and the
// identification 0 in IPv4 headers, which the ICRC covers. It returns the size of the send
// buffer as the kernel counts.
func prepareSend(fd int, v6 bool) (buffer int, err error) {
	level, discover, do, hops := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO, unix.IP_TTL
	if v6 {
		level, hops = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS
		discover, do = unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
	}
	if err := unix.SetsockoptInt(fd, level, discover, do); err != nil {
		return 0, fmt.Errorf("set IP_MTU_DISCOVER: %w", err)
	}
	if err := unix.SetsockoptInt(fd, level, hops, defaultHops); err != nil {
		return 0, fmt.Errorf("set IP_TTL: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return 0, err
	}
	// This socket is not read.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferSmall)
	return setBuffer(fd, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, bufferWanted), nil
}

// canSegment reports whether the kernel cuts messages of this socket into datagrams
// (UDP_SEGMENT, Linux 4.18). Whether the network device can is found out by sending.
func canSegment(fd int) bool {
	_, err := unix.GetsockoptInt(fd, unix.IPPROTO_UDP, udpSegment)
	return err == nil
}

// setBuffer makes a buffer of the socket as large as the kernel allows, and returns its size as
// the kernel counts: twice what was requested.
func setBuffer(fd, option, force, wanted int) int {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, wanted) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, wanted)
	}
	n, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
	return n
}

// namespaceOf returns a number that names the network namespace of a socket; 0 if the kernel
// does not report it (before Linux 5.14).
func namespaceOf(fd int) uint64 {
	n, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0
	}
	return n
}
