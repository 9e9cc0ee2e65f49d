package control

// A Watch asks the device to record what clients do, for this client to read. Exactly one of All, QPN, PID
// and Program says which clients. A client of an ordinary user can watch only clients of that user.
type Watch struct {
	Bytes   uint64 // size of the ring of each thread: a power of two; 0: the device chooses
	QPN     uint32 // the queue pair with this number; 0: not by number
	PID     uint32 // clients of this process; 0: not by process
	All     uint32 // WatchAll, WatchReplay, WatchSanitize
	Program string // clients whose process has this name (/proc/PID/comm); empty: not by name
}

func (m *Watch) walk(w walker) {
	w.u64("bytes", &m.Bytes)
	w.u32("qpn", &m.QPN)
	w.u32("pid", &m.PID)
	w.u32("all", &m.All)
	w.text("program", &m.Program)
}

// Bits of Watch.All.
const (
	WatchAll    uint32 = 1 << 0 // all clients
	WatchReplay uint32 = 1 << 1 // record also what a replay needs: payload, receives, and how queues are made

	// WatchSanitize records, besides that, what package sanitize needs. It needs WatchReplay: the request
	// has both bits.
	WatchSanitize uint32 = 1 << 2
)

// Rings says what the memory that comes with the answer to a Watch has: a ring for each thread of the
// device, one after another. Package trace reads them.
type Rings struct {
	Rings uint32
	Size  uint32 // bytes of each ring with its header
}

func (m *Rings) walk(w walker) {
	w.u32("rings", &m.Rings)
	w.u32("size", &m.Size)
}
