//go:build linux && (amd64 || arm64)

package roce

import (
	"math"
	"sync"
	"time"
)

// screenQuiet is how long no address must have become known until the kernel drops packets of connections
// from addresses that its programs do not know. Programs that do not know all known addresses become no
// older.
const screenQuiet = time.Second

// A screening decides when the kernel is given new programs. The time to make one grows with the addresses
// that it knows. A program for each address that becomes known would take time with the square of their
// number while all hosts of a rack connect with each other.
//
// So the first address after a quiet time gets a program at once. The second makes the programs open: they
// take packets of connections from any address, and an address that they do not know is served as a
// stranger's. So an address that becomes known needs no program of its own. The kernel gets an open program
// when as many addresses have become known as since the programs are open, or when the last one is
// screenQuiet old; and after a quiet time one that is not open.
type screening struct {
	mu sync.Mutex // held while the kernel is given programs

	known    uint64    // table.newcomers when the kernel was given programs last
	at       time.Time // when that was
	open     bool      // these programs are open
	enough   uint64    // if so: how many addresses that they do not know are a reason for new ones
	programs uint64    // how often the kernel was given programs
}

// decide returns whether the kernel needs new programs, of which open says whether they are open, and notes
// that it gets them. newcomers is how many addresses have become known. The caller holds mu.
func (s *screening) decide(newcomers uint64, now time.Time) (needed bool) {
	fresh, quiet := newcomers-s.known, now.Sub(s.at) >= screenQuiet
	switch {
	case fresh == 0:
		if !s.open || !quiet {
			return false
		}
		s.open = false
	case s.open:
		if fresh < s.enough && !quiet {
			return false
		}
		s.enough = min(2*s.enough, math.MaxUint16)
	case !quiet:
		s.open, s.enough = true, 1
	}
	s.known, s.at = newcomers, now
	s.programs++
	return true
}

// wait returns how long it is until decide has to be called although no address has become known; 0: it has
// not.
func (s *screening) wait(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return 0
	}
	return max(screenQuiet-now.Sub(s.at), time.Millisecond)
}
