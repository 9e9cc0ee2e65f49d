//go:build linux && (amd64 || arm64)

package engine

import "github.com/nicless/nicless/internal/control"

// lastChange returns the epoch in which k last changed. A change of an entry of a list
// counts as a change of the list. lastChange reads the entries once in each epoch.
func (sh *mover) lastChange(k *mkey) uint64 {
	if k.client == nil {
		return 0 // a null key
	}
	if now := sh.epoch.Load(); k.looked != now {
		k.looked = now
		sh.sched.effort += len(k.list) * pieceCost / 4
		for i := range k.list {
			if m := k.list[i].found; m != nil {
				k.changed = max(k.changed, m.changed)
			}
		}
	}
	return k.changed
}

// admit adds to the list l the n bytes of k that begin at addr, and reports whether they are
// inside k. need is the right that the access needs. The caller has checked that k gives this
// right.
func (sh *mover) admit(l *list, k *mkey, addr, n uint64, need uint32) bool {
	if mem, ok := k.span(addr, n); ok {
		l.add(mem, k, 0, n)
		return true
	}
	if k.process != nil && k.holds(addr, n) {
		l.add(nil, k, addr-k.base, n)
		l.unmapped = true
		return true
	}
	return len(k.list) > 0 && sh.admitList(l, k, addr, n, need)
}

func (sh *mover) admitList(l *list, k *mkey, addr, n uint64, need uint32) bool {
	off := addr - k.base
	if off > k.size || n > k.size-off || !sh.sound(k, need) {
		return false
	}
	l.add(nil, k, off, n)
	l.unmapped = l.unmapped || k.unmapped
	return true
}

// sound reports whether every run of the list k is wholly inside memory of k's protection
// domain and, if need is a right to write, whether that memory's key gives local write. sound
// is called for each work request, because the keys of the entries may be destroyed between
// two work requests.
func (sh *mover) sound(k *mkey, need uint32) bool {
	var local uint32
	if need&(control.AccessLocalWrite|control.AccessRemoteWrite|control.AccessRemoteAtomic) != 0 {
		local = control.AccessLocalWrite
	}
	sh.sched.effort += len(k.list) * pieceCost
	k.unmapped = false
	for i := range k.list {
		r := &k.list[i]
		m := sh.keys.find(r.key)
		if m == nil || m.pd != k.pd || m.access&local != local {
			return false
		}
		last := r.addr + (k.rounds-1)*r.stride
		if last < r.addr || !m.holds(r.addr, r.n) || !m.holds(last, r.n) {
			return false
		}
		k.unmapped = k.unmapped || m.process != nil
		if r.found != m {
			if r.found != nil {
				sh.invalidateJobs(k) // the entry's key names other memory now
			}
			r.found = m
		}
	}
	return true
}

// A spot is a place in a list: off bytes into one of its runs, in one of its rounds.
type spot struct {
	run   int
	round uint64
	off   uint64
}

// seek returns the spot that is off bytes from the beginning of a sound list.
func (k *mkey) seek(off uint64) (s spot) {
	s.round, s.off = off/k.perRound, off%k.perRound
	for s.off >= k.list[s.run].n {
		s.off -= k.list[s.run].n
		s.run++
	}
	return s
}

// bytes returns the bytes at a spot of a sound list: as many as are contiguous, at least
// one and at most n.
func (k *mkey) bytes(s spot, n uint64) []byte {
	r := &k.list[s.run]
	mem, _ := r.found.span(r.addr+s.round*r.stride+s.off, min(n, r.n-s.off))
	return mem
}

// advance moves the spot s forward by n bytes. At least n bytes must be contiguous at s.
func (k *mkey) advance(s *spot, n uint64) {
	if len(k.list) == 0 {
		return // unmapped memory of a process, which has no spots
	}
	if s.off += n; s.off < k.list[s.run].n {
		return
	}
	s.off = 0
	if s.run++; s.run == len(k.list) {
		s.run = 0
		s.round++
	}
}
