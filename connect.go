package nicless

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
)

// Connection says how a connection behaves. The zero value is right for most programs.
type Connection struct {
	// RNRRetry is how often a send is tried again while the peer has no receive posted: 1
	// to 6 times. 7 means for ever, as in verbs, and so does zero. NoRetry means never.
	RNRRetry int

	// Retry is how often a send is tried again while the peer does not answer: 1 to 7
	// times. Zero means 7. NoRetry means never.
	Retry int

	// Timeout is the code of the time that one try waits for the peer's answer, 1 to 31.
	// The time is 4.096 us << Timeout. Zero means 14, which is 67 ms: a send to a peer that
	// does not connect fails after half a second, after the first try and seven retries. To a
	// peer on another device the second try waits twice as long, and the others four times, so
	// that it fails after 1.8 s (27 times 67 ms).
	Timeout int

	// MinRNRTimer is the code of a time, 1 to 31. While this side has no receive posted, it
	// asks its peer to wait that long between tries. Zero means 12, which is 0.64 ms.
	MinRNRTimer int
}

// NoRetry, as a count of retries, means no retries. It is -1 because zero stands for the
// default.
const NoRetry = -1

func (o *Connection) fill() error {
	for _, f := range []struct {
		name      string
		v         *int
		def, most int
		none      bool
	}{
		{"RNRRetry", &o.RNRRetry, 7, 7, true},
		{"Retry", &o.Retry, 7, 7, true},
		{"Timeout", &o.Timeout, 14, 31, false},
		{"MinRNRTimer", &o.MinRNRTimer, 12, 31, false},
	} {
		switch {
		case *f.v == 0:
			*f.v = f.def
		case *f.v == NoRetry && f.none:
			*f.v = 0
		case *f.v >= 1 && *f.v <= f.most:
		case f.none:
			return control.Errorf(control.CodeInvalid, "%s %d; 1 to %d and NoRetry (%d) are possible", f.name, *f.v, f.most, NoRetry)
		default:
			return control.Errorf(control.CodeInvalid, "%s %d; 1 to %d are possible", f.name, *f.v, f.most)
		}
	}
	return nil
}

// toInit takes the queue pair from RST to INIT.
func (q *QP) toInit(qkey uint32) error {
	a := &Attr{Mask: AttrState | AttrPKeyIndex | AttrPort, State: StateINIT, Port: 1}
	if q.transport == UD {
		a.Mask |= AttrQKey
		a.QKey = qkey
	} else {
		a.Mask |= AttrAccess
		a.Access = q.access
	}
	return q.Modify(a)
}

// Connect connects the queue pair with the one that peer describes. The peer has to
// connect back. Both queue pairs must have the same transport, RC or UC. They use the same
// engine, or engines with a link between them (Config.Links): first a pool or UCX that leads to
// peer.Device, else RoCE to peer.Address. On UC the argument o is ignored, because UC has no retries.
func (q *QP) Connect(peer Descriptor, o Connection) error {
	const what = "connect"
	if err := q.usable(); err != nil {
		return wrap(what, err)
	}
	if err := peer.check(); err != nil {
		return wrap(what, err)
	}
	if err := o.fill(); err != nil {
		return wrap(what, err)
	}
	if q.transport == UD {
		return wrap(what, control.Errorf(control.CodeInvalid, "a UD queue pair has no peer; Activate it"))
	}
	if err := q.reachable(what, &peer, true); err != nil {
		return err
	}
	most := q.c.limits.MaxRdAtomic
	rtr := &Attr{
		Mask:  AttrState | AttrDevice | AttrPathMTU | AttrDestQPN | AttrRQPSN,
		State: StateRTR, Device: peer.Device, PathMTU: 5, DestQPN: peer.QPN, RQPSN: peer.PSN,
	}
	rts := &Attr{Mask: AttrState | AttrSQPSN, State: StateRTS, SQPSN: q.psn()}
	if q.transport == RC {
		rtr.Mask |= AttrMaxDestRdAtomic | AttrMinRNRTimer
		rtr.MaxDestRdAtomic, rtr.MinRNRTimer = most, uint8(o.MinRNRTimer)
		rts.Mask |= AttrTimeout | AttrRetryCount | AttrRNRRetry | AttrMaxRdAtomic
		rts.Timeout, rts.RetryCount, rts.RNRRetry, rts.MaxRdAtomic = uint8(o.Timeout), uint8(o.Retry),
			uint8(o.RNRRetry), most
	}
	return q.connectBy(what, &peer, rtr, rts)
}

