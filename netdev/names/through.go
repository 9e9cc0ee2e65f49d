//go:build linux && (amd64 || arm64)

package names

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// loopback is the index of the interface lo, which each network namespace makes first.
const loopback = 1

// filtered returns how sockets are opened that hear one interface and lo. The filter is there before a socket
// has a port, so nothing gets past it. Go's default for TCP is MPTCP: Linux 6.18 takes no filter for such a
// socket, and one of a kernel that took it could lack it for further paths of a connection.
func filtered(through int) (l net.ListenConfig) {
	l.Control = onlyThrough(through)
	l.SetMultipathTCP(false)
	return l
}

// onlyThrough returns a function for net.ListenConfig.Control, by which the kernel drops packets that reach a
// socket, or connections that it accepts, by any interface but the one of this index and lo. Linux takes
// packets for an address of the host at each of its interfaces; the names are not for those who are there.
//
// A socket that is bound to the interface (SO_BINDTODEVICE) would not hear the host itself, whose packets
// come through lo. The filter judges TCP before there is a connection, which IP_PKTINFO does not.
func onlyThrough(index int) func(_, _ string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		filter, err := interfaces(index)
		if err != nil {
			return err
		}
		p := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		var failed error
		err = c.Control(func(fd uintptr) {
			failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &p)
		})
		if err == nil && failed != nil {
			err = os.NewSyscallError("setsockopt SO_ATTACH_FILTER", failed)
		}
		return err
	}
}

// interfaces is a program for the kernel that keeps the packets that have come through the interface of this
// index, or through lo.
func interfaces(index int) (filter []unix.SockFilter, err error) {
	raw, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtInterfaceIndex},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(index), SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: loopback, SkipTrue: 1},
		bpf.RetConstant{Val: ^uint32(0)},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return nil, fmt.Errorf("names: filter for interface %d: %w", index, err)
	}
	for _, i := range raw {
		filter = append(filter, unix.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	return filter, nil
}
