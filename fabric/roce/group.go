//go:build linux && (amd64 || arm64)

package roce

import (
	"net/netip"
	"sync"

	"github.com/nicless/nicless/internal/mmsg"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The sockets of a local address that receive are a group (SO_REUSEPORT). The first socket gets datagrams
// from known addresses, the second datagrams from strangers, and the third datagrams that are unfit: its
// filter drops everything, and the kernel counts what it drops. So a flood of strangers fills the strangers'
// buffer, and not the peers' buffer. A program chooses the socket (see screen). If the kernel takes no
// program, there is only the first socket.
//
// The first socket is bound before it joins the group. So bind fails if another program has the port, also if
// that program's sockets are a group. Later, only a process of the same user could add a socket to the group,
// and the program chooses no such socket.
const (
	groupStrangers = iota
	groupUnfit
	groupSize
)

// openGroup opens the other sockets of a group, and binds them to the address of the first. It returns nil if
// the kernel refuses one of them.
func openGroup(first int, a netip.Addr, bound unix.Sockaddr) (group []int) {
	if unix.SetsockoptInt(first, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) != nil {
		return nil
	}
	for range groupSize {
		fd, err := newSocket(a)
		if err == nil {
			group = append(group, fd)
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		}
		if err == nil {
			err = unix.Bind(fd, bound)
		}
		if err != nil {
			closeAll(group)
			_ = unix.SetsockoptInt(first, unix.SOL_SOCKET, unix.SO_REUSEPORT, 0)
			return nil
		}
	}
	return group
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// A group is the sockets of a local address besides the one for known addresses.
type group struct {
	strangers int  // -1: there is none
	unfit     int  // -1: there is none
	screened  bool // the kernel looks at datagrams before they are in a buffer

	mu     sync.Mutex      // for the counts below
	counts [classes]uint32 // the kernel's counts of dropped datagrams, when they were read last
}

// joinGroup prepares the other sockets of a group. If the kernel refuses an option, it closes them, and the
// local address has only its first socket.
func (l *local) joinGroup(fds []int) {
	l.group.strangers, l.group.unfit = -1, -1
	if len(fds) != groupSize {
		closeAll(fds)
		return
	}
	l.group.strangers, l.group.unfit = fds[groupStrangers], fds[groupUnfit]
	_, _, err := prepareReceive(l.group.strangers, l.plain.Is6(), bufferStrangers)
	if err == nil {
		// The kernel joins datagrams for a socket before it looks at the filter.
		_, _, err = prepareReceive(l.group.unfit, l.plain.Is6(), bufferSmall)
	}
	if err == nil {
		err = attach(l.group.unfit, unix.SO_ATTACH_FILTER,
			[]bpf.RawInstruction{{Op: unix.BPF_RET | unix.BPF_K}})
	}
	if err != nil {
		l.leaveGroup()
	}
}

func (l *local) leaveGroup() {
	for _, fd := range []int{l.group.strangers, l.group.unfit} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	l.group.strangers, l.group.unfit = -1, -1
}

// applyScreen gives the kernel the program for the addresses that are known: to choose among the sockets of
// the group, or as a filter if there is only the first socket. It returns an error if the kernel does not
// take it.
func (l *local) applyScreen(allowed []netip.Prefix, k addressSet) error {
	l.use.RLock()
	defer l.use.RUnlock()
	if l.closed {
		return nil
	}
	s := screen{
		v6: l.plain.Is6(), allowed: allowed, known: k,
		class: [classes]uint32{fromKnown: 0, fromStranger: 1, unfit: 2},
	}
	option := unix.SO_ATTACH_REUSEPORT_CBPF
	if l.group.strangers < 0 {
		// A filter sees the UDP header too, and returns how many bytes of the datagram are kept: all, or none
		// if the datagram is unfit.
		s.first, s.known = udpHeader, addressSet{}
		s.class = [classes]uint32{fromKnown: 1 << 17, fromStranger: 1 << 17}
		option = unix.SO_ATTACH_FILTER
	}
	program, err := s.program()
	if err != nil {
		return err
	}
	return attach(l.receiver, option, program)
}

// countDropped adds to the counts how many datagrams the kernel has dropped since the last call.
func (l *local) countDropped(r *receiveCounts) {
	l.use.RLock()
	defer l.use.RUnlock()
	if l.closed {
		return
	}
	l.group.mu.Lock()
	defer l.group.mu.Unlock()
	sockets := [classes]int{fromKnown: l.receiver, fromStranger: l.group.strangers, unfit: l.group.unfit}
	for c, fd := range sockets {
		if fd < 0 {
			continue
		}
		if n, ok := mmsg.Dropped(fd); ok {
			more := uint64(n - l.group.counts[c])
			l.group.counts[c] = n
			r.kernel[c].Add(more)
			if class(c) != unfit {
				l.counts.dropped.Add(more)
			}
		}
	}
}
