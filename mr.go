package nicless

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// Access is the set of rights of a key. The owner may always read.
type Access uint32

// Rights of a key. RemoteWrite and RemoteAtomic need LocalWrite.
const (
	LocalWrite   = Access(control.AccessLocalWrite)
	RemoteWrite  = Access(control.AccessRemoteWrite)
	RemoteRead   = Access(control.AccessRemoteRead)
	RemoteAtomic = Access(control.AccessRemoteAtomic)
	// MWBind allows memory windows to be bound to the memory.
	MWBind = Access(control.AccessMWBind)
	// ZeroBased makes work requests name the memory by offsets from 0 rather than by
	// addresses.
	ZeroBased = Access(control.AccessZeroBased)

	// FullAccess is every right of peers and owner except MWBind. Work requests name the
	// memory by its addresses.
	FullAccess = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic
)

// String returns the names, such as "LocalWrite|RemoteRead".
func (a Access) String() string {
	if a == 0 {
		return "none"
	}
	var s []string
	for _, r := range []struct {
		right Access
		name  string
	}{
		{LocalWrite, "LocalWrite"}, {RemoteWrite, "RemoteWrite"}, {RemoteRead, "RemoteRead"},
		{RemoteAtomic, "RemoteAtomic"}, {MWBind, "MWBind"}, {ZeroBased, "ZeroBased"},
	} {
		if a&r.right != 0 {
			s, a = append(s, r.name), a&^r.right
		}
	}
	if a != 0 {
		s = append(s, fmt.Sprintf("%#x", uint32(a)))
	}
	return strings.Join(s, "|")
}

// An MR is a registered memory region: bytes that work requests may name by a key.
type MR struct {
	pd     *PD
	mem    []byte
	off    int // offset of mem in the memory that RegisterMemory made
	addr   uint64
	key    uint32
	parent *MR // the MR that RegisterMemory made; nil in that MR

	// These four are set only in the MR that RegisterMemory made. whole is kept here because a
	// Close of the context can take the bytes away from region at any time.
	region *shm.Region
	id     uint32 // the device's number of region
	whole  []byte // the bytes of region, as many as RegisterMemory was asked for
	base   uint64 // address of whole

	closed atomic.Bool

	// These two are used only in the MR that RegisterMemory made.
	mu    sync.Mutex // held while a key to the memory is made, changed or closed
	parts int        // number of further keys to this memory
}

// maxMemory is the most bytes that one RegisterMemory can allocate.
const maxMemory = 1 << 40

