package engine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

// What the engine's process can have of the system's scarce things, and who has
// how much of it. A client's own limits do not help when a user opens many
// clients: so each user may have half of what there is, and a part is left for
// the process itself.

// A goods is a scarce thing.
type goods int

const (
	mappings    goods = iota // of memory, vm.max_map_count
	descriptors              // of files, RLIMIT_NOFILE
	addresses                // bytes of address space that is mapped
	connections              // each may hold a thread while memory is unmapped
	memory                   // bytes of the device's own, see heap.go
	unread                   // descriptors in answers that wait to be read, see flight.go
	pipePages                // that hold pages of regions, see shm.HoldCost
	numGoods
)

var goodsNames = [numGoods]string{"mappings", "descriptors", "bytes of address space", "connections", "bytes of memory", "descriptors in unread answers", "pages of pipes"}

// maxConnections stays well below the 10,000 threads of which a Go program dies.
const maxConnections = 1 << 12

// maxAddresses leaves half of the 128 TiB that a process has to itself: a Go
// program that cannot map more heap ends.
const maxAddresses = 64 << 40

// A bill is so much of each.
type bill [numGoods]int

// What a client needs to exist: a connection and two pages.
var clientBill = bill{mappings: 2, descriptors: 2, connections: 1, memory: clientCost}

// shares counts what users have. Safe for concurrent use: memory is mapped and
// unmapped on the goroutines of connections.
type shares struct {
	mu    sync.Mutex
	most  bill
	taken bill
	users map[uint32]*bill // by uid
}

func newShares() *shares {
	s := &shares{users: make(map[uint32]*bill)}
	s.most[mappings] = maxMaps() / 4 * 3
	s.most[descriptors] = rlimit(unix.RLIMIT_NOFILE, 1<<20) / 4 * 3
	s.most[addresses] = min(maxAddresses, rlimit(unix.RLIMIT_AS, 2*maxAddresses)/2)
	s.most[connections] = maxConnections
	s.most[memory] = maxMemory
	s.most[unread] = s.most[descriptors]
	s.most[pipePages] = maxPipePages()
	return s
}

// take counts what is on a bill for a user, all of it, or says what he cannot
// have.
func (s *shares) take(uid uint32, b bill) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var has bill
	if u := s.users[uid]; u != nil {
		has = *u
	}
	for g, n := range b {
		switch {
		case n == 0:
		case has[g]+n > s.most[g]/2:
			return control.Errorf(control.CodeLimit, "user %d has %d %s of the device's process and asks for %d more; one user may have %d",
				uid, has[g], goodsNames[g], n, s.most[g]/2)
		case s.taken[g]+n > s.most[g]:
			return control.Errorf(control.CodeLimit, "all users together have %d %s of the device's process, and user %d asks for %d more; %d are possible",
				s.taken[g], goodsNames[g], uid, n, s.most[g])
		}
	}
	s.add(uid, b, 1)
	return nil
}

// owe counts descriptors that a user has already brought. It is an error
// if that is well above his share: what he uses up to the last one must not forbid
// him a request that brings one for a moment.
func (s *shares) owe(uid uint32, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(uid, bill{descriptors: n}, 1)
	most := s.most[descriptors]/2 + s.most[descriptors]/16
	if has := s.users[uid][descriptors]; has > most {
		return fmt.Errorf("user %d has %d descriptors, with those that wait to be closed; %d are possible", uid, has, most)
	}
	return nil
}

// crowded reports whether users have brought so many more descriptors than their
// share that others could go short.
func (s *shares) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := 0
	for _, u := range s.users {
		over += max(u[descriptors]-s.most[descriptors]/2, 0)
	}
	return over > s.most[descriptors]/8
}

// give gives back what is on a bill.
func (s *shares) give(uid uint32, b bill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(uid, b, -1)
}

func (s *shares) add(uid uint32, b bill, sign int) {
	u := s.users[uid]
	if u == nil {
		u = new(bill)
		s.users[uid] = u
	}
	for g, n := range b {
		u[g] += sign * n
		s.taken[g] += sign * n
	}
	if *u == (bill{}) {
		delete(s.users, uid)
	}
}

// maxMaps is how many mappings the kernel allows a process.
func maxMaps() int {
	b, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err == nil {
		if n, err := strconv.Atoi(string(bytes.TrimSpace(b))); err == nil {
			return n
		}
	}
	return 65530 // the kernel's default
}

// maxPipePages is how many pages of pipes the kernel allows the user that the device
// runs as, all processes together: as many as it likes if it may go past limits.
func maxPipePages() int {
	const unlimited = 1 << 30
	b, err := os.ReadFile("/proc/sys/fs/pipe-user-pages-soft")
	n, err2 := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil || err2 != nil || n == 0 || mayExceed() {
		return unlimited
	}
	return n / 4 * 3
}

// mayExceed reports whether the process has CAP_SYS_RESOURCE or CAP_SYS_ADMIN.
func mayExceed() bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	return unix.Capget(&h, &d[0]) == nil && d[0].Effective&(1<<unix.CAP_SYS_RESOURCE|1<<unix.CAP_SYS_ADMIN) != 0
}

// rlimit is what the kernel allows this process, at most most.
func rlimit(what, most int) int {
	var r unix.Rlimit
	if err := unix.Getrlimit(what, &r); err != nil {
		return most / 1024
	}
	return int(min(r.Cur, uint64(most)))
}
