//go:build linux && (amd64 || arm64)

package verbs

import (
	"slices"
	"strings"
	"sync"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// An extent is shared memory, made by the engine, that a process has mapped at addr. Each object whose
// memory is in the extent holds the extent. The last endHold frees the memory.
type extent struct {
	addr, size uint64
	mem        *shm.Region
	inode      uint64 // of mem
	holders    int    // number of holds: of objects, and of the process from NV_ALLOC to NV_FREE
	allocated  bool   // NV_ALLOC has made the extent, and NV_FREE has not freed it: the process holds it
	moved      bool   // the extent has pages that were the program's own
	payload    bool   // the extent has been registered as a memory region
	heap       bool   // the pages are in the heap of malloc: the process gets them back after the last hold
	// There is no hold, and the memory is kept for the next one: a ring whose queue is not made yet, or moved
	// pages that were registered.
	waits bool
	parts []part // of a joined extent
	m     *memory
}

// contains reports whether the n bytes from addr on are in the extent.
func (e *extent) contains(addr, n uint64) bool {
	off := addr - e.addr
	return off < e.size && n <= e.size-off
}

// overlaps reports whether some of the n bytes from addr on are in the extent.
func (e *extent) overlaps(addr, n uint64) bool { return addr < e.addr+e.size && e.addr < addr+n }

// at returns n bytes of the extent from an address on.
func (e *extent) at(addr, n uint64) []byte {
	off := addr - e.addr
	return e.mem.Bytes()[off : off+n : off+n]
}

// A memory has the extents of one process. This server asks the kernel what is mapped at an
// address. Where the server may not ask, it assumes that memory that the shim was asked to map
// there is still mapped.
type memory struct {
	engine nic.Device
	uid    uint32
	maps   *maps // nil: the kernel may not be asked

	mu      sync.Mutex
	extents []*extent
	copied  []ownRange // registered memory that stays where it is
	unused  []ownRange // pages of the heap that were moved and that nothing holds any more
	ended   bool       // the process has gone: nothing waits for a hold
}

// Limits of one process.
const (
	maxExtents = 1 << 14
	maxExtent  = 1 << 36 // bytes of one extent
	maxWaiting = 1 << 8  // extents whose field waits is set
	maxIdle    = 1 << 16 // bytes of an extent that is kept after its last hold
)

// movedName is the name of memory into which pages of a program are moved. The shim recognises
// such memory by its name.
const movedName = "remap"

// make returns memory for a process to map. The memory is not among m.extents until add is
// called.
func (m *memory) make(name string, addr, size uint64) (*extent, error) {
	switch {
	case size == 0 || size%pageSize != 0 || addr%pageSize != 0:
		return nil, refuse(eINVAL, "%s: %d bytes at %#x are not whole pages of %d", name, size, addr, pageSize)
	case size > maxExtent || addr+size < addr:
		return nil, refuse(eNOMEM, "%s: %d bytes; at most %d are possible", name, size, uint64(maxExtent))
	}
	create := m.engine.CreateMemory
	if name == movedName {
		create = m.engine.CreateSparseMemory // the program may enlarge its mapping, with realloc for example
	}
	r, err := create(m.uid, "verbs-"+name, int(size))
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(r.File().Fd()), &st); err != nil {
		m.engine.ReleaseMemory(m.uid, r)
		return nil, err
	}
	return &extent{addr: addr, size: size, mem: r, inode: st.Ino, moved: name == movedName, m: m}, nil
}

// add adds an extent, and frees the extents that overlap it and that nothing holds.
func (m *memory) add(e *extent) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.extents = slices.DeleteFunc(m.extents, func(old *extent) bool {
		drop := old.holders == 0 && old.overlaps(e.addr, e.size)
		if drop {
			m.engine.ReleaseMemory(m.uid, old.mem)
		}
		return drop
	})
	if e.waits {
		m.releaseWaiting()
	}
	if len(m.extents) >= maxExtents {
		return refuse(eNOMEM, "this process has %d pieces of shared memory, which is its limit", maxExtents)
	}
	m.extents = append(m.extents, e)
	return nil
}

// releaseWaiting frees the oldest extent that waits for a hold, if maxWaiting or more extents wait. m.mu is
// held.
func (m *memory) releaseWaiting() {
	waiting, oldest := 0, -1
	for i, e := range m.extents {
		if e.waits && e.holders == 0 {
			waiting++
			if oldest < 0 {
				oldest = i
			}
		}
	}
	if waiting >= maxWaiting {
		m.noteUnused(m.extents[oldest])
		m.engine.ReleaseMemory(m.uid, m.extents[oldest].mem)
		m.extents = slices.Delete(m.extents, oldest, oldest+1)
	}
}

// unsealed says why an extent is not used. A program can punch holes into memory that is not
// sealed, and a hole could make the engine wait in the kernel for ever.
const unsealed = "its memory is not sealed; the process that has mapped it has to seal it with F_SEAL_FUTURE_WRITE and F_SEAL_SEAL"