// RegisterMemory allocates size bytes of zeroed shared memory and registers them. Memory
// that the program already has cannot be registered, because the device, which may be in
// another process, could not map it. size is 1 to 1<<40. Pages are allocated when they are
// first touched.
func (p *PD) RegisterMemory(size int, access Access) (*MR, error) {
	const what = "register memory"
	if err := p.usable(what); err != nil {
		return nil, err
	}
	c := p.ctx
	if err := c.err(); err != nil {
		return nil, wrap(what, err)
	}
	if size < 1 || uint64(size) > maxMemory {
		return nil, wrap(what, control.Errorf(control.CodeInvalid, "%d bytes; 1 to %d are possible", size, uint64(maxMemory)))
	}
	r, id, err := c.newRegion(what, size)
	if err != nil {
		return nil, err
	}
	whole := r.Bytes()[:size:size]
	m := &MR{pd: p, mem: whole, region: r, id: id, whole: whole, base: r.Addr()}
	keep(m, r)
	if err := m.register(what, m.base, access); err != nil {
		_, _ = c.call(what, control.OpDropRegion, &control.RegionID{ID: id}, &control.Empty{})
		_ = r.Close()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() { // Close may have read c.memory already
		return nil, wrap(what, errors.Join(ErrClosed, r.Close()))
	}
	c.memory[r] = struct{}{}
	return m, nil
}

// Register makes another key, with separate rights, for n bytes of this memory, beginning
// at offset off. The memory stays until the last of its keys is closed.
func (m *MR) Register(off, n int, access Access) (*MR, error) {
	const what = "register memory"
	if m.pd == nil {
		return nil, wrap(what, errZero)
	}
	root := m.root()
	root.mu.Lock()
	defer root.mu.Unlock()
	if m.closed.Load() || root.closed.Load() {
		return nil, wrap(what, ErrClosed)
	}
	if off < 0 || n < 1 || off > len(m.mem) || n > len(m.mem)-off {
		return nil, wrap(what, fmt.Errorf("%d bytes at offset %d; the memory has %d", n, off, len(m.mem)))
	}
	part := &MR{pd: m.pd, parent: root, mem: m.mem[off : off+n : off+n], off: m.off + off}
	if err := part.register(what, root.base+uint64(part.off), access); err != nil {
		return nil, err
	}
	root.parts++
	return part, nil
}

func (m *MR) register(what string, addr uint64, access Access) error {
	var ans control.Key
	req := &control.MR{PDN: m.pd.num, Access: uint32(access), Addr: addr, Length: uint64(len(m.mem)), IOVA: addr}
	if _, err := m.pd.ctx.call(what, control.OpRegMR, req, &ans); err != nil {
		return err
	}
	m.key, m.addr = ans.Key, addr
	if access&ZeroBased != 0 {
		m.addr = 0
	}
	return nil
}

// String returns, for instance, "MR of 4096 bytes at 0x7f0000001000, key 0x00002100".
func (m *MR) String() string {
	return fmt.Sprintf("MR of %d bytes at %#x, key %#08x", len(m.mem), m.addr, m.key)
}

// Bytes returns the memory, or nil once the MR or its context is closed.
func (m *MR) Bytes() []byte {
	if m.pd == nil || m.closed.Load() || m.pd.ctx.closed.Load() {
		return nil
	}
	return m.mem
}

// root returns the MR that RegisterMemory made.
func (m *MR) root() *MR {
	if m.parent != nil {
		return m.parent
	}
	return m
}

// Len returns the size in bytes.
func (m *MR) Len() int { return len(m.mem) }

// Addr returns the address by which work requests name the first byte.
func (m *MR) Addr() uint64 { return m.addr }

// LKey returns the key for SGEs in work requests of this side.
func (m *MR) LKey() uint32 { return m.key }

// RKey returns the key for work requests of the peer. On this device it is the same number
// as LKey.
func (m *MR) RKey() uint32 { return m.key }

// SGE returns an SGE that names n bytes of the memory, beginning at offset off. The device
// checks that the bytes are inside the memory. An SGE can name at most 1<<31 bytes: posting
// refuses a larger n. Like a slice expression, SGE panics if off or n is negative.
func (m *MR) SGE(off, n int) SGE { return piece(m.addr, off, n, m.key) }

func piece(base uint64, off, n int, key uint32) SGE {
	notNegative(off, n)
	return SGE{Addr: base + uint64(off), Length: uint32(min(uint64(n), math.MaxUint32)), LKey: key}
}

func notNegative(off, n int) {
	if off < 0 || n < 0 {
		panic(fmt.Sprintf("nicless: %d bytes at offset %d: negative", n, off))
	}
}

// Remote describes the memory for the peer. name says what the memory is for.
func (m *MR) Remote(name string) RemoteMemory {
	return RemoteMemory{Name: name, Addr: m.addr, Length: uint64(len(m.mem)), RKey: m.key}
}

// Close destroys the key, so that the device no longer accesses the memory, and gives the
// memory back to the system. Slices of the memory must not be used afterwards. They read as
// zeros while the program still refers to the MR; after that, an access faults. Work that
// is under way on the memory fails. Close returns ErrBusy while other keys to the memory
// exist. A second Close does nothing.
func (m *MR) Close() error {
	if m == nil || m.pd == nil {
		return errZero
	}
	c := m.pd.ctx
	return closing(c, &m.closed, func() error {
		const what = "close memory"
		root := m.root()
		root.mu.Lock()
		defer root.mu.Unlock()
		if m.parts > 0 {
			return wrap(what, control.Errorf(control.CodeBusy, "%d further keys to it are open", m.parts))
		}
		_, err := c.call(what, control.OpDeregMR, &control.Key{Key: m.key}, &control.Empty{})
		if err != nil {
			return err
		}
		if m.parent != nil {
			m.parent.parts--
			return nil
		}
		if _, err := c.call(what, control.OpDropRegion, &control.RegionID{ID: m.id}, &control.Empty{}); err != nil {
			return err
		}
		c.mu.Lock()
		delete(c.memory, m.region)
		c.mu.Unlock()
		return m.region.Close()
	})
}
