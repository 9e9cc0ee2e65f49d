package control

// Features that a Hello may ask for and a Welcome may grant.
const (
	FeatureWake uint64 = 1 << 0 // the client may ask for OpWake
	Features           = FeatureWake
)

// Empty is a payload of no bytes.
type Empty struct{}

func (*Empty) walk(walker) {}

// Hello is the first request on a connection.
type Hello struct {
	Magic    uint32
	Major    uint16
	Minor    uint16
	Features uint64 // features that the client wants
	Name     string // name of the program, for the device's log
}

func (m *Hello) walk(w walker) {
	w.u32("magic", &m.Magic)
	w.u16("major", &m.Major)
	w.u16("minor", &m.Minor)
	w.u64("features", &m.Features)
	w.text("name", &m.Name)
}

// Welcome answers Hello: it identifies the device and gives the limits of one client.
type Welcome struct {
	Major         uint16
	Minor         uint16
	UARPages      uint32 // number of 4096-byte pages in the memory of the first descriptor
	Features      uint64 // the features that the client wants and the device grants
	GUID          uint64 // GUID of the device; no two engines have the same
	MaxRegions    uint32
	MaxPDs        uint32
	MaxMRs        uint32
	MaxCQs        uint32
	MaxQPs        uint32
	MaxChannels   uint32
	MaxBytes      uint64 // bytes in all regions together
	MaxLogSQ      uint8  // log2 of 64-byte blocks
	MaxLogRQ      uint8  // log2 of receive entries
	MaxLogCQ      uint8  // log2 of CQEs
	MaxRdAtomic   uint8
	MaxMessageLog uint8 // log2 of bytes
}

func (m *Welcome) walk(w walker) {
	w.u16("major", &m.Major)
	w.u16("minor", &m.Minor)
	w.u32("uar_pages", &m.UARPages)
	w.u64("features", &m.Features)
	w.u64("guid", &m.GUID)
	w.u32("max_regions", &m.MaxRegions)
	w.u32("max_pds", &m.MaxPDs)
	w.u32("max_mrs", &m.MaxMRs)
	w.u32("max_cqs", &m.MaxCQs)
	w.u32("max_qps", &m.MaxQPs)
	w.u32("max_channels", &m.MaxChannels)
	w.u64("max_bytes", &m.MaxBytes)
	w.u8("max_log_sq", &m.MaxLogSQ)
	w.u8("max_log_rq", &m.MaxLogRQ)
	w.u8("max_log_cq", &m.MaxLogCQ)
	w.u8("max_rd_atomic", &m.MaxRdAtomic)
	w.u8("max_message_log", &m.MaxMessageLog)
}
