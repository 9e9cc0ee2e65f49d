package verbs

import (
	"slices"
	"strings"
	"sync"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// An extent is memory of ours that a process has mapped at addr. It lives as
// long as somebody holds it.
type extent struct {
	addr, size uint64
	mem        *shm.Region
	inode      uint64
	holders    int  // objects, and the process itself while it has allocated it
	allocated  bool // the process has, and holds it
	waits      bool // was asked for, and nobody has held it yet: a ring before its queue
	m          *memory
}

func (e *extent) holds(addr, n uint64) bool {
	off := addr - e.addr
	return off < e.size && n <= e.size-off
}

func (e *extent) overlaps(addr, n uint64) bool { return addr < e.addr+e.size && e.addr < addr+n }

// at returns the bytes at an address that the extent holds.
func (e *extent) at(addr, n uint64) []byte {
	off := addr - e.addr
	return e.mem.Bytes()[off : off+n : off+n]
}

// A memory is the extents of one process. What the kernel says about its mappings
// decides what lies where; where we may not ask, what we were told.
type memory struct {
	engine *engine.Engine
	uid    uint32
	maps   *maps // nil: unknown

	mu      sync.Mutex
	extents []*extent
}

// Limits of one process.
const (
	maxExtents = 1 << 14
	maxExtent  = 1 << 36 // bytes of one
	maxWaiting = 1 << 8
)

// make returns new memory for a process to map; it is not among its extents yet.
func (m *memory) make(name string, addr, size uint64) (*extent, error) {
	switch {
	case size == 0 || size%pageSize != 0 || addr%pageSize != 0:
		return nil, refuse(eINVAL, "%s: %d bytes at %#x are not whole pages of %d", name, size, addr, pageSize)
	case size > maxExtent || addr+size < addr:
		return nil, refuse(eNOMEM, "%s: %d bytes; at most %d are possible", name, size, uint64(maxExtent))
	}
	r, err := m.engine.CreateMemory(m.uid, "verbs-"+name, int(size))
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(r.File().Fd()), &st); err != nil {
		m.engine.ReleaseMemory(m.uid, r)
		return nil, err
	}
	return &extent{addr: addr, size: size, mem: r, inode: st.Ino, m: m}, nil
}

// add puts an extent in place: what nobody holds there gives way.
func (m *memory) add(e *extent) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.extents = slices.DeleteFunc(m.extents, func(o *extent) bool {
		drop := o.holders == 0 && o.overlaps(e.addr, e.size)
		if drop {
			m.engine.ReleaseMemory(m.uid, o.mem)
		}
		return drop
	})
	if e.waits {
		m.forgetWaiting()
	}
	if len(m.extents) >= maxExtents {
		return refuse(eNOMEM, "this process has %d pieces of shared memory, which is its limit", maxExtents)
	}
	m.extents = append(m.extents, e)
	return nil
}

// forgetWaiting lets go of the oldest of too many that never came to be used.
func (m *memory) forgetWaiting() {
	n, oldest := 0, -1
	for i, e := range m.extents {
		if e.waits && e.holders == 0 {
			if n++; oldest < 0 {
				oldest = i
			}
		}
	}
	if n >= maxWaiting {
		m.engine.ReleaseMemory(m.uid, m.extents[oldest].mem)
		m.extents = slices.Delete(m.extents, oldest, oldest+1)
	}
}

// unsealed says why memory is not used that a program can punch holes into: that could
// make the engine wait in the kernel, for ever.
const unsealed = "its memory is not sealed; who has mapped it seals it with F_SEAL_FUTURE_WRITE and F_SEAL_SEAL"

// find returns the extent that n bytes from addr on lie in, and holds it; nil if
// there is none, or if something else is mapped there now. It is an error if the
// process has not sealed it.
func (m *memory) find(addr, n uint64) (*extent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.extents) - 1; i >= 0; i-- { // the newest counts
		e := m.extents[i]
		if !e.holds(addr, n) {
			continue
		}
		if m.mapped(e, addr, n) {
			if !e.mem.Sealed() {
				return nil, refuse(eFAULT, "%d bytes at %#x: %s", n, addr, unsealed)
			}
			m.engine.ForgetMemory(m.uid, e.mem)
			e.holders++
			e.waits = false
			return e, nil
		}
	}
	return nil, nil
}

// mapped reports whether the process has these bytes of an extent mapped where
// they belong.
func (m *memory) mapped(e *extent, addr, n uint64) bool {
	if m.maps == nil {
		return true
	}
	return m.maps.over(addr, n, func(v vma) error {
		if v.inode != e.inode || v.start-v.offset != e.addr {
			return refuse(eFAULT, "something else is mapped at %#x", v.start)
		}
		return nil
	}) == nil
}

// taken returns an extent that somebody holds and that overlaps a range.
func (m *memory) taken(addr, n uint64) *extent {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.extents {
		if e.holders > 0 && e.overlaps(addr, n) && m.mapped(e, max(addr, e.addr), pageSize) {
			return e
		}
	}
	return nil
}

// putBack is the end of a find by somebody who made nothing of it: the memory
// waits on.
func (m *memory) putBack(e *extent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.holders--; e.holders == 0 {
		e.waits = true
	}
}

// letGo is the end of a find, and of the memory if nobody else holds it.
func (m *memory) letGo(e *extent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.holders--; e.holders > 0 {
		return
	}
	if i := slices.Index(m.extents, e); i >= 0 {
		m.extents = slices.Delete(m.extents, i, i+1)
	}
	m.engine.ReleaseMemory(m.uid, e.mem)
}

// allocated returns the extent that a process has allocated at addr.
func (m *memory) allocated(addr, size uint64) *extent {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.extents) - 1; i >= 0; i-- {
		if e := m.extents[i]; e.addr == addr && e.size == size && e.allocated {
			return e
		}
	}
	return nil
}

// discard gives memory back that was never put in place.
func (m *memory) discard(e *extent) { m.engine.ReleaseMemory(m.uid, e.mem) }

// end lets go of everything that no object holds.
func (m *memory) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.extents = slices.DeleteFunc(m.extents, func(e *extent) bool {
		if e.allocated {
			e.allocated = false
			e.holders--
		}
		if e.holders == 0 {
			m.engine.ReleaseMemory(m.uid, e.mem)
		}
		return e.holders == 0
	})
	m.maps.close()
	m.maps = nil
}

// remappable says why memory may not be put into shared memory: it would mean
// something else then.
func remappable(v vma) error {
	switch {
	case !strings.HasPrefix(v.perms, "rw"):
		return refuse(eFAULT, "memory at %#x is %s; it must be readable and writable", v.start, v.perms)
	case strings.HasPrefix(v.name, "/memfd:nicless:verbs-"): // ours, whose user is gone
	case v.perms[3] != 'p' || v.inode != 0:
		return refuse(eOPNOTSUPP, "memory at %#x is of %q, and shared", v.start, v.name)
	case strings.HasPrefix(v.name, "[stack"):
		return refuse(eOPNOTSUPP, "memory at %#x is a stack", v.start)
	}
	return nil
}
