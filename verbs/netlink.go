//go:build linux && (amd64 || arm64)

package verbs

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/nldev"
	"golang.org/x/sys/unix"
)

// Sockets of NETLINK_RDMA. shim/wire.h says how the two ends are named, and why a program's end is
// recognised without a table in the program.

// netlinks are the sockets of all programs. Safe for concurrent use.
type netlinks struct {
	tag  string        // names this server in the names of sockets
	made atomic.Uint32 // number of sockets so far, for the names of the server's ends

	served sync.WaitGroup

	// Returns the counters of a port; nil: it has none. Set before programs connect.
	counters func(*device) []nldev.Counter

	mu     sync.Mutex
	all    map[uint64]*netlinkSocket // by the cookie of the program's end
	closed bool                      // no more sockets are made
}

// A netlinkSocket is a socket of NETLINK_RDMA. It ends when the last copy of the program's end is closed.
type netlinkSocket struct {
	s       *Server
	uid     uint32
	pid     int32
	seen    pidView
	lineage string
	name    string
	net     *netns
	file    *os.File // this server's end
	cookie  uint64   // of the program's end
	port    uint32   // port id; 0: not known yet. Used by serve only

	mu        sync.Mutex
	explained budget
	groups    uint32 // bit n is group n+1
	options   uint32 // bit n is option n of SOL_NETLINK
	dump      *netlinkDump
	lost      bool // messages were lost, and the program is still to be told
	sending   bool // push runs, or a goroutine waits for room
}

const (
	netlinkName   = "@nicless-nl" // an abstract name
	netlinkTag    = 16            // digits that name the server
	netlinkNumber = 8             // digits of a port id

	netlinkOpen   = 0
	netlinkGroups = 0x10000
	netlinkGet    = 0x20000
	netlinkSize   = 8

	netlinkBuffer  = 64 << 10 // bytes of unread answers, as SO_SNDBUF, of which the kernel takes the double
	netlinkRequest = 32 << 10 // bytes of a datagram with requests; a longer one is ignored
)

var netlinkCost = nic.Cost{Memory: 2*netlinkBuffer + 4096, Descriptors: 1}

var netlinkBuffers = sync.Pool{New: func() any { return new([netlinkRequest]byte) }}

func (l *netlinks) init() {
	var b [netlinkTag / 2]byte
	_, _ = rand.Read(b[:])
	l.tag, l.all = hex.EncodeToString(b[:]), make(map[uint64]*netlinkSocket)
}

// netlink serves NV_NETLINK.
func (p *process) netlink(h wireHeader, b []byte, files []nic.File) ([]byte, []*os.File, error) {
	if len(b) != netlinkSize {
		return nil, nil, errWire
	}
	option, value := le.Uint32(b), le.Uint32(b[4:])
	var give []*os.File
	if option == netlinkOpen {
		_, theirs, err := p.s.newNetlink(p)
		if err != nil {
			return nil, nil, err
		}
		give = append(give, theirs)
	} else {
		k, err := p.s.netlink.find(files)
		if err == nil {
			value, err = k.option(option, value)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	out := appendAnswer(nil, h, 0, 0)
	return le.AppendUint32(le.AppendUint32(out, option), value), give, nil
}

// find returns the socket of which files has a descriptor.
func (l *netlinks) find(files []nic.File) (*netlinkSocket, error) {
	if len(files) != 1 {
		return nil, expected(eBADF, "netlink: %d descriptors were sent; 1 is needed", len(files))
	}
	cookie, err := cookieOf(files[0])
	l.mu.Lock()
	k := l.all[cookie]
	l.mu.Unlock()
	if err != nil || k == nil {
		return nil, expected(unix.ENOTSOCK, "netlink: the descriptor is no socket of this server")
	}
	return k, nil
}

// newNetlink makes a socket for a process. The second result is the program's end.
func (s *Server) newNetlink(p *process) (k *netlinkSocket, theirs *os.File, err error) {
	if err := s.engine.Charge(p.uid, netlinkCost); err != nil {
		return nil, nil, refuse(unix.ENOBUFS, "netlink: %v", err)
	}
	mine, theirs, err := unixsock.Pair("netlink")
	if err != nil {
		s.engine.Refund(p.uid, netlinkCost)
		return nil, nil, refuse(unix.ENFILE, "netlink: %v", err)
	}
	k = &netlinkSocket{s: s, uid: p.uid, pid: p.pid, seen: viewOf(p.pid), lineage: p.lineage, name: p.name,
		net: s.share(p.net), file: mine}
	k.cookie, err = cookieOf(theirs)
	if err == nil {
		err = k.nameEnd()
	}
	if err == nil {
		err = s.netlink.add(k)
	}
	if err != nil {
		_ = closeFiles(mine, theirs)
		s.engine.Refund(p.uid, netlinkCost)
		s.leave(k.net)
		return nil, nil, refuse(unix.ENOBUFS, "netlink: %v", err)
	}
	return k, theirs, nil
}

// add begins to serve a socket, unless the server is ending.
func (l *netlinks) add(k *netlinkSocket) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errors.New("the server is ending")
	}
	l.all[k.cookie] = k
	l.served.Go(k.serve)
	return nil
}

