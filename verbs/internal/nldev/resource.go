//go:build linux && (amd64 || arm64)

package nldev

// Kinds of resources, in the order of the summary.
const (
	PD = iota
	CQ
	QP
	CMID
	MR
	Context
	SRQ
	NumKinds
)

var kindNames = [NumKinds]string{"pd", "cq", "qp", "cm_id", "mr", "ctx", "srq"}

// Tables has, for each kind of resource, how requests and answers name it.
var Tables = [NumKinds]struct {
	Cmd          int
	ID           uint16 // the attribute by which a request names one resource
	PerPort      bool   // a request for one resource names its port
	table, entry int
}{
	PD:      {CmdResPDGet, AttrResPDN, false, attrResPD, attrResPDEntry},
	CQ:      {CmdResCQGet, AttrResCQN, false, attrResCQ, attrResCQEntry},
	QP:      {CmdResQPGet, AttrResLQPN, true, attrResQP, attrResQPEntry},
	CMID:    {CmdResCMIDGet, AttrResCMIDN, true, attrResCMID, attrResCMIDEntry},
	MR:      {CmdResMRGet, AttrResMRN, false, attrResMR, attrResMREntry},
	Context: {CmdResCtxGet, AttrResCtxN, false, attrResCtx, attrResCtxEntry},
	SRQ:     {CmdResSRQGet, AttrResSRQN, false, attrResSRQ, attrResSRQEntry},
}

// Summary returns what RES_GET answers: how many resources of each kind there are.
func (d *Device) Summary(counts [NumKinds]uint64) List {
	var all List
	for kind, n := range counts {
		var item List
		item.text(attrResSummaryName, kindNames[kind])
		item.u64(attrResSummaryCurr, n)
		all.nest(attrResSummaryItem, item)
	}
	l := d.Handle()
	l.nest(attrResSummary, all)
	return l
}

// A Table is the message of a dump that is being filled.
type Table struct {
	head    List
	kind    int
	entries List
	size    int
}

// NewTable begins a message with resources of a device.
func (d *Device) NewTable(kind int) *Table {
	t := &Table{head: d.Handle(), kind: kind}
	t.size = HeaderSize + t.head.size() + 4
	return t
}

// Add adds a resource, unless the message would be longer than MaxMessage.
func (t *Table) Add(entry List) bool {
	n := 4 + entry.size()
	if t.size+n > MaxMessage {
		return false
	}
	t.size += n
	t.entries.nest(Tables[t.kind].entry, entry)
	return true
}

// Empty reports whether no resource was added.
func (t *Table) Empty() bool { return len(t.entries) == 0 }

// Attributes returns the contents of the message.
func (t *Table) Attributes() List {
	l := t.head
	l.nest(Tables[t.kind].table, t.entries)
	return l
}

// An Owner is the process that made a resource.
type Owner struct {
	PID uint32 // as the reader's /proc has it; 0: the reader does not see the process
}

func (o Owner) addTo(l *List) {
	if o.PID != 0 {
		l.u32(attrResPID, o.PID)
	}
}

// A QPInfo is a queue pair. Types and states are those of verbs.
type QPInfo struct {
	Owner
	Port     uint32 // 0: it has none yet
	Number   uint32
	PD       *uint32 // nil: it has none
	Type     uint8   // enum ib_qp_type
	State    uint8
	Remote   uint32
	RQPSN    uint32
	SQPSN    uint32
	Subtype  string // of a type of the driver, QPTypeDriver
	Migrated uint8  // enum ib_mig_state
}

// Types of queue pairs.
const (
	qpTypeRC, qpTypeUC         = 2, 3
	qpTypeXRCIni, qpTypeXRCTgt = 9, 10
	QPTypeDriver               = 255
)

// Attributes returns the entry of a queue pair.
func (q QPInfo) Attributes() (l List) {
	if q.Port != 0 {
		l.u32(AttrPortIndex, q.Port)
	}
	l.u32(AttrResLQPN, q.Number)
	if q.PD != nil {
		l.u32(AttrResPDN, *q.PD)
	}
	q.addTo(&l)
	connected := q.Type == qpTypeRC || q.Type == qpTypeUC
	if connected {
		l.u32(attrResRQPN, q.Remote)
		l.u32(attrResRQPSN, q.RQPSN)
	}
	l.u32(attrResSQPSN, q.SQPSN)
	if connected || q.Type == qpTypeXRCIni || q.Type == qpTypeXRCTgt {
		l.u8(attrResPathMig, q.Migrated)
	}
	l.u8(attrResType, q.Type)
	l.u8(attrResState, q.State)
	if q.Subtype != "" {
		l.text(attrResSubtype, q.Subtype)
	}
	return l
}