// minorPeer is the minor version of the protocol that has OpAddress and OpSetPeer.
const minorPeer = 2

// address returns the IP address of the engine; the zero Addr if it has none.
func (c *client) address() netip.Addr {
	var a control.Address
	if c.limits.Minor < minorPeer {
		return netip.Addr{}
	}
	if _, err := c.call("address", control.OpAddress, &control.Empty{}, &a); err != nil ||
		a == (control.Address{}) {
		return netip.Addr{}
	}
	return netip.AddrFrom16(a.GID).Unmap()
}

// refusedIn returns the error of a queue pair that could not go from INIT to RTR. The
// error says in which state the queue pair is, and what to do about it.
func (q *QP) refusedIn(what string, refusal error) error {
	a, err := q.Query()
	if err != nil || !errors.Is(refusal, ErrState) {
		return refusal
	}
	text := "not in INIT"
	switch a.State {
	case StateRTR, StateRTS, StateSQD:
		text = "active already"
		if q.transport != UD {
			text = fmt.Sprintf("connected already, with QP %#06x", a.DestQPN)
		}
	case StateSQE, StateERR:
		text = "in error"
	}
	return wrap(what, control.Errorf(control.CodeState, "%v (%v) is %s; make another, or Modify it to RST and INIT", q, a.State, text))
}

// reachable returns why messages of q cannot go to peer, or nil. If linked is true, the peer may be a
// client of another engine; this one knows whether a link leads there.
func (q *QP) reachable(what string, peer *Descriptor, linked bool) error {
	if mine := q.c.limits.GUID; peer.Device != mine && !linked {
		return wrap(what, control.Errorf(control.CodeInvalid,
			"the peer is a client of engine %016x, this one of %016x; datagrams stay within an engine", peer.Device, mine))
	}
	if peer.Transport != q.transport {
		return wrap(what, control.Errorf(control.CodeInvalid, "the peer is of transport %v, this one of %v; they must be equal", peer.Transport, q.transport))
	}
	return nil
}

// psn returns the first packet sequence number of this side. Any number will do, because it is sent to the
// peer.
func (q *QP) psn() uint32 { return q.qpn * 0x9e3779b1 >> 8 }

// Pair connects two queue pairs of this program with each other.
func Pair(a, b *QP, o Connection) error {
	if a == nil || b == nil {
		return wrap("pair", control.Errorf(control.CodeInvalid, "no queue pair (nil)"))
	}
	describe := (*QP).local
	if a.c != nil && b.c != nil && a.c.limits.GUID != b.c.limits.GUID {
		describe = func(q *QP) Descriptor { return q.Descriptor() }
	}
	if err := a.Connect(describe(b), o); err != nil {
		return err
	}
	return b.Connect(describe(a), o)
}

// Transport is the kind of a queue pair.
type Transport = hostpath.Transport

// Transports.
const (
	RC = hostpath.RC // reliable connection: SEND, WRITE, READ, atomics
	UC = hostpath.UC // unreliable connection: SEND and WRITE; messages that the peer cannot take are lost
	UD = hostpath.UD // unreliable datagram: SEND of up to 4096 bytes to any UD queue pair
)

// GRHSize is the number of bytes that the device writes before each received datagram: a
// header that says where the datagram comes from. The completion's ByteLen includes
// GRHSize, and a receive must have room for the header too.
const GRHSize = 40

