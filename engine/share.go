package engine

import (
	"bytes"
	"os"
	"strconv"
	"sync"

	"github.com/nicless/nicless/internal/control"
	"golang.org/x/sys/unix"
)

// What the engine's process can have of the system's scarce things, and who has
// how much of it. A client's own limits do not help when a user opens many
// clients: so each user may have half of what there is, and a quarter is left
// for the process itself.

// A goods is a scarce thing.
type goods int

const (
	mappings    goods = iota // of memory, vm.max_map_count
	descriptors              // of files, RLIMIT_NOFILE
	numGoods
)

var goodsNames = [numGoods]string{"mappings", "descriptors"}

// What a client needs to exist: two pages, and a connection beside them.
var clientGoods = [numGoods]int{mappings: 2, descriptors: 3}

// shares counts what users have. Safe for concurrent use: memory is mapped and
// unmapped on the goroutines of connections.
type shares struct {
	mu    sync.Mutex
	most  [numGoods]int
	taken [numGoods]int
	users map[uint32]*[numGoods]int // by uid
}

func newShares() *shares {
	s := &shares{users: make(map[uint32]*[numGoods]int)}
	s.most[mappings] = maxMaps() / 4 * 3
	s.most[descriptors] = maxFiles() / 4 * 3
	return s
}

// take counts n of g for a user, or says why he cannot have them.
func (s *shares) take(uid uint32, g goods, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[uid]
	if u == nil {
		u = new([numGoods]int)
	}
	switch {
	case u[g]+n > s.most[g]/2:
		return control.Errorf(control.CodeLimit, "user %d has %d %s of the device's process; one user may have %d", uid, u[g], goodsNames[g], s.most[g]/2)
	case s.taken[g]+n > s.most[g]:
		return control.Errorf(control.CodeLimit, "all users together have %d %s of the device's process; %d are possible", s.taken[g], goodsNames[g], s.most[g])
	}
	u[g] += n
	s.users[uid] = u
	s.taken[g] += n
	return nil
}

// give gives n of g back.
func (s *shares) give(uid uint32, g goods, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[uid]
	u[g] -= n
	s.taken[g] -= n
	if *u == [numGoods]int{} {
		delete(s.users, uid)
	}
}

// takeAll takes several goods, or none.
func (s *shares) takeAll(uid uint32, list [numGoods]int) error {
	for g, n := range list {
		if err := s.take(uid, goods(g), n); err != nil {
			for done := range g {
				s.give(uid, goods(done), list[done])
			}
			return err
		}
	}
	return nil
}

func (s *shares) giveAll(uid uint32, list [numGoods]int) {
	for g, n := range list {
		s.give(uid, goods(g), n)
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

func maxFiles() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 1024
	}
	return int(min(r.Cur, 1<<20))
}
