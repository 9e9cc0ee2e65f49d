package hostpath

import (
	"errors"

	"github.com/nicless/nicless/internal/control"
)

// Attr is the state and the attributes of a queue pair. With Mask it is a
// request to change them: see Modify.
type Attr = control.QPAttr

// Connection says how a connection behaves. The zero value is right for most.
type Connection struct {
	// RNRRetry is how often a send is tried again while the peer has no receive
	// posted: 1 to 6 times. Zero means for ever, NoRetry not once.
	RNRRetry int

	// Retry is how often a send is tried again while the peer does not answer:
	// 1 to 7 times. Zero means 7, NoRetry not once.
	Retry int

	// Timeout is the time for one such try: 4.096 us << Timeout, 1 to 31. Zero
	// means 14, 67 ms.
	Timeout int

	// MinRNRTimer is the code of the time between tries that this side asks
	// for when it has no receive posted, 1 to 31. Zero means 12, 0.64 ms.
	MinRNRTimer int
}

// NoRetry, as a count of retries, means none.
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
		case *f.v < 1 || *f.v > f.most:
			return control.Errorf(control.CodeInvalid, "%s %d; 1 to %d are possible", f.name, *f.v, f.most)
		}
	}
	return nil
}

// toInit takes the queue pair from RST to INIT.
func (q *QP) toInit() error {
	return q.Modify(&Attr{
		Mask:  control.AttrState | control.AttrAccess | control.AttrPKeyIndex | control.AttrPort,
		State: control.StateINIT, Access: uint32(q.access), Port: 1,
	})
}

// Connect connects the queue pair with the one that peer describes, which has
// to connect back. Both must be clients of one engine.
func (q *QP) Connect(peer Descriptor, o Connection) error {
	if err := peer.check(); err != nil {
		return wrap("connect", err)
	}
	if err := o.fill(); err != nil {
		return wrap("connect", err)
	}
	if mine := q.pd.ctx.Device(); peer.Device != mine {
		return wrap("connect", control.Errorf(control.CodeInvalid,
			"the peer is a client of engine %016x, this one of %016x; both must use one engine", peer.Device, mine))
	}
	err := q.Modify(&Attr{
		Mask: control.AttrState | control.AttrAV | control.AttrPathMTU | control.AttrDestQPN | control.AttrRQPSN |
			control.AttrMaxDestRdAtom | control.AttrMinRNRTimer,
		State: control.StateRTR, GUID: peer.Device, PathMTU: 5, DestQPN: peer.QPN, RQPSN: peer.PSN,
		MaxDestRdAtomic: q.pd.ctx.limits.MaxRdAtomic, MinRNRTimer: uint8(o.MinRNRTimer),
	})
	if err != nil {
		return err
	}
	return q.Modify(&Attr{
		Mask: control.AttrState | control.AttrTimeout | control.AttrRetryCount | control.AttrRNRRetry |
			control.AttrSQPSN | control.AttrMaxRdAtomic,
		State: control.StateRTS, Timeout: uint8(o.Timeout), RetryCount: uint8(o.Retry), RNRRetry: uint8(o.RNRRetry),
		SQPSN: q.psn(), MaxRdAtomic: q.pd.ctx.limits.MaxRdAtomic,
	})
}

// psn is the first packet sequence number of this side. Nothing is cut into
// packets here, so any number will do.
func (q *QP) psn() uint32 { return q.qpn * 0x9e3779b1 >> 8 }

// Modify changes the state and the attributes that a.Mask names, by the rules
// of verbs: each transition has attributes that it needs and others that it
// takes. A refusal changes nothing and says which rule. After a change to RST
// the queues are empty; nobody may post or poll during such a call.
func (q *QP) Modify(a *Attr) error {
	if q.closed.Load() {
		return wrap("modify QP", ErrClosed)
	}
	req := *a
	req.QPN = q.qpn
	if _, err := q.pd.ctx.call("modify QP", control.OpModifyQP, &req, &control.Empty{}, nil); err != nil {
		return err
	}
	if a.Mask&control.AttrState != 0 {
		if a.State == control.StateRST {
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
	var a Attr
	_, err := q.pd.ctx.call("query QP", control.OpQueryQP, &control.QPN{QPN: q.qpn}, &a, nil)
	return a, err
}

// Pair connects two queue pairs of this program with each other.
func Pair(a, b *QP, o Connection) error {
	return errors.Join(a.Connect(b.Descriptor(), o), b.Connect(a.Descriptor(), o))
}
