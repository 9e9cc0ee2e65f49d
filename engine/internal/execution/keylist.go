//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// LastChange returns the epoch in which k last changed. A change of an entry of a list
// counts as a change of the list. LastChange reads the entries once in each epoch.
func (sh *mover) LastChange(k *object.Mkey) uint64 {
	if k.Client == nil {
		return 0 // a null key
	}
	if now := sh.Epoch.Load(); k.Looked != now {
		k.Looked = now
		sh.Sched.Effort += len(k.List) * object.PieceCost / 4
		for i := range k.List {
			if m := k.List[i].Found; m != nil {
				k.Changed = max(k.Changed, m.Changed)
			}
		}
	}
	return k.Changed
}

// admit adds to the list l the n bytes of k that begin at addr, and reports whether they are inside k. need
// is the right that the access needs. The caller has checked that k gives this right.
func (sh *mover) admit(l *object.List, k *object.Mkey, addr, n uint64, need uint32) bool {
	if mem, ok := k.Span(addr, n); ok {
		l.Add(mem, k, 0, n)
		return true
	}
	if k.Process != nil && k.Holds(addr, n) {
		l.Add(nil, k, addr-k.Base, n)
		l.Unmapped = true
		return true
	}
	return len(k.List) > 0 && sh.admitList(l, k, addr, n, need)
}

func (sh *mover) admitList(l *object.List, k *object.Mkey, addr, n uint64, need uint32) bool {
	off := addr - k.Base
	if off > k.Size || n > k.Size-off || !sh.Sound(k, need) {
		return false
	}
	l.Add(nil, k, off, n)
	l.Unmapped = l.Unmapped || k.Unmapped
	return true
}

// Sound reports whether every run of the list k is wholly inside memory of k's protection domain and, if
// need is a right to write, whether that memory's key gives local write. Sound is called for each work
// request, because the keys of the entries may be destroyed between two work requests.
func (sh *mover) Sound(k *object.Mkey, need uint32) bool {
	var local uint32
	if need&(control.AccessLocalWrite|control.AccessRemoteWrite|control.AccessRemoteAtomic) != 0 {
		local = control.AccessLocalWrite
	}
	sh.Sched.Effort += len(k.List) * object.PieceCost
	k.Unmapped = false
	for i := range k.List {
		r := &k.List[i]
		m := sh.Keys.Find(r.Key)
		if m == nil || m.PD != k.PD || m.Access&local != local {
			return false
		}
		last := r.Addr + (k.Rounds-1)*r.Stride
		if last < r.Addr || !m.Holds(r.Addr, r.N) || !m.Holds(last, r.N) {
			return false
		}
		k.Unmapped = k.Unmapped || m.Process != nil
		if r.Found != m {
			if r.Found != nil {
				sh.InvalidateJobs(k) // the entry's key names other memory now
			}
			r.Found = m
		}
	}
	return true
}

// InvalidateJobs makes every transfer that uses k's memory be checked again before the
// transfer touches another byte.
func (sh *mover) InvalidateJobs(k *object.Mkey) {
	sh.recallTasks(nil, k, nil)
	k.Changed = sh.Epoch.Add(1)
}
