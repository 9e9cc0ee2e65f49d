//go:build linux && (amd64 || arm64)

package engine

import (
	"syscall"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// Transfers to and from unmapped memory: memory of a process that the device has not
// mapped, and that the kernel copies. A key of such memory has an address and no bytes in
// the device's mapping. So the fast path finds no bytes under the key and leaves the WQE to
// the slow path.

// callCost is how many bytes of a visit's budget one system call uses up, in addition to the
// bytes that the call copies.
const callCost = 16 << 10

// One call copies at most unmappedBytes, in at most unmappedPieces pieces. If the budget still
// has at least half of unmappedBytes, a transfer may copy all of unmappedBytes, because the
// call itself takes a good part of the time. Then the budget is overdrawn, and the client's
// next turn comes later.
const (
	unmappedBytes  = 128 << 10
	unmappedPieces = 32
)

// An unmappedScratch is private memory of the device for transfers of unmapped memory.
type unmappedScratch struct {
	from, to [1 + unmappedPieces]procmem.Vec // the first Vec is for the guard
	between  []byte                          // holds bytes on the way between two processes; nil until a client shares its process
	seen     guardSeen
	touched  byte
}

// A stretch is contiguous bytes, either in the device's mapping or unmapped.
type stretch struct {
	mem     []byte
	process *process // nil: the bytes are mapped
	addr    uint64   // if process is not nil: address of the bytes in that process
	n       uint64
}

// aligned reports whether the stretch is a word of size bytes at a multiple of size.
func (s *stretch) aligned(size int) bool {
	if s.n != uint64(size) {
		return false
	}
	if s.process != nil {
		return s.addr%s.n == 0
	}
	return shm.Aligned(s.mem)
}

// holds reports whether the n bytes that begin at addr are inside the key's own memory,
// mapped or unmapped. A list has no memory of its own.
func (k *mkey) holds(addr, n uint64) bool {
	if k.process == nil {
		_, ok := k.span(addr, n)
		return ok
	}
	off := addr - k.base
	return off <= k.size && n <= k.size-off
}

// stretch returns the n bytes of the key that begin at addr. The key must hold them.
func (k *mkey) stretch(addr, n uint64) stretch {
	if k.process != nil {
		return stretch{process: k.process, addr: k.from + (addr - k.base), n: n}
	}
	mem, _ := k.span(addr, n)
	return stretch{mem: mem, n: n}
}

// peek returns the next contiguous bytes of the list, at least one and at most n, and does not
// advance. It is the method next for lists with unmapped memory.
func (l *list) peek(n uint64) stretch {
	for l.off == l.piece[l.at].n {
		l.at++
		l.off = 0
	}
	p := &l.piece[l.at]
	n = min(n, p.n-l.off)
	switch {
	case p.mem != nil:
		return stretch{mem: p.mem[l.off:][:n], n: n}
	case p.key.process != nil:
		return stretch{process: p.key.process, addr: p.key.from + p.off + l.off, n: n}
	}
	if l.off == 0 {
		l.spot = p.key.seek(p.off)
	}
	r, s := &p.key.list[l.spot.run], l.spot
	return r.found.stretch(r.addr+s.round*r.stride+s.off, min(n, r.n-s.off))
}

// collect fills vecs with the next stretches of the list, of at most n bytes together.
// These stretches are all mapped or all of one process; collect stops before any other
// stretch. first is the first stretch. The list's position does not change.
func (l *list) collect(vecs []procmem.Vec, n uint64) (first stretch, used []procmem.Vec, total uint64) {
	at, off, spot := l.at, l.off, l.spot
	for total < n && len(used) < len(vecs) {
		s := l.peek(n - total)
		if total == 0 {
			first = s
		} else if s.process != first.process {
			break
		}
		used = vecs[:len(used)+1]
		used[len(used)-1] = procmem.Vec{Addr: s.addr, Len: s.n}
		if s.process == nil {
			used[len(used)-1] = procmem.VecOf(s.mem)
		}
		total += s.n
		l.advance(int(s.n))
	}
	l.at, l.off, l.spot = at, off, spot
	return first, used, total
}

// skip advances the list's position by n bytes. It takes a step for each piece of the WQE, not for each
// run of a list: a message under way may have a billion runs of one byte.
func (l *list) skip(n uint64) {
	for n > 0 {
		p := &l.piece[l.at]
		if l.off == p.n {
			l.at++
			l.off = 0
			continue
		}
		k := min(n, p.n-l.off)
		l.off += k
		n -= k
		if p.mem == nil && len(p.key.list) > 0 && l.off < p.n {
			l.spot = p.key.seek(p.off + l.off)
		}
	}
}

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

// A gap is memory of a process that could not be reached.
type gap struct {
	process *process
	addr    uint64
	errno   syscall.Errno
	source  bool // true: the memory is in the job's source; false: in its destination
	write   bool // true: the memory was to be written; false: it was to be read
}

// moveUnmapped is job.move for a job with unmapped memory. If such memory could not be
// reached, the verdict is failed or lost.
func (sh *executor) moveUnmapped(q *qp, j *job, budget int) (used int, v verdict) {
	for (used < budget || j.moved < indivisible) && j.moved < j.total {
		most := uint64(max(budget-used, indivisible))
		if most >= unmappedBytes/2 {
			most = unmappedBytes
		}
		n, cost, gap := sh.copyUnmapped(j, min(most, j.total-j.moved, unmappedBytes))
		used += cost
		if n == 0 {
			return used, sh.unreachable(q, j, gap)
		}
		j.src.skip(n)
		j.dst.skip(n)
		j.moved += n
	}
	return used, accepted
}

// copyUnmapped copies up to n bytes of a job, and returns how many it has copied. A missing
// page cuts the copy short. The next copy begins with that page, so it copies nothing and
// returns the page as g.
func (sh *mover) copyUnmapped(j *job, n uint64) (copied uint64, cost int, g gap) {
	a := &sh.scratch.unmapped
	src, from, n := j.src.collect(a.from[1:], n)
	dst, to, n := j.dst.collect(a.to[1:], n)
	from, to = a.from[:1+len(firstOf(from, n))], a.to[:1+len(to)]
	k, errno := 0, syscall.Errno(0)
	cost = int(n) + callCost
	switch {
	case src.process == nil && dst.process == nil:
		k = copy(dst.mem, src.mem)
		return uint64(k), max(k, pieceCost), g
	case dst.process == nil:
		if k, errno = src.process.read(&a.seen, to, from); k == 0 {
			a.touched = dst.mem[0] // if the missing page is on the mapped side, this load faults
			g = gap{src.process, src.addr, errno, true, false}
		}
	case src.process == nil:
		if k, errno = dst.process.write(from, to); k == 0 {
			a.touched = src.mem[0]
			g = gap{dst.process, dst.addr, errno, false, true}
		}
	default:
		cost *= 2
		between := [2]procmem.Vec{1: procmem.VecOf(a.between[:n])}
		if k, errno = src.process.read(&a.seen, between[:], from); k == 0 {
			return 0, cost, gap{src.process, src.addr, errno, true, false}
		}
		between[1].Len = uint64(k)
		if k, errno = dst.process.write(between[:], to[:1+len(firstOf(to[1:], uint64(k)))]); k == 0 {
			g = gap{dst.process, dst.addr, errno, false, true}
		}
	}
	return uint64(k), cost, g
}

// updateUnmapped is update for an unmapped word: it reads, changes and writes the word.
// This is atomic with respect to all accesses through this device, and to no other
// accesses, as IBV_ATOMIC_HCA says.
func (sh *requester) updateUnmapped(op wqe.Opcode, at stretch, operand []byte) (old uint64, g gap, ok bool) {
	a := &sh.scratch.unmapped
	sh.sched.effort += 2 * callCost
	word := a.between[:at.n]
	a.from[1], a.to[1] = procmem.Vec{Addr: at.addr, Len: at.n}, procmem.VecOf(word)
	if n, errno := at.process.read(&a.seen, a.to[:2], a.from[:2]); n != len(word) {
		return 0, gap{at.process, at.addr, errno, true, false}, false
	}
	old, _ = sh.update(op, word, operand) // the word is private here
	if n, errno := at.process.write(a.to[:2], a.from[:2]); n != len(word) {
		return 0, gap{at.process, at.addr, errno, true, true}, false
	}
	return old, gap{}, true
}

// unreachable ends a WQE whose memory could not be reached. If the memory is local, the WQE
// fails as with a bad local key.
func (sh *requester) unreachable(q *qp, j *job, g gap) verdict {
	if j.peer != nil && g.source == j.reads() {
		return sh.answered(q, j, sh.unreachableHere(q, j, g))
	}
	why := g.why()
	sh.explain(q, why.code, "%v: %s", j.head.opcode(), why)
	return sh.fail(q, j, cqe.LocalProtection)
}

// unreachableHere returns the answer for memory of the responder that could not be reached.
// It is the answer for a bad remote key or for a bad receive.
func (sh *responder) unreachableHere(q *qp, j *job, g gap) answer {
	why := g.why()
	p, r := j.peer, &j.request
	taken := j.recv && !r.op.Info().Raddr
	if s := (subject{j.owner(), p.num, j.index, control.OfReceive, nil}); taken {
		sh.say(s, why.code, "receive %d: %s", []any{j.index, why})
	} else {
		sh.explainResponder(j, why.code, "%v of peer QP %#06x: %s", r.op, r.fromQPN, why)
	}
	if q != nil && j.owner() != q.client {
		sh.explain(q, why.code, "%v: memory of peer QP %#06x cannot be reached; its owner is told why", r.op, p.num)
	}
	if taken {
		return sh.endReceive(j, cqe.LocalProtection, answerOperation)
	}
	return sh.refuseRequest(p, control.EventAccessError, answerRemoteAccess)
}

// why explains which access was not possible.
func (g gap) why() reason {
	what := "read"
	if g.write {
		what = "written"
	}
	return because(codes.ProcessMemory, "memory at %#x of process %d cannot be %s: %s", g.addr, g.process.pid, what, g.process.why(g.errno, g.write))
}
