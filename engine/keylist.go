package engine

import "github.com/nicless/nicless/internal/control"

// lastChange returns the epoch in which k last changed, or, if it is a list,
// what it strings together. The entries are looked at once in each epoch.
func (e *Engine) lastChange(k *mkey) uint64 {
	if k.looked != e.epoch {
		k.looked = e.epoch
		for i := range k.list {
			if m := k.list[i].found; m != nil {
				k.changed = max(k.changed, m.changed)
			}
		}
	}
	return k.changed
}

// admit adds n bytes of k from addr on to l, if they are inside. need is the
// right that was asked for; k itself has been found to give it.
func (e *Engine) admit(l *list, k *mkey, addr, n uint64, need uint32) bool {
	if mem, ok := k.span(addr, n); ok {
		l.add(mem, k, 0, n)
		return true
	}
	return len(k.list) > 0 && e.admitList(l, k, addr, n, need)
}

func (e *Engine) admitList(l *list, k *mkey, addr, n uint64, need uint32) bool {
	off := addr - k.base
	if off > k.size || n > k.size-off || !e.sound(k, need) {
		return false
	}
	l.add(nil, k, off, n)
	return true
}

// sound reports whether every run of a list lies wholly in memory of the same
// domain that may be used so. It is asked for each work request: keys go away.
func (e *Engine) sound(k *mkey, need uint32) bool {
	var local uint32
	if need&(control.AccessLocalWrite|control.AccessRemoteWrite|control.AccessRemoteAtomic) != 0 {
		local = control.AccessLocalWrite
	}
	for i := range k.list {
		r := &k.list[i]
		m := e.keys.find(r.key)
		if m == nil || m.pd != k.pd || m.access&local != local {
			return false
		}
		last := r.addr + (k.rounds-1)*r.stride
		if _, ok := m.span(r.addr, r.n); !ok || last < r.addr {
			return false
		}
		if _, ok := m.span(last, r.n); !ok {
			return false
		}
		if r.found != m {
			if r.found != nil {
				e.disturb(k) // the number means other memory now
			}
			r.found = m
		}
	}
	return true
}

// listed returns bytes of a sound list from off on: at least one, and as many,
// up to n, as lie together.
func (k *mkey) listed(off, n uint64) []byte {
	round := off / k.perRound
	off %= k.perRound
	for i := range k.list {
		r := &k.list[i]
		if off < r.n {
			mem, _ := r.found.span(r.addr+round*r.stride+off, min(n, r.n-off))
			return mem
		}
		off -= r.n
	}
	panic("engine: list is shorter than its runs")
}