// Activate makes a UD queue pair ready to send and receive. Datagrams that arrive earlier,
// or while no receive is posted, are dropped.
func (q *QP) Activate() error {
	const what = "activate"
	if err := q.usable(); err != nil {
		return wrap(what, err)
	}
	if q.transport != UD {
		return wrap(what, control.Errorf(control.CodeInvalid, "a %v queue pair has a peer; Connect it", q.transport))
	}
	if err := q.Modify(&Attr{Mask: AttrState, State: StateRTR}); err != nil {
		return q.refusedIn(what, err)
	}
	return q.Modify(&Attr{Mask: AttrState | AttrSQPSN, State: StateRTS, SQPSN: q.psn()})
}

// AddressOf returns the address of the queue pair that peer describes, for SendWR.To. An
// address may be used for any number of sends.
func (q *QP) AddressOf(peer Descriptor) (*Address, error) {
	const what = "address"
	if q.c == nil {
		return nil, wrap(what, errZero)
	}
	if err := peer.check(); err != nil {
		return nil, wrap(what, err)
	}
	if err := q.reachable(what, &peer, false); err != nil {
		return nil, err
	}
	return q.pd.ctx.Address(peer.QPN, peer.QKey), nil
}

// Address returns the address of queue pair qpn of this engine, for SendWR.To. qpn can be
// Completion.SrcQP, for instance, in order to reply. qkey is the receiver's Q_Key.
func (c *Context) Address(qpn, qkey uint32) *Address {
	r := hostpath.RoCE{HopLimit: 64}
	r.GID[0], r.GID[1] = 0xfe, 0x80 // link-local; the lower half is the engine's number
	binary.BigEndian.PutUint64(r.GID[8:], c.Device())
	return &Address{AV: r.AV(), QPN: qpn, QKey: qkey}
}

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
		QPN: qpn, Mask: uint32(a.Mask), State: uint8(a.State), CurState: uint8(a.CurState), Port: a.Port,
		PathMTU: a.PathMTU,
		Timeout: a.Timeout, RetryCount: a.RetryCount, RNRRetry: a.RNRRetry, MinRNRTimer: a.MinRNRTimer,
		MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic, PKeyIndex: a.PKeyIndex,
		Access: uint32(a.Access),
		RQPSN:  a.RQPSN, SQPSN: a.SQPSN, DestQPN: a.DestQPN, GUID: a.Device, QKey: a.QKey,
	}
}

func attrOf(m *control.QPAttr) Attr {
	return Attr{
		Mask: AttrMask(m.Mask), State: State(m.State), CurState: State(m.CurState), Port: m.Port,
		PathMTU: m.PathMTU,
		Timeout: m.Timeout, RetryCount: m.RetryCount, RNRRetry: m.RNRRetry, MinRNRTimer: m.MinRNRTimer,
		MaxRdAtomic: m.MaxRdAtomic, MaxDestRdAtomic: m.MaxDestRdAtomic, PKeyIndex: m.PKeyIndex,
		Access: Access(m.Access),
		RQPSN:  m.RQPSN, SQPSN: m.SQPSN, DestQPN: m.DestQPN, Device: m.GUID, QKey: m.QKey,
	}
}

// Modify changes the state and the attributes that a.Mask names, by the rules
// of verbs: each transition requires some attributes and allows some others. If the
// device refuses, nothing changes and the error names the rule. A change to StateRST
// empties the queues. During such a call, do not post to the queue pair and do not poll
// its CQs.
func (q *QP) Modify(a *Attr) error {
	if a == nil {
		return wrap(modifying, control.Errorf(control.CodeInvalid, "no attributes (nil)"))
	}
	q.changes.Lock()
	defer q.changes.Unlock()
	if q.closed.Load() {
		return wrap(modifying, ErrClosed)
	}
	if _, err := q.c.call(modifying, control.OpModifyQP, a.request(q.qpn), &control.Empty{}); err != nil {
		return err
	}
	q.changed(a)
	return nil
}

// modifying is what errors of the requests of Modify begin with.
const modifying = "modify QP"

// changed notes what a request of Modify has changed.
func (q *QP) changed(a *Attr) {
	if a.Mask&AttrQKey != 0 {
		q.qkey.Store(a.QKey)
	}
	if a.Mask&AttrState != 0 {
		if a.State == StateRST {
			q.reset()
		}
		q.state.Store(uint32(a.State))
	}
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
