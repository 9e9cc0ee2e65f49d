package nicless

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
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
	// RelaxedOrdering is no right. It says that nobody relies on the order in which bytes of several
	// work requests become visible in the memory before their completions, and hardware may use that.
	// This device writes in order all the same, unless a rule of faults says otherwise.
	RelaxedOrdering = Access(control.AccessRelaxedOrdering)

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
		{RelaxedOrdering, "RelaxedOrdering"},
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

	// The fields region, id, whole and base are set only in the MR that RegisterMemory made. whole is
	// kept here because a Close of the context can take the bytes away from region at any time.
	region *shm.Region
	id     uint32 // the device's number of region
	whole  []byte // the bytes of region, as many as RegisterMemory was called for
	base   uint64 // address of whole

	closed atomic.Bool

	// The fields mu and parts are used only in the MR that RegisterMemory made.
	mu    sync.Mutex // held while a key to the memory is made, changed or closed
	parts int        // number of MRs that Register has made for this memory and that are not closed
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
	c.joinSanitizers()
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
		if e := c.early.Load(); e != nil {
			e.dropMemory(r)
		}
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
	req := &control.MR{PDN: m.pd.num, Access: uint32(access), Addr: addr, Length: uint64(len(m.mem)),
		IOVA: addr}
	if _, err := m.pd.ctx.call(what, control.OpRegMR, req, &ans); err != nil {
		return err
	}
	m.key, m.addr = ans.Key, addr
	if access&ZeroBased != 0 {
		m.addr = 0
	}
	if e := m.pd.ctx.early.Load(); e != nil {
		e.addKey(m, addr)
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
		if e := c.early.Load(); e != nil {
			e.dropKey(m.key)
		}
		if m.parent != nil {
			m.parent.parts--
			return nil
		}
		if _, err := c.call(what, control.OpDropRegion, &control.RegionID{ID: m.id},
			&control.Empty{}); err != nil {
			return err
		}
		if e := c.early.Load(); e != nil {
			e.dropMemory(m.region)
		}
		c.mu.Lock()
		delete(c.memory, m.region)
		c.mu.Unlock()
		return m.region.Close()
	})
}

// The methods in this file access words that the program and the device use at the
// same time: flags, counters, targets of RDMA atomics. The words are in the byte order
// of the host, which the device's atomics use too. off counts bytes from the beginning
// of the MR. The word must be within the MR, at an address that is a multiple of the
// word's size.
//
// For any other word, and after Close, the methods panic on the calling goroutine, as
// an index out of the range of a slice does. Each method takes effect in one atomic
// instruction, with respect to the program's goroutines, to other processes that share
// the memory, and to the device.

// word returns the n bytes at off.
func (m *MR) word(off, n int) []byte {
	b := m.Bytes()
	if b == nil {
		panic("nicless: memory is closed, or was never registered")
	}
	if off < 0 || off > len(b)-n {
		panic(fmt.Sprintf("nicless: word of %d bytes at offset %d; the memory has %d", n, off, len(b)))
	}
	b = b[off : off+n]
	if !shm.Aligned(b) {
		panic(fmt.Sprintf("nicless: word of %d bytes at offset %d; its address is not a multiple of %d", n, off, n))
	}
	return b
}

// Load64 returns the 8 bytes at off, for instance the target of an RDMA atomic, or the
// old value that an RDMA atomic has returned. Everything that the writer of these bytes
// stored before them is visible afterwards.
func (m *MR) Load64(off int) uint64 { return shm.Word64At(m.word(off, 8), 0).Observe() }

// Store64 stores v in the 8 bytes at off, after all earlier stores: a reader that sees v
// sees those stores too. A later load may still be executed before the store of v.
func (m *MR) Store64(off int, v uint64) { shm.Word64At(m.word(off, 8), 0).Publish(v) }

// Add64 adds delta to the 8 bytes at off and returns the sum, as atomic.AddUint64
// does. The sum wraps.
func (m *MR) Add64(off int, delta uint64) (sum uint64) { return shm.Add(m.word(off, 8), delta) + delta }

// CompareAndSwap64 stores v in the 8 bytes at off if their value is equal to the argument
// old, and reports whether it stored v, as atomic.CompareAndSwapUint64 does.
func (m *MR) CompareAndSwap64(off int, old, v uint64) (swapped bool) {
	b := m.word(off, 8)
	for {
		if was, ok := shm.CompareAndSwap(b, old, v); ok {
			return was == old
		}
	}
}

// Load32 is Load64 for 4 bytes.
func (m *MR) Load32(off int) uint32 {
	return bits.ReverseBytes32(shm.BE32At(m.word(off, 4), 0).Observe())
}

// Store32 is Store64 for 4 bytes.
func (m *MR) Store32(off int, v uint32) {
	shm.BE32At(m.word(off, 4), 0).Publish(bits.ReverseBytes32(v))
}

// Add32 is Add64 for 4 bytes.
func (m *MR) Add32(off int, delta uint32) (sum uint32) {
	b := m.word(off, 4)
	for {
		if was, ok := shm.Update(b, func(old uint64) uint64 { return old + uint64(delta) }); ok {
			return uint32(was) + delta
		}
	}
}

// CompareAndSwap32 is CompareAndSwap64 for 4 bytes.
func (m *MR) CompareAndSwap32(off int, old, v uint32) (swapped bool) {
	b := m.word(off, 4)
	for {
		was, ok := shm.Update(b, func(now uint64) uint64 {
			if uint32(now) == old {
				return uint64(v)
			}
			return now
		})
		if ok {
			return uint32(was) == old
		}
	}
}

