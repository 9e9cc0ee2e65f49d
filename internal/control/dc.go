package control

// MaxLogErrored is the greatest value of QP.Streams.
const MaxLogErrored = 4

// DCT creates a queue pair in state RST that receives by the dynamically connected transport.
// It has no rings: its receives are those of the SRQ. Every DCI of the device whose WQE names
// its number and its key reaches it. Its states are RST, INIT and RTR.
type DCT struct {
	PDN       uint32 // domain of the keys that DCIs name
	SRQN      uint32
	CQN       uint32 // completion queue of its receives
	UserIndex uint32 // 24 bits, repeated in CQEs
	Key       uint64 // the access key
}

func (m *DCT) walk(w walker) {
	w.u32("pdn", &m.PDN)
	w.u32("srqn", &m.SRQN)
	w.u32("cqn", &m.CQN)
	w.u32("user_index", &m.UserIndex)
	w.u64("key", &m.Key)
}
