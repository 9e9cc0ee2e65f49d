//go:build linux && (amd64 || arm64)

package roce

import (
	"net/netip"
	"sync"

	"github.com/nicless/nicless/internal/mmsg"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The sockets of a local address that receive are a group (SO_REUSEPORT). The first takes datagrams
// from addresses that are known, the second those from strangers, and the third those that are no packets:
// its filter drops everything, and the kernel counts that. So a flood of strangers fills their own buffer,
// and not that of the peers. A program chooses the socket (see screen); if the kernel does not take one,
// there is only the first socket.
//
// The first socket is bound before it joins the group. So it is refused if another program has the
// port, another group included. Later, only a process of the same user could add a
// socket to the group, and the program sends no datagram there.
const (
	groupStrangers = iota
	groupUnfit
	groupSize
)

// openGroup binds the further sockets of a group to the address of the first; nil if that
// cannot be.
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

// joinGroup prepares the further sockets of a local address. If that cannot be, they are closed,
// and l has only its first socket.
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

// applyScreen gives the kernel the program for the addresses that are known. It returns an error if
// the kernel does not take it.
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
		// A filter sees the UDP header too, and returns how many bytes are kept.
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

// countDropped adds what the kernel has dropped since the last time.
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