// Old32 returns the 4 bytes at off as a number, if a masked atomic of 4 bytes has written
// the old value of its target there. As on hardware, that old value is big-endian in
// memory, unlike the target. Old32 is not an atomic load: call it after the completion of
// the masked atomic. off need not be a multiple of 4.
func (m *MR) Old32(off int) uint32 {
	b := m.Bytes()
	if off < 0 || off > len(b)-4 {
		panic(fmt.Sprintf("nicless: 4 bytes at offset %d; the memory has %d", off, len(b)))
	}
	return binary.BigEndian.Uint32(b[off:])
}

// Reregister changes the domain, range and rights of the MR in one step and gives the MR a
// new key. Work requests with the old key fail, including those that are under way. If pd
// is nil, the MR keeps its domain. The range is n bytes, beginning at offset off in the
// memory that RegisterMemory made. Reregister returns ErrBusy while windows are bound to
// the MR.
//
// The MR must not be used during Reregister.
func (m *MR) Reregister(pd *PD, off, n int, access Access) error {
	const what = "reregister memory"
	if m.pd == nil {
		return wrap(what, errZero)
	}
	if pd == nil {
		pd = m.pd
	}
	if err := pd.usable(what); err != nil {
		return err
	}
	if pd.ctx != m.pd.ctx {
		return wrap(what, control.Errorf(control.CodeInvalid, "the domain belongs to another context"))
	}
	root := m.root()
	root.mu.Lock()
	defer root.mu.Unlock()
	if m.closed.Load() || root.closed.Load() {
		return wrap(what, ErrClosed)
	}
	if off < 0 || n < 1 || off > len(root.whole) || n > len(root.whole)-off {
		return wrap(what, fmt.Errorf("%d bytes at offset %d; the memory has %d", n, off, len(root.whole)))
	}
	addr := root.base + uint64(off)
	req := &control.ReregMR{
		Key: m.key, What: control.ReregRange | control.ReregPD | control.ReregAccess,
		PDN: pd.num, Access: uint32(access), Addr: addr, Length: uint64(n), IOVA: addr,
	}
	var ans control.Key
	if _, err := m.pd.ctx.call(what, control.OpReregMR, req, &ans); err != nil {
		return err
	}
	if e := m.pd.ctx.early.Load(); e != nil {
		e.dropKey(m.key)
	}
	m.pd, m.key, m.addr = pd, ans.Key, addr
	if access&ZeroBased != 0 {
		m.addr = 0
	}
	m.mem, m.off = root.whole[off:off+n:off+n], off
	if e := m.pd.ctx.early.Load(); e != nil {
		e.addKey(m, addr)
	}
	return nil
}

// An arena hands out shared memory for rings and doorbell records, in blocks whose
// sizes are powers of two, from a few large regions. If each queue had its own region,
// the device would need a mapping for each queue.
type arena struct {
	c *client

	mu      sync.Mutex
	closed  bool // the regions are no longer mapped, not even for free blocks
	regions []*shm.Region
	free    [48][]block // free blocks, indexed by log2 of their size
}

// A block is zeroed memory from an arena. It is aligned to its size, or to the page
// size if that is smaller.
type block struct {
	mem  []byte
	addr uint64 // the address by which the device finds mem
}

const (
	// minBlock is log2 of the smallest block: two cache lines. Processors fetch cache lines in
	// pairs. In blocks of this size, no two doorbell records share a pair.
	minBlock = 7
	// chunk is log2 of the smallest region.
	chunk = 20
)

// alloc returns at least n bytes.
func (a *arena) alloc(n int) (block, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return block{}, ErrClosed
	}
	class := max(bits.Len(uint(n-1)), minBlock)
	from := class
	for from < len(a.free) && len(a.free[from]) == 0 {
		from++
	}
	if from >= len(a.free) {
		from = max(class, chunk)
		if err := a.grow(from); err != nil {
			return block{}, err
		}
	}
	b := a.pop(from)
	for from > class { // the upper half stays free
		from--
		half := 1 << from
		a.free[from] = append(a.free[from], block{mem: b.mem[half:], addr: b.addr + uint64(half)})
		b.mem = b.mem[:half:half]
	}
	if err := shm.Zero(b.mem); err != nil { // this touches the pages too, so that no page fault comes later
		a.free[class] = append(a.free[class], b)
		return block{}, wrap("queues", err)
	}
	return b, nil
}

func (a *arena) pop(class int) block {
	list := a.free[class]
	b := list[len(list)-1]
	a.free[class] = list[:len(list)-1]
	return b
}

// release frees blocks. The device must not use them any more.
func (a *arena) release(blocks ...block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range blocks {
		if b.mem != nil {
			class := bits.Len(uint(len(b.mem) - 1))
			a.free[class] = append(a.free[class], b)
		}
	}
}

// grow adds a region of 1<<class bytes.
func (a *arena) grow(class int) error {
	r, _, err := a.c.newRegion("queues", 1<<class)
	if err != nil {
		return err
	}
	keep(a.c, r)
	a.regions = append(a.regions, r)
	a.free[class] = append(a.free[class], block{mem: r.Bytes(), addr: r.Addr()})
	return nil
}

func (a *arena) close() (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, r := range a.regions {
		err = errors.Join(err, r.Close())
	}
	return err
}

// newRegion makes memory that the device shares, and returns the device's number for it.
// No file descriptor stays open, because the mappings are enough, and a program may need
// more memory regions than the number of descriptors that it is allowed to have.
func (c *client) newRegion(what string, size int) (*shm.Region, uint32, error) {
	if err := c.err(); err != nil {
		return nil, 0, wrap(what, err)
	}
	r, id, err := c.dev.NewRegion(what, size)
	if err != nil {
		return nil, 0, wrap(what, c.failed(err))
	}
	return r, id, nil
}
