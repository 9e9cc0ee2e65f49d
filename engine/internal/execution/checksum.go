//go:build linux && (amd64 || arm64)

package execution

import (
	"hash/crc32"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/procmem"
)

// Checksums of memory that belongs to the device, for the sanitizer. Nothing else reads memory here.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Locate adds the n bytes at an address of a key to the list l, and reports whether the key has them and
// belongs to the protection domain d. n is at least 1.
func (sh *mover) Locate(l *object.List, key uint32, d *object.PD, addr, n uint64) bool {
	k := sh.Keys.Find(key)
	return k != nil && k.PD == d && sh.admit(l, k, addr, n, 0)
}

// mostParts is in how many parts memory may be: a part of one byte takes as long as many bytes.
const mostParts = 1 << 10

// Checksum returns the CRC-32C of the next n bytes of l (trace.Checksum). ok is false if memory of a process
// cannot be read now, or if the bytes are in more than mostParts parts. Sched.Effort grows by what all that
// costs besides bytes.
func (sh *mover) Checksum(l *object.List, n uint64) (sum uint32, ok bool) {
	between := sh.Scratch.Unmapped.Between
	for parts := 0; n > 0; parts++ {
		if parts == mostParts {
			return 0, false
		}
		sh.Sched.Effort += object.PieceCost
		s := l.Peek(min(n, uint64(len(between))))
		part := s.Mem
		if s.Process != nil {
			part = between[:s.N]
			sh.Sched.Effort += CallCost
			a := &sh.Scratch.Unmapped
			a.From[1], a.To[1] = procmem.Vec{Addr: s.Addr, Len: s.N}, procmem.VecOf(part)
			if copied, _ := s.Process.Read(&a.Seen, a.To[:2], a.From[:2]); uint64(copied) < s.N {
				return 0, false
			}
		}
		sum = crc32.Update(sum, castagnoli, part)
		l.Skip(s.N)
		n -= s.N
	}
	return sum, true
}
