//go:build linux && (amd64 || arm64)

package object

import (
	"github.com/nicless/nicless/engine/internal/rights"
	"github.com/nicless/nicless/internal/control"
)

// Seek returns the spot that is off bytes from the beginning of a sound list.
func (k *Mkey) Seek(off uint64) (s spot) {
	s.round, s.off = off/k.PerRound, off%k.PerRound
	for s.off >= k.List[s.run].N {
		s.off -= k.List[s.run].N
		s.run++
	}
	return s
}

// Bytes returns the bytes at a spot of a sound list: as many as are contiguous, at least
// one and at most n.
func (k *Mkey) Bytes(s spot, n uint64) []byte {
	r := &k.List[s.run]
	mem, _ := r.Found.Span(r.Addr+s.round*r.Stride+s.off, min(n, r.N-s.off))
	return mem
}

// Advance moves the spot s forward by n bytes. At least n bytes must be contiguous at s.
func (k *Mkey) Advance(s *spot, n uint64) {
	if len(k.List) == 0 {
		return // unmapped memory of a process, which has no spots
	}
	s.off += n
	if s.off < k.List[s.run].N {
		return
	}
	s.off = 0
	s.run++
	if s.run == len(k.List) {
		s.run = 0
		s.round++
	}
}

// CheckRights refuses rights of registered memory that make no sense.
func (k *Mkey) CheckRights() error {
	switch {
	case k.Access&^(control.AccessAll|control.AccessRelaxedOrdering) != 0:
		return rights.Unknown("memory region", k.Access)
	case k.Access&(control.AccessRemoteWrite|control.AccessRemoteAtomic) != 0 &&
		k.Access&control.AccessLocalWrite == 0:
		return control.Errorf(control.CodeInvalid, "memory region: access %s lacks local write, which remote write and remote atomic need", rights.Names(k.Access))
	}
	return nil
}

func (k *Mkey) Domain() *PD {
	if k.Window != nil {
		return k.Window.PD
	}
	return k.PD
}

// Bind binds the window to the memory of the key on. If on is nil, it unbinds the window.
func (w *Window) Bind(on *Mkey) {
	if w.Parent != nil {
		w.Parent.Windows--
	}
	w.Parent = on
	if on != nil {
		on.Windows++
	}
}

// Release closes a window or empties a list. From then on the key gives no access.
func (k *Mkey) Release() {
	k.Free, k.Mem, k.Process, k.List, k.Size = true, nil, nil, k.List[:0], 0
	if k.Window != nil {
		k.Window.QPN, k.Window.Serial = 0, 0
		k.Window.Bind(nil)
	}
}
