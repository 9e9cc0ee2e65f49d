//go:build linux && (amd64 || arm64)

package verbs

import (
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// A program's GIDs are the addresses of its network namespace. Only a process in a namespace
// can list the namespace's addresses, so the shim lists them and sends them (NV_ADDRESSES).
//
// A program's claims are bounded. The server identifies the namespace itself, by the cookie of
// the namespace in which the program made its connection; a program cannot choose it. A table
// belongs to a namespace and a user, so the addresses that a program claims appear only in
// tables of programs of its own user in its own namespace, who could disturb each other anyway.
// An address that is in no table of the caller's namespace is looked for in the tables of other
// namespaces, first in those of the same user, then in all others, oldest first
// (networks.owner). So a false claim can attract only connections to an address that was never
// claimed before and that is not the caller's own: on a network, any host can do the same.

// A netnsKey identifies a netns.
type netnsKey struct {
	uid    uint32
	cookie uint64 // SO_NETNS_COOKIE; 0 if it is not known
	dev    uint64 // device number of /proc/PID/ns/net, if cookie is 0
	inode  uint64 // inode of /proc/PID/ns/net, if cookie is 0
	pid    int32  // the process, if nothing else is known: then every process has a table of its own
}

const (
	maxNetns  = 256 // namespaces, of all users
	userNetns = 64  // namespaces of one user; a user also never has more than remain free for the others
	idleNetns = 8   // namespaces that no process uses, and that are kept for the next process
)

// netnsCost is the cost of a namespace with its files.
var netnsCost = nic.Cost{Memory: 256 << 10}

// networks has the namespaces that programs have reported.
type networks struct {
	mu   sync.Mutex
	all  []*netns // all namespaces, in the order in which they were made
	idle []*netns // those that are not in use, in the order in which they became idle
}

// keyOf identifies the network namespace of the process at the other end of a connection.
// An accepted socket belongs to the namespace of the socket that connected.
func keyOf(conn syscall.Conn, pid int32, uid uint32) netnsKey {
	k := netnsKey{uid: uid}
	err := unixsock.Control(conn, func(fd int) (err error) {
		k.cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		return err
	})
	if err == nil && k.cookie != 0 {
		return k
	}
	var st unix.Stat_t // Linux before 5.14 has no such cookie
	if unix.Stat("/proc/"+strconv.Itoa(int(pid))+"/ns/net", &st) == nil {
		k.dev, k.inode = uint64(st.Dev), st.Ino //nolint:unconvert // the type differs between architectures
		return k
	}
	k.pid = pid
	return k
}

// join returns the namespace of that key, which the caller uses until it calls leave.
func (s *Server) join(key netnsKey) (*netns, error) {
	w := &s.networks
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.all {
		if n.key == key {
			w.hold(n)
			return n, nil
		}
	}
	full := func() bool { return w.ofUser(key.uid) >= min(userNetns, maxNetns-len(w.all)) }
	if full() {
		s.prune(0)
	}
	if full() {
		mine := w.ofUser(key.uid)
		return nil, refuse(unix.ENOSPC, "addresses: %d network namespaces of this user have open devices, of %d in all; a user can have %d, and no more than remain free for others, of %d",
			mine, len(w.all), userNetns, maxNetns)
	}
	if err := s.engine.Charge(key.uid, netnsCost); err != nil {
		return nil, err
	}
	n := newNetns(key)
	n.held = 1
	w.all = append(w.all, n)
	return n, nil
}

// ofUser returns how many namespaces a user has.
func (w *networks) ofUser(uid uint32) (count int) {
	for _, n := range w.all {
		if n.key.uid == uid {
			count++
		}
	}
	return count
}

// hold counts one more user of a namespace.
func (w *networks) hold(n *netns) {
	if n.held == 0 {
		w.idle = slices.DeleteFunc(w.idle, func(o *netns) bool { return o == n })
	}
	n.held++
}

// share counts one more user of a namespace that the caller's caller uses.
func (s *Server) share(n *netns) *netns {
	s.networks.mu.Lock()
	defer s.networks.mu.Unlock()
	s.networks.hold(n)
	return n
}

// leave ends a use of a namespace. Namespaces that are not in use are kept for a while, so that
// the next program finds the same indices.
func (s *Server) leave(n *netns) {
	defer s.announce() // without the lock
	w := &s.networks
	w.mu.Lock()
	defer w.mu.Unlock()
	n.held--
	if n.held > 0 || n == s.nowhere {
		return
	}
	w.idle = append(w.idle, n)
	s.prune(idleNetns)
}

// prune drops idle namespaces until only so many are left.
func (s *Server) prune(left int) {
	w := &s.networks
	for len(w.idle) > left {
		n := w.idle[0]
		w.idle = w.idle[1:]
		w.all = slices.DeleteFunc(w.all, func(o *netns) bool { return o == n })
		s.removeTree(n)
		s.engine.Refund(n.key.uid, netnsCost)
	}
}

// owner returns the namespace and the device that have a GID, as seen from a namespace: the
// namespace itself if the GID is there, else another one that has it. The namespaces of one
// engine are joined, as if there were a network between them. A loopback address never leaves
// its namespace. The results are nil if no namespace has the GID.
func (s *Server) owner(from *netns, gid [gidSize]byte) (n *netns, d *device) {
	has := func(n *netns) bool {
		d = n.deviceOf(s.devices, gid)
		return d != nil
	}
	if a := (address{gid: gid}); a.class() != classLoopback {
		n = s.search(from, has)
	} else if has(from) {
		n = from
	}
	return n, d
}

// search returns the first namespace of which has is true, in the order in which a program of one namespace
// looks through others: nil if there is none.
func (s *Server) search(from *netns, has func(*netns) bool) *netns {
	if has(from) {
		return from
	}
	s.networks.mu.Lock()
	all := slices.Clone(s.networks.all)
	s.networks.mu.Unlock()
	for _, same := range []bool{true, false} {
		for _, n := range all {
			if same == (n.key.uid == from.key.uid) && n != from && has(n) {
				return n
			}
		}
	}
	if has(s.nowhere) { // a process that has sent no addresses
		return s.nowhere
	}
	return nil
}

// setGIDs gives the engine the context's GID table, for the headers of datagrams. The caller
// holds the lock of the namespace's tree, so that the table which is given last is the newest.
func (x *uctx) setGIDs() error {
	table := make([]nic.GID, x.device.gidEntries())
	for i := range table {
		if e, ok := x.net.entry(x.device, i); ok {
			table[i] = nic.GID{Addr: e.gid, UDP: e.kind == abi.GIDTypeRoCEV2}
		}
	}
	return x.client.SetGIDs(table)
}

// contextsOf returns the contexts of a namespace.
func (s *Server) contextsOf(n *netns) (all []*uctx) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.contexts {
		if x.net == n {
			all = append(all, x)
		}
	}
	return all
}

// renewGIDs gives the engine the table of a namespace that has changed, for all its contexts.
func (s *Server) renewGIDs(n *netns) {
	for _, x := range s.contextsOf(n) {
		_ = x.setGIDs() // fails only if the context has ended
	}
}

// notifyGIDs sends the contexts of a namespace whose table has changed the event that Linux sends for each
// entry of RoCE that comes or goes (dispatch_gid_change_event in drivers/infiniband/core/cache.c). That of an
// InfiniBand port does not depend on addresses. Call it when the files of the table are written, because
// programs then read them.
func (s *Server) notifyGIDs(n *netns) {
	for _, x := range s.contextsOf(n) {
		if x.device.lid == 0 {
			x.notifyPort(1, abi.EventGIDChange)
		}
	}
}