// A CQInfo is a completion queue.
type CQInfo struct {
	Owner
	ID, Context uint32
	Entries     uint32 // those that can be used
	Users       uint64
}

// Attributes returns the entry of a completion queue.
func (q CQInfo) Attributes() (l List) {
	l.u32(attrResCQE, q.Entries)
	l.u64(attrResUseCount, q.Users)
	l.u8(AttrDevDim, 0)
	l.u32(AttrResCQN, q.ID)
	l.u32(AttrResCtxN, q.Context)
	q.addTo(&l)
	return l
}

// An MRInfo is a memory region.
type MRInfo struct {
	Owner
	ID       uint32
	PD       *uint32
	Length   uint64
	Key      *uint32 // of both kinds; nil: the reader may not know it
	OnDemand string  // "explicit" or "implicit"; "": its pages are not on demand
}

// Attributes returns the entry of a memory region.
func (m MRInfo) Attributes() (l List) {
	if m.Key != nil {
		l.u32(attrResRKey, *m.Key)
		l.u32(attrResLKey, *m.Key)
	}
	l.u64(attrResMRLen, m.Length)
	l.u32(AttrResMRN, m.ID)
	if m.PD != nil {
		l.u32(AttrResPDN, *m.PD)
	}
	m.addTo(&l)
	if m.OnDemand != "" {
		var driver List
		driver.text(attrDriverString, "odp")
		driver.text(attrDriverString, m.OnDemand)
		l.flagged(attrDriver, driver)
	}
	return l
}

// A PDInfo is a protection domain.
type PDInfo struct {
	Owner
	ID, Context uint32
	Users       uint64
}

// Attributes returns the entry of a protection domain.
func (p PDInfo) Attributes() (l List) {
	l.u64(attrResUseCount, p.Users)
	l.u32(AttrResPDN, p.ID)
	l.u32(AttrResCtxN, p.Context)
	p.addTo(&l)
	return l
}

// A ContextInfo is an opened device.
type ContextInfo struct {
	Owner
	ID uint32
}

// Attributes returns the entry of an opened device.
func (c ContextInfo) Attributes() (l List) {
	l.u32(AttrResCtxN, c.ID)
	c.addTo(&l)
	return l
}

// An SRQInfo is a shared receive queue.
type SRQInfo struct {
	Owner
	ID   uint32
	Type uint8 // enum ib_srq_type
	PD   *uint32
	CQ   *uint32  // nil: it has none of its own
	QPs  []uint32 // numbers of the queue pairs that use it, in order
}

// Attributes returns the entry of a shared receive queue. Queue pairs with adjacent numbers are a range.
func (s SRQInfo) Attributes() (l List) {
	l.u32(AttrResSRQN, s.ID)
	l.u8(attrResType, s.Type)
	if s.PD != nil {
		l.u32(AttrResPDN, *s.PD)
	}
	if s.CQ != nil {
		l.u32(AttrResCQN, *s.CQ)
	}
	const most = 128 // ranges, so that an entry fits into a message
	var ranges List
	for qps := s.QPs; len(qps) > 0 && len(ranges) < most; {
		n := 1
		for n < len(qps) && qps[n] == qps[0]+uint32(n) {
			n++
		}
		var r List
		if n == 1 {
			r.u32(AttrResLQPN, qps[0])
		} else {
			r.u32(attrMinRange, qps[0])
			r.u32(attrMaxRange, qps[n-1])
		}
		ranges.flagged(attrResQPEntry, r)
		qps = qps[n:]
	}
	l.flagged(attrResQP, ranges)
	s.addTo(&l)
	return l
}

// AddressSize is the size of struct sockaddr_storage.
const AddressSize = 128

// A CMIDInfo is an id of rdma_cm.
type CMIDInfo struct {
	Owner
	ID       uint32
	Port     uint32 // 0: none yet
	QPN      uint32 // 0: none yet
	QPType   uint8
	Space    uint32 // enum rdma_ucm_port_space
	State    uint8  // enum rdma_cm_state
	Src, Dst []byte // socket addresses, at most AddressSize bytes; empty: none
}

// Attributes returns the entry of an id.
func (c CMIDInfo) Attributes() (l List) {
	if c.Port != 0 {
		l.u32(AttrPortIndex, c.Port)
	}
	if c.QPN != 0 {
		l.u32(AttrResLQPN, c.QPN)
		l.u8(attrResType, c.QPType)
	}
	l.u32(attrResPS, c.Space)
	l.u8(attrResState, c.State)
	for i, a := range [][]byte{c.Src, c.Dst} {
		if len(a) > 0 {
			whole := make([]byte, AddressSize)
			copy(whole, a)
			l.add(attrResSrcAddr+i, whole)
		}
	}
	l.u32(AttrResCMIDN, c.ID)
	c.addTo(&l)
	return l
}
