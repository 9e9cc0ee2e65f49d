package engine

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/nicless/nicless/engine/internal/cgroup"
	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

// What the engine's process can have of the system's scarce resources, and how much of
// it each user has. A client's own limits do not help when a user opens many clients,
// nor do equal halves when two users work together: so a user may have no more than it
// leaves free for everybody else. The first may have half, the next half of the rest,
// and so on, so that the next user always gets a part. A part is left for the process
// itself.

// A goods is a scarce thing.
type goods int

const (
	mappings    goods = iota // of memory, vm.max_map_count
	descriptors              // of files, RLIMIT_NOFILE
	addresses                // bytes of address space that is mapped
	contents                 // bytes of regions, which could all be filled
	connections              // each may hold a thread while memory is unmapped
	memory                   // bytes of the device's own, see heap.go
	unread                   // descriptors in answers that wait to be read, see flight.go
	pipePages                // that hold pages of regions, see shm.HoldCost
	numGoods
)

var goodsNames = [numGoods]string{"mappings", "descriptors", "bytes of address space", "bytes of regions", "connections", "bytes of memory", "descriptors in unread answers", "pages of pipes"}

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
	owners owners // of uids that are no user's own

	mu     sync.Mutex
	most   bill
	behind [numGoods]string // the limit that most comes from
	taken  bill
	users  map[uint32]*bill  // by the uid that pays
	over   map[uint32]int    // descriptors that users have brought beyond their share, likewise
	guests map[uint32]*guest // by uid, of those for which another one pays
}

// A guest is a uid for which another one pays. It is kept as long as it has something,
// so that what it gives back is taken off the bill that it was charged to.
type guest struct {
	payer uint32
	has   bill
}

func newShares() *shares {
	s := &shares{users: make(map[uint32]*bill), over: make(map[uint32]int), guests: make(map[uint32]*guest), owners: systemOwners()}
	maps := maxMaps()
	s.most[mappings] = maps / 4 * 3
	s.behind[mappings] = fmt.Sprintf("vm.max_map_count is %d", maps)
	files := rlimit(unix.RLIMIT_NOFILE, 1<<20)
	s.most[descriptors] = files / 4 * 3
	s.behind[descriptors] = fmt.Sprintf("ulimit -n, RLIMIT_NOFILE, is %d", files)
	s.most[addresses] = maxAddresses
	s.behind[addresses] = "a process has 128 TiB, of which clients get 64"
	if space := rlimit(unix.RLIMIT_AS, 2*maxAddresses); space < 2*maxAddresses {
		s.most[addresses] = space / 2
		s.behind[addresses] = fmt.Sprintf("ulimit -v, RLIMIT_AS, is %d bytes", space)
	}
	s.most[contents], s.behind[contents] = maxContents(os.DirFS("/"))
	s.most[connections] = maxConnections
	s.behind[connections] = fmt.Sprintf("a device serves %d", maxConnections)
	s.most[memory] = maxMemory
	s.behind[memory] = fmt.Sprintf("a device spends %d on clients", maxMemory)
	s.most[unread] = s.most[descriptors]
	s.behind[unread] = s.behind[descriptors]
	s.most[pipePages], s.behind[pipePages] = maxPipePages()
	return s
}

// take counts what is on a bill for a user, all of it, or says what the user
// cannot have.
func (s *shares) take(uid uint32, b bill) error {
	payer := s.lockFor(uid)
	defer s.mu.Unlock()
	has := s.has(payer)
	for g, n := range b {
		if free := s.most[g] - s.taken[g]; n != 0 && has[g]+n > free-n {
			return control.Errorf(control.CodeLimit, "%s has %d %s of the device's process and asks for %d more; %d of %d are free, and a user may have no more than it leaves free (%s)",
				whose(uid, payer), has[g], goodsNames[g], n, free, s.most[g], s.behind[g])
		}
	}
	s.add(uid, payer, b, 1)
	return nil
}

// owe counts descriptors that a user has already brought. It is an error if the user
// then has well more than its share: a user at the limit of its share can still make a
// request that brings a descriptor for a moment.
func (s *shares) owe(uid uint32, n int) error { return s.charge(uid, bill{descriptors: n}) }

