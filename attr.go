package nicless

import (
	"fmt"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/control"
)

// State is the state of a queue pair.
type State uint8

// States, numbered as in mlx5.
const (
	StateRST  = State(control.StateRST)  // made or reset: the device ignores its queues
	StateINIT = State(control.StateINIT) // receives may be posted
	StateRTR  = State(control.StateRTR)  // the queue pair receives
	StateRTS  = State(control.StateRTS)  // the queue pair receives and sends
	StateSQE  = State(control.StateSQE)  // the send queue is in error; RC queue pairs are never in this state
	StateSQD  = State(control.StateSQD)  // the send queue is stopped
	StateERR  = State(control.StateERR)  // all work requests are flushed
)

// String returns the name.
func (s State) String() string {
	names := [...]string{"RST", "INIT", "RTR", "RTS", "SQE", "SQD", "ERR"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown state"
}

// AttrMask is a set of attributes of a queue pair. The bits are those of ibv_qp_attr_mask.
type AttrMask uint32

// Attributes. Each is the bit for one field of Attr: AttrState is the bit for State, and so on.
const (
	AttrState           = AttrMask(control.AttrState)
	AttrCurState        = AttrMask(control.AttrCurState)
	AttrAccess          = AttrMask(control.AttrAccess)
	AttrPKeyIndex       = AttrMask(control.AttrPKeyIndex)
	AttrPort            = AttrMask(control.AttrPort)
	AttrQKey            = AttrMask(control.AttrQKey)
	AttrDevice          = AttrMask(control.AttrAV)
	AttrPathMTU         = AttrMask(control.AttrPathMTU)
	AttrTimeout         = AttrMask(control.AttrTimeout)
	AttrRetryCount      = AttrMask(control.AttrRetryCount)
	AttrRNRRetry        = AttrMask(control.AttrRNRRetry)
	AttrRQPSN           = AttrMask(control.AttrRQPSN)
	AttrMaxRdAtomic     = AttrMask(control.AttrMaxRdAtomic)
	AttrMinRNRTimer     = AttrMask(control.AttrMinRNRTimer)
	AttrSQPSN           = AttrMask(control.AttrSQPSN)
	AttrMaxDestRdAtomic = AttrMask(control.AttrMaxDestRdAtom)
	AttrDestQPN         = AttrMask(control.AttrDestQPN)
)

// String returns the names, such as "AttrState|AttrQKey", or "0" for the empty set.
func (m AttrMask) String() string {
	if m == 0 {
		return "0"
	}
	var s []string
	for _, a := range attrNames {
		if m&a.bit != 0 {
			s, m = append(s, a.name), m&^a.bit
		}
	}
	if m != 0 {
		s = append(s, fmt.Sprintf("%#x", uint32(m)))
	}
	return strings.Join(s, "|")
}

var attrNames = []struct {
	bit  AttrMask
	name string
}{
	{AttrState, "AttrState"}, {AttrCurState, "AttrCurState"}, {AttrAccess, "AttrAccess"}, {AttrPKeyIndex, "AttrPKeyIndex"}, {AttrPort, "AttrPort"},
	{AttrQKey, "AttrQKey"}, {AttrDevice, "AttrDevice"}, {AttrPathMTU, "AttrPathMTU"}, {AttrTimeout, "AttrTimeout"}, {AttrRetryCount, "AttrRetryCount"},
	{AttrRNRRetry, "AttrRNRRetry"}, {AttrRQPSN, "AttrRQPSN"}, {AttrMaxRdAtomic, "AttrMaxRdAtomic"}, {AttrMinRNRTimer, "AttrMinRNRTimer"},
	{AttrSQPSN, "AttrSQPSN"}, {AttrMaxDestRdAtomic, "AttrMaxDestRdAtomic"}, {AttrDestQPN, "AttrDestQPN"},
}

// Attr is the state and the attributes of a queue pair. For Modify, Mask says which
// of them to change.
type Attr struct {
	Mask            AttrMask
	State           State
	CurState        State  // Modify: the state that the caller expects now; Query: the same as State
	Access          Access // what the peer may do: RemoteWrite, RemoteRead, RemoteAtomic
	QKey            uint32 // UD: the Q_Key that a datagram must carry to be received
	Device          uint64 // the engine of the peer: see Context.Device
	DestQPN         uint32 // the QPN of the peer, 24 bits
	RQPSN           uint32 // first packet number expected, 24 bits
	SQPSN           uint32 // first packet number sent, 24 bits
	PKeyIndex       uint16 // always 0
	Port            uint8  // always 1
	PathMTU         uint8  // 1 to 5: 256 to 4096 bytes
	Timeout         uint8  // 0 to 31: 4.096 us << Timeout; 0 waits for ever
	RetryCount      uint8  // 0 to 7
	RNRRetry        uint8  // 0 to 7; 7 means for ever
	MinRNRTimer     uint8  // 0 to 31, a code of the InfiniBand table
	MaxRdAtomic     uint8  // as requester, this side has at most this many READs and atomics under way
	MaxDestRdAtomic uint8  // as responder, this side serves at most this many READs and atomics at once
}

// String returns the attributes that Mask names, or all if Mask is zero, in words:
// "RTS, peer QP 0x000abc, retries 7, …".
func (a Attr) String() string {
	var s []string
	say := func(bit AttrMask, format string, args ...any) {
		if a.Mask == 0 || a.Mask&bit != 0 {
			s = append(s, fmt.Sprintf(format, args...))
		}
	}
	tries := fmt.Sprint(a.RNRRetry)
	if a.RNRRetry == 7 {
		tries = "for ever"
	}
	say(AttrState, "%v", a.State)
	say(AttrAccess, "access of the peer %v", a.Access)
	say(AttrQKey, "qkey %#08x", a.QKey)
	say(AttrDestQPN, "peer QP %#06x", a.DestQPN)
	say(AttrDevice, "of device %016x", a.Device)
	say(AttrRQPSN, "PSN expected %#06x", a.RQPSN)
	say(AttrSQPSN, "PSN sent %#06x", a.SQPSN)
	say(AttrPort, "port %d", a.Port)
	say(AttrPKeyIndex, "pkey index %d", a.PKeyIndex)
	say(AttrPathMTU, "path MTU %d", 128<<min(a.PathMTU, 5))
	say(AttrTimeout, "timeout %v", a.timeout())
	say(AttrRetryCount, "retries %d", a.RetryCount)
	say(AttrRNRRetry, "RNR retries %s", tries)
	say(AttrMinRNRTimer, "RNR timer code %d", a.MinRNRTimer)
	say(AttrMaxRdAtomic, "READs and atomics under way %d", a.MaxRdAtomic)
	say(AttrMaxDestRdAtomic, "served at once %d", a.MaxDestRdAtomic)
	return strings.Join(s, ", ")
}

func (a Attr) timeout() any {
	if a.Timeout == 0 {
		return "none"
	}
	return time.Duration(4096) << min(a.Timeout, 31)
}

func (a *Attr) request(qpn uint32) *control.QPAttr {
	return &control.QPAttr{
		QPN: qpn, Mask: uint32(a.Mask), State: uint8(a.State), CurState: uint8(a.CurState), Port: a.Port, PathMTU: a.PathMTU,
		Timeout: a.Timeout, RetryCount: a.RetryCount, RNRRetry: a.RNRRetry, MinRNRTimer: a.MinRNRTimer,
		MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic, PKeyIndex: a.PKeyIndex, Access: uint32(a.Access),
		RQPSN: a.RQPSN, SQPSN: a.SQPSN, DestQPN: a.DestQPN, GUID: a.Device, QKey: a.QKey,
	}
}

func attrOf(m *control.QPAttr) Attr {
	return Attr{
		Mask: AttrMask(m.Mask), State: State(m.State), CurState: State(m.CurState), Port: m.Port, PathMTU: m.PathMTU,
		Timeout: m.Timeout, RetryCount: m.RetryCount, RNRRetry: m.RNRRetry, MinRNRTimer: m.MinRNRTimer,
		MaxRdAtomic: m.MaxRdAtomic, MaxDestRdAtomic: m.MaxDestRdAtomic, PKeyIndex: m.PKeyIndex, Access: Access(m.Access),
		RQPSN: m.RQPSN, SQPSN: m.SQPSN, DestQPN: m.DestQPN, Device: m.GUID, QKey: m.QKey,
	}
}

// Modify changes the state and the attributes that a.Mask names, by the rules
// of verbs: each transition requires some attributes and allows some others. If the
// device refuses, nothing changes and the error names the rule. A change to StateRST
// empties the queues. During such a call, do not post to the queue pair and do not poll
// its CQs.
func (q *QP) Modify(a *Attr) error {
	const what = "modify QP"
	if a == nil {
		return wrap(what, control.Errorf(control.CodeInvalid, "no attributes (nil)"))
	}
	q.changes.Lock()
	defer q.changes.Unlock()
	if q.closed.Load() {
		return wrap(what, ErrClosed)
	}
	if _, err := q.c.call(what, control.OpModifyQP, a.request(q.qpn), &control.Empty{}); err != nil {
		return err
	}
	if a.Mask&AttrQKey != 0 {
		q.qkey.Store(a.QKey)
	}
	if a.Mask&AttrState != 0 {
		if a.State == StateRST {
			q.reset()
		}
		q.state.Store(uint32(a.State))
	}
	return nil
}

// Query returns the state and all attributes, as the device has them.
func (q *QP) Query() (Attr, error) {
	if q.closed.Load() {
		return Attr{}, wrap("query QP", ErrClosed)
	}
	var m control.QPAttr
	if _, err := q.c.call("query QP", control.OpQueryQP, &control.QPN{QPN: q.qpn}, &m); err != nil {
		return Attr{}, err
	}
	return attrOf(&m), nil
}
