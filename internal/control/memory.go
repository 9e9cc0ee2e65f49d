package control

// PD names a protection domain of this client.
type PD struct {
	PDN uint32
}

func (m *PD) walk(w walker) { w.u32("pdn", &m.PDN) }

// RegionSize asks for a region of this many bytes, in memory that the device makes.
type RegionSize struct {
	Size uint64
}

func (m *RegionSize) walk(w walker) { w.u64("size", &m.Size) }

// Placement says that the client has mapped all of a region's memory at Addr and has
// sealed it. The regions of a client must not overlap.
type Placement struct {
	ID   uint32
	Addr uint64
}

func (m *Placement) walk(w walker) {
	w.u32("region", &m.ID)
	w.u64("addr", &m.Addr)
}

// RegionID names a region of this client.
type RegionID struct {
	ID uint32
}

func (m *RegionID) walk(w walker) { w.u32("region", &m.ID) }

// Access rights of a key, and operations that a QP allows. The bits are those of verbs.
const (
	AccessLocalWrite   uint32 = 1 << 0
	AccessRemoteWrite  uint32 = 1 << 1
	AccessRemoteRead   uint32 = 1 << 2
	AccessRemoteAtomic uint32 = 1 << 3
	AccessMWBind       uint32 = 1 << 4 // memory windows may be bound to the key
	AccessZeroBased    uint32 = 1 << 5 // addresses of the key begin at 0

	// AccessRelaxedOrdering is no right: it says that nobody relies on the order in which bytes of several
	// work requests become visible under the key. Only keys of memory have it.
	AccessRelaxedOrdering uint32 = 1 << 20

	AccessAll = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic | AccessMWBind |
		AccessZeroBased
)

// MR registers Length bytes at the client's address Addr, inside one region. In work
// requests the addresses of the range begin at IOVA.
type MR struct {
	PDN    uint32
	Access uint32
	Addr   uint64
	Length uint64
	IOVA   uint64
}

func (m *MR) walk(w walker) {
	w.u32("pdn", &m.PDN)
	w.u32("access", &m.Access)
	w.u64("addr", &m.Addr)
	w.u64("length", &m.Length)
	w.u64("iova", &m.IOVA)
}

// NullKey is a local key of every protection domain that needs no registration. Bytes that are
// read by it are 0, and bytes that are written by it vanish. All addresses are possible.
const NullKey uint32 = 2 << 8

// Key is a key that is both an lkey and an rkey, as on mlx5.
type Key struct {
	Key uint32
}

func (m *Key) walk(w walker) { w.u32("key", &m.Key) }

// MW makes a memory window. The window gives no access until a UMR binds it. OpDeregMR frees
// a window too.
type MW struct {
	PDN  uint32
	Kind uint8 // 1 or 2
}

func (m *MW) walk(w walker) {
	w.u32("pdn", &m.PDN)
	w.u8("kind", &m.Kind)
}

// Mkey makes a key for a list of ranges. A UMR fills the list. OpDeregMR frees such a key too.
type Mkey struct {
	PDN     uint32
	Entries uint32 // most entries that the list may have
}

func (m *Mkey) walk(w walker) {
	w.u32("pdn", &m.PDN)
	w.u32("entries", &m.Entries)
}

// Bits of ReregMR.What.
const (
	ReregRange  uint32 = 1 << 0
	ReregPD     uint32 = 1 << 1
	ReregAccess uint32 = 1 << 2
)

// ReregMR changes those attributes of an MR that What names. The key gets another variant,
// so that the old key is no longer valid. The answer is the new key.
type ReregMR struct {
	Key    uint32
	What   uint32
	PDN    uint32
	Access uint32
	Addr   uint64
	Length uint64
	IOVA   uint64
}

func (m *ReregMR) walk(w walker) {
	w.u32("key", &m.Key)
	w.u32("what", &m.What)
	w.u32("pdn", &m.PDN)
	w.u32("access", &m.Access)
	w.u64("addr", &m.Addr)
	w.u64("length", &m.Length)
	w.u64("iova", &m.IOVA)
}