// charge is owe for whatever is on a bill. Descriptors beyond the user's share are
// not taken from what is free for others: part of the process' own is meant for them,
// and the user gets nothing until they are closed.
func (s *shares) charge(uid uint32, b bill) error {
	payer := s.lockFor(uid)
	defer s.mu.Unlock()
	most := s.most[descriptors]
	if n := b[descriptors]; n > 0 && s.has(payer)[descriptors]+n > most-s.taken[descriptors]-n {
		s.over[payer] += n
		s.addGuest(uid, payer, bill{descriptors: n}, 1)
		b[descriptors] = 0
	}
	s.add(uid, payer, b, 1)
	if has, free := s.has(payer)[descriptors], most-s.taken[descriptors]; has > free+most/16 {
		return fmt.Errorf("%s has %d descriptors, with those that wait to be closed; %d of %d are free, and a user may have no more than it leaves free (%s)",
			whose(uid, payer), has, free, most, s.behind[descriptors])
	}
	return nil
}

func whose(uid, payer uint32) string {
	if uid == payer {
		return fmt.Sprintf("user %d", uid)
	}
	return fmt.Sprintf("user %d, to whom %s gives uid %d,", payer, subuidPath, uid)
}

// give gives back what is on a bill.
func (s *shares) give(uid uint32, b bill) {
	payer := s.lockFor(uid)
	defer s.mu.Unlock()
	if n := min(b[descriptors], s.over[payer]); n > 0 {
		if s.over[payer] -= n; s.over[payer] == 0 {
			delete(s.over, payer)
		}
		s.addGuest(uid, payer, bill{descriptors: n}, -1)
		b[descriptors] -= n
	}
	s.add(uid, payer, b, -1)
}

// has returns what a user has of everything.
func (s *shares) has(payer uint32) (b bill) {
	if u := s.users[payer]; u != nil {
		b = *u
	}
	b[descriptors] += s.over[payer]
	return b
}

// payer returns the uid that pays for a uid.
func (s *shares) payer(uid uint32) uint32 {
	defer s.mu.Unlock()
	return s.lockFor(uid)
}

// lockFor locks s and returns the uid that pays for a uid: the one that has paid so
// far, as long as there is anything to pay for. Otherwise it asks the system, without
// the lock.
func (s *shares) lockFor(uid uint32) (payer uint32) {
	s.mu.Lock()
	if payer, ok := s.known(uid); ok {
		return payer
	}
	s.mu.Unlock()
	payer = s.owners.of(uid)
	s.mu.Lock()
	if known, ok := s.known(uid); ok {
		return known
	}
	return payer
}

func (s *shares) known(uid uint32) (payer uint32, ok bool) {
	if g := s.guests[uid]; g != nil {
		return g.payer, true
	}
	return uid, s.users[uid] != nil || s.over[uid] != 0
}

func (s *shares) add(uid, payer uint32, b bill, sign int) {
	u := s.users[payer]
	if u == nil {
		u = new(bill)
		s.users[payer] = u
	}
	for g, n := range b {
		u[g] += sign * n
		s.taken[g] += sign * n
	}
	if *u == (bill{}) {
		delete(s.users, payer)
	}
	s.addGuest(uid, payer, b, sign)
}

func (s *shares) addGuest(uid, payer uint32, b bill, sign int) {
	if uid == payer {
		return
	}
	g := s.guests[uid]
	if g == nil {
		g = &guest{payer: payer}
		s.guests[uid] = g
	}
	for i, n := range b {
		g.has[i] += sign * n
	}
	if g.has == (bill{}) {
		delete(s.guests, uid)
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

// maxContents is how many bytes regions may have: what they hold beyond the memory that
// there is ends a process, and the kernel takes one that has mapped much of it.
func maxContents(root fs.FS) (most int, behind string) {
	least, behind := math.Inf(1), "the system does not say how much memory it has"
	if f := meminfo(root); len(f) > 1 && f[0] == "MemTotal:" {
		if kilobytes, err := strconv.Atoi(f[1]); err == nil {
			least, behind = float64(kilobytes)*1024, fmt.Sprintf("the system has %s kB of memory", f[1])
		}
	}
	if limit := cgroup.MemoryLimit(root); limit < least {
		least, behind = limit, fmt.Sprintf("the memory of the device's control group is limited to %.0f bytes", limit)
	}
	return int(min(least, maxAddresses)) / 4 * 3, behind
}

func meminfo(root fs.FS) []string {
	text, _ := fs.ReadFile(root, "proc/meminfo")
	return strings.Fields(string(text))
}

// maxPipePages is how many pages of pipes the kernel allows the user that the device
// runs as, all processes together: as many as it likes if it may go past limits.
func maxPipePages() (most int, behind string) {
	const unlimited = 1 << 30
	b, err := os.ReadFile("/proc/sys/fs/pipe-user-pages-soft")
	n, err2 := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil || err2 != nil || n == 0 || mayExceed() {
		return unlimited, "a device uses no more"
	}
	return n / 4 * 3, fmt.Sprintf("fs.pipe-user-pages-soft is %d", n)
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
