//go:build linux && (amd64 || arm64)

package execution

import (
	"syscall"

	"github.com/nicless/nicless/engine/internal/atomics"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/wqe"
)

// Transfers to and from unmapped memory: memory of a process that the device has not
// mapped, and that the kernel copies. A key of such memory has an address and no bytes in
// the device's mapping. So the fast path finds no bytes under the key and leaves the WQE to
// the slow path.

const (
	// CallCost is how many bytes of a visit's budget one system call uses up, in addition to the
	// bytes that the call copies.
	CallCost = 16 << 10

	UnmappedBytes = 128 << 10
)

// firstOf cuts vecs to their first n bytes.
func firstOf(vecs []procmem.Vec, n uint64) []procmem.Vec {
	for i := range vecs {
		if v := &vecs[i]; v.Len >= n {
			v.Len = n
			return vecs[:i+1]
		}
		n -= vecs[i].Len
	}
	return vecs
}

// copyUnmapped copies up to n bytes of a job, and returns how many it has copied. A missing
// page cuts the copy short. The next copy begins with that page, so it copies nothing and
// returns the page as g.
func (sh *mover) copyUnmapped(j *object.Job, n uint64) (copied uint64, cost int, g object.Gap) {
	a := &sh.Scratch.Unmapped
	src, from, n := j.Src.Collect(a.From[1:], n)
	dst, to, n := j.Dst.Collect(a.To[1:], n)
	from, to = a.From[:1+len(firstOf(from, n))], a.To[:1+len(to)]
	k, errno := 0, syscall.Errno(0)
	cost = int(n) + CallCost
	switch {
	case src.Process == nil && dst.Process == nil:
		k = copy(dst.Mem, src.Mem)
		return uint64(k), max(k, object.PieceCost), g
	case dst.Process == nil:
		if k, errno = src.Process.Read(&a.Seen, to, from); k == 0 {
			a.Touched = dst.Mem[0] // if the missing page is on the mapped side, this load faults
			g = src.Gap(errno, true, false)
		}
	case src.Process == nil:
		if k, errno = dst.Process.Write(from, to); k == 0 {
			a.Touched = src.Mem[0]
			g = dst.Gap(errno, false, true)
		}
	default:
		cost *= 2
		between := [2]procmem.Vec{1: procmem.VecOf(a.Between[:n])}
		if k, errno = src.Process.Read(&a.Seen, between[:], from); k == 0 {
			return 0, cost, src.Gap(errno, true, false)
		}
		between[1].Len = uint64(k)
		if k, errno = dst.Process.Write(between[:], to[:1+len(firstOf(to[1:], uint64(k)))]); k == 0 {
			g = dst.Gap(errno, false, true)
		}
	}
	return uint64(k), cost, g
}

// updateUnmapped is update for an unmapped word: it reads, changes and writes the word.
// This is atomic with respect to all accesses through this device, and to no other
// accesses, as IBV_ATOMIC_HCA says.
func (sh *requester) updateUnmapped(op wqe.Opcode, at object.Stretch,
	operand []byte) (old uint64, g object.Gap, ok bool) {
	a := &sh.Scratch.Unmapped
	sh.Sched.Effort += 2 * CallCost
	word := a.Between[:at.N]
	a.From[1], a.To[1] = procmem.Vec{Addr: at.Addr, Len: at.N}, procmem.VecOf(word)
	if n, errno := at.Process.Read(&a.Seen, a.To[:2], a.From[:2]); n != len(word) {
		return 0, at.Gap(errno, true, false), false
	}
	old, _ = atomics.Update(op, word, operand) // the word is private here
	if n, errno := at.Process.Write(a.To[:2], a.From[:2]); n != len(word) {
		return 0, at.Gap(errno, true, true), false
	}
	return old, object.Gap{}, true
}
