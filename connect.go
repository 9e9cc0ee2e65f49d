package nicless

import (
	"errors"
	"fmt"
	"net/netip"

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
	if err := q.setPeer(what, &peer); err != nil {
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
		rts.Timeout, rts.RetryCount, rts.RNRRetry, rts.MaxRdAtomic = uint8(o.Timeout), uint8(o.Retry), uint8(o.RNRRetry), most
	}
	if err := q.Modify(rtr); err != nil {
		return q.refusedIn(what, err)
	}
	err := q.Modify(rts)
	if err == nil {
		return nil
	}
	if a, queryErr := q.Query(); queryErr == nil && a.State == StateERR {
		// The peer's first request came between the two Modify calls, and was refused.
		return wrap(what, control.Errorf(control.CodeState,
			"QP %#06x went into error while it was being connected, by a request of QP %#06x that it had to refuse; the device's explanation says why", q.qpn, peer.QPN))
	}
	return err
}

// setPeer tells the engine where the peer is, if it is on another engine or was on one before.
func (q *QP) setPeer(what string, peer *Descriptor) error {
	away := peer.Device != q.c.limits.GUID
	if !away && !q.away.Load() || q.c.limits.Minor < minorPeer {
		return nil
	}
	m := &control.Peer{QPN: q.qpn, GUID: peer.Device}
	if peer.Address.IsValid() {
		m.GID = peer.Address.As16()
	}
	if _, err := q.c.call(what, control.OpSetPeer, m, &control.Empty{}); err != nil {
		return q.refusedIn(what, err)
	}
	q.away.Store(away)
	return nil
}

// minorPeer is the minor version of the protocol that has OpAddress and OpSetPeer.
const minorPeer = 2

// address returns the IP address of the engine; the zero Addr if it has none.
func (c *client) address() netip.Addr {
	var a control.Address
	if c.limits.Minor < minorPeer {
		return netip.Addr{}
	}
	if _, err := c.call("address", control.OpAddress, &control.Empty{}, &a); err != nil || a == (control.Address{}) {
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
		if text = "active already"; q.transport != UD {
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

// psn returns the first packet sequence number of this side. Any number will do, because the peer is told it.
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