// nameEnd gives the server's end its name and its size, and refuses descriptors there, if the kernel can.
func (k *netlinkSocket) nameEnd() error {
	_ = unixsock.PassRights(k.file, false)
	l := &k.s.netlink
	name := fmt.Sprintf("%s/%s%0*x", netlinkName, l.tag, netlinkNumber, l.made.Add(1))
	return unixsock.Control(k.file, func(fd int) error {
		return errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, netlinkBuffer),
			unix.Bind(fd, &unix.SockaddrUnix{Name: name}))
	})
}

// portID returns the port id; 0: the program has not bound the socket.
func (k *netlinkSocket) portID() uint32 {
	if k.port != 0 {
		return k.port
	}
	_ = unixsock.Control(k.file, func(fd int) error {
		a, err := unix.Getpeername(fd)
		if u, ok := a.(*unix.SockaddrUnix); ok && err == nil {
			digits, found := strings.CutPrefix(u.Name, netlinkName+"="+k.s.netlink.tag)
			if n, err := strconv.ParseUint(digits, 16, 32); found && err == nil {
				k.port = uint32(n)
			}
		}
		return err
	})
	return k.port
}

// serve answers requests until the program's end is closed.
func (k *netlinkSocket) serve() {
	defer k.end()
	raw, err := k.file.SyscallConn()
	if err != nil {
		return
	}
	for {
		ended := true
		err := raw.Read(func(fd uintptr) bool {
			var wait bool
			ended, wait = k.arrived(int(fd))
			return !wait
		})
		if err != nil || ended || !k.take(raw) {
			return
		}
	}
}

// arrived looks at what has come, without taking it. A socket to which descriptors were sent ends: closing
// them can block.
func (k *netlinkSocket) arrived(fd int) (ended, wait bool) {
	var b [1]byte
	for {
		n, _, flags, _, err := unix.Recvmsg(fd, b[:], nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return false, true
		case err != nil || flags&unix.MSG_CTRUNC != 0:
			return true, false
		}
		return n == 0 && unixsock.Finished(fd), false // an empty datagram is no end
	}
}

// end is called when the program's end is closed, or breaks the rules.
func (k *netlinkSocket) end() {
	l := &k.s.netlink
	l.mu.Lock()
	delete(l.all, k.cookie)
	l.mu.Unlock()
	k.s.leave(k.net)
	k.s.engine.DiscardConnection(k.uid, k.file, netlinkCost)
}

// closeNetlinks ends all sockets.
func (s *Server) closeNetlinks() {
	l := &s.netlink
	l.mu.Lock()
	l.closed = true
	for _, k := range l.all {
		unixsock.HangUp(k.file)
	}
	l.mu.Unlock()
	l.served.Wait()
}

// isAdmin reports whether the kernel would let the program change devices, and see keys.
func (k *netlinkSocket) isAdmin() bool { return isAdmin(k.uid) }

// isAdmin reports whether a user may do what the kernel lets root do.
func isAdmin(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// sees reports whether the program sees a user's resources.
func (k *netlinkSocket) sees(uid uint32) bool { return k.isAdmin() || k.uid == uid }

// option sets an option, or returns its value.
func (k *netlinkSocket) option(option, value uint32) (uint32, error) {
	const single = 1<<unix.NETLINK_PKTINFO | 1<<unix.NETLINK_BROADCAST_ERROR | 1<<unix.NETLINK_NO_ENOBUFS |
		1<<unix.NETLINK_CAP_ACK | 1<<unix.NETLINK_EXT_ACK | 1<<unix.NETLINK_GET_STRICT_CHK
	k.mu.Lock()
	defer k.mu.Unlock()
	set, what := option&netlinkGet == 0, option&^netlinkGet
	switch {
	case what == netlinkGroups && set:
		k.groups |= value
	case what == netlinkGroups, what == unix.NETLINK_LIST_MEMBERSHIPS && !set:
		return k.groups, nil
	case set && (what == unix.NETLINK_ADD_MEMBERSHIP || what == unix.NETLINK_DROP_MEMBERSHIP):
		if value < 1 || value > nldev.NumGroups {
			return 0, expected(eINVAL, "netlink: group %d; 1 to %d are possible", value, nldev.NumGroups)
		}
		k.groups |= 1 << (value - 1)
		if what == unix.NETLINK_DROP_MEMBERSHIP {
			k.groups &^= 1 << (value - 1)
		}
	case what >= 32 || single>>what&1 == 0:
		return 0, expected(unix.ENOPROTOOPT, "netlink: option %d is unknown", what)
	case !set:
		return k.options >> what & 1, nil
	case value != 0:
		k.options |= 1 << what
	default:
		k.options &^= 1 << what
	}
	return 0, nil
}

func (k *netlinkSocket) has(option uint32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.options>>option&1 != 0
}

// explain tells the program's user why a request was refused.
func (k *netlinkSocket) explain(errno unix.Errno, format string, args ...any) {
	k.mu.Lock()
	more, ok := k.explained.spend()
	k.mu.Unlock()
	if !ok {
		return
	}
	text := fmt.Sprintf(format, args...)
	k.s.watched.send(k.lineage, k.uid, "refused with %s: %s%s", errnoName(errno), text, more)
	k.s.report(k.uid, nil, slog.LevelWarn, "verbs netlink refused", "program", k.name, "errno",
		errnoName(errno), "why", text)
}