// find returns the extent that contains the n bytes from addr on, and takes a hold of it for the caller. It
// returns nil if no extent contains them, or if something else is mapped there now. It returns an error if
// the process has not sealed the extent.
func (m *memory) find(addr, n uint64) (*extent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.extents) - 1; i >= 0; i-- { // the newest first
		e := m.extents[i]
		if !e.contains(addr, n) {
			continue
		}
		if m.mapped(e, addr, n) {
			if !e.mem.Sealed() {
				return nil, refuse(eFAULT, "%d bytes at %#x: %s", n, addr, unsealed)
			}
			m.engine.CloseMemoryFile(m.uid, e.mem)
			e.holders++
			e.waits = false
			return e, nil
		}
	}
	return nil, nil
}

// mapped reports whether the process has mapped the extent at the n bytes from addr on.
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

// mapsSome reports whether the process still maps some of an extent. A process that is gone maps nothing.
func (m *memory) mapsSome(e *extent) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.maps != nil && m.maps.anyOf(e)
}

// taken returns an extent that is held and of which the process has mapped some of the n bytes from addr on;
// nil if there is no such extent. The mappings are read once, however many extents there are: a program can
// have thousands of both.
func (m *memory) taken(addr, n uint64) (found *extent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := make(map[uint64]*extent) // those that can be, by the inode of their memory
	for _, e := range m.extents {
		if e.holders > 0 && e.overlaps(addr, n) {
			if m.maps == nil {
				return e
			}
			held[e.inode] = e
		}
	}
	if len(held) == 0 {
		return nil
	}
	// Behind a hole nothing is looked at: the memory is refused for the hole.
	_ = m.maps.over(addr, n, func(v vma) error {
		if e := held[v.inode]; e != nil && v.start-v.offset == e.addr {
			found = e
			return errEnough
		}
		return nil
	})
	return found
}

// undoHold ends a hold that find has taken for an object that could not be made. It frees nothing: after the
// last hold, the extent waits for another one.
func (m *memory) undoHold(e *extent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.undo(e)
}

// undo is undoHold with m.mu held.
func (m *memory) undo(e *extent) {
	e.holders--
	switch {
	case e.holders > 0:
	case e.parts != nil:
		m.unjoin(e, m.undo)
	case m.ended:
		m.free(e)
	default:
		e.waits = true
	}
}

// hold takes one more hold of an extent that is held already.
func (m *memory) hold(e *extent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.holders++
}

// endHold ends a hold of an extent. After the last hold it frees the memory, or keeps it for a while.
func (m *memory) endHold(e *extent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release(e)
}

// release is endHold with m.mu held.
func (m *memory) release(e *extent) {
	e.holders--
	switch {
	case e.holders > 0:
		return
	case e.parts != nil:
		m.unjoin(e, m.release)
		return
	}
	m.noteUnused(e)
	if e.moved && e.payload && !e.heap && e.size <= maxIdle && !m.ended {
		// The pages stay mapped in the program. If they are registered again, which is common
		// for small buffers, nothing has to be moved.
		e.waits = true
		m.releaseWaiting()
		return
	}
	m.free(e)
}

// free frees the memory of an extent that nothing holds. m.mu is held.
func (m *memory) free(e *extent) {
	if i := slices.Index(m.extents, e); i >= 0 {
		m.extents = slices.Delete(m.extents, i, i+1)
	}
	m.engine.ReleaseMemory(m.uid, e.mem)
}

// noteUnused notes the pages of an extent that is about to be freed, if the process has to get them back.
func (m *memory) noteUnused(e *extent) {
	if e.heap && len(m.unused) < maxExtents {
		m.unused = append(m.unused, ownRange{e.addr, e.size})
	}
}

// allocated returns the extent that the process has made by NV_ALLOC at addr.
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

// discard frees memory that make has returned and that was not added.
func (m *memory) discard(e *extent) { m.engine.ReleaseMemory(m.uid, e.mem) }

// end is called when the process has gone. It frees every extent without an object in it.
func (m *memory) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
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

// remappable returns an error for memory that may not be remapped into shared memory,
// because the program would notice the difference. kind is needRemap or needTryRemap. Registered
// memory stays in its huge pages, which the program has for a reason.
func remappable(v vma, kind uint16) error {
	switch {
	case !strings.HasPrefix(v.perms, "rw"):
		return refuse(eFAULT, "memory at %#x is %s; it must be readable and writable", v.start, v.perms)
	case strings.HasPrefix(v.name, "/memfd:nicless:verbs-"+movedName): // an earlier extent
	case v.huge > 0 && kind == needRemap:
	case v.huge > 0:
		return refuse(eOPNOTSUPP, "memory at %#x is in huge pages", v.start)
	case v.perms[3] != 'p' || v.inode != 0:
		return refuse(eOPNOTSUPP, "memory at %#x is of %q; neither shared memory nor that of a file can be replaced", v.start, v.name)
	case strings.HasPrefix(v.name, "[stack"):
		return refuse(eOPNOTSUPP, "memory at %#x is a stack", v.start)
	}
	return nil
}
