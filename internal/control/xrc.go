package control

// XRCD names an XRC domain: it contains the XSRQs that a target may use. The number is unique
// in the device. OpCreateTarget makes a queue pair that receives by extended reliable
// connection. It has neither rings nor a PD: its receives, its completions and the PD for its
// peer's keys are those of the XSRQ that each WQE of the peer names.
type XRCD struct {
	XRCDN uint32
}

func (m *XRCD) walk(w walker) { w.u32("xrcdn", &m.XRCDN) }

// XSRQ creates a shared receive queue for the targets of an XRC domain.
type XSRQ struct {
	SRQ
	XRCDN     uint32
	CQN       uint32 // completion queue of its receives
	UserIndex uint32 // 24 bits, repeated in CQEs
}

func (m *XSRQ) walk(w walker) {
	m.SRQ.walk(w)
	w.u32("xrcdn", &m.XRCDN)
	w.u32("cqn", &m.CQN)
	w.u32("user_index", &m.UserIndex)
}

// Target names a target that another client of the same domain has made. After OpOpenTarget
// this client may use it too. It ends when the last client that has it destroys it.
type Target struct {
	XRCDN uint32
	QPN   uint32
}

func (m *Target) walk(w walker) {
	w.u32("xrcdn", &m.XRCDN)
	w.u32("qpn", &m.QPN)
}
