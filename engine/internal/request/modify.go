//go:build linux && (amd64 || arm64)

package request

import (
	"fmt"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/outage"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/rights"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// An Attribute is an attribute of a queue pair that a modify request can set besides the state.
type Attribute struct {
	Bit      uint32 // in QPAttr.Mask
	Name     string
	Value    func(*control.QPAttr) uint64
	Min, Max uint64 // the least and the greatest value that is possible
	Set      func(dst, src *control.QPAttr)
}

// Attributes has all attributes.
var Attributes = []Attribute{
	{control.AttrAccess, "access", func(a *control.QPAttr) uint64 { return uint64(a.Access) },
		0, 0xffffffff, func(d, s *control.QPAttr) { d.Access = s.Access }},
	{control.AttrPKeyIndex, "pkey_index", func(a *control.QPAttr) uint64 { return uint64(a.PKeyIndex) },
		0, 0, func(d, s *control.QPAttr) { d.PKeyIndex = s.PKeyIndex }},
	{control.AttrPort, "port", func(a *control.QPAttr) uint64 { return uint64(a.Port) },
		1, 1, func(d, s *control.QPAttr) { d.Port = s.Port }},
	{control.AttrAV, "guid", func(a *control.QPAttr) uint64 { return a.GUID },
		0, ^uint64(0), func(d, s *control.QPAttr) { d.GUID = s.GUID }},
	{control.AttrPathMTU, "path_mtu", func(a *control.QPAttr) uint64 { return uint64(a.PathMTU) },
		1, 5, func(d, s *control.QPAttr) { d.PathMTU = s.PathMTU }},
	{control.AttrQKey, "qkey", func(a *control.QPAttr) uint64 { return uint64(a.QKey) },
		0, 0xffffffff, func(d, s *control.QPAttr) { d.QKey = s.QKey }},
	{control.AttrTimeout, "timeout", func(a *control.QPAttr) uint64 { return uint64(a.Timeout) },
		0, 31, func(d, s *control.QPAttr) { d.Timeout = s.Timeout }},
	{control.AttrRetryCount, "retry_count", func(a *control.QPAttr) uint64 { return uint64(a.RetryCount) },
		0, 7, func(d, s *control.QPAttr) { d.RetryCount = s.RetryCount }},
	{control.AttrRNRRetry, "rnr_retry", func(a *control.QPAttr) uint64 { return uint64(a.RNRRetry) },
		0, 7, func(d, s *control.QPAttr) { d.RNRRetry = s.RNRRetry }},
	{control.AttrRQPSN, "rq_psn", func(a *control.QPAttr) uint64 { return uint64(a.RQPSN) },
		0, 0xffffff, func(d, s *control.QPAttr) { d.RQPSN = s.RQPSN }},
	{control.AttrMaxRdAtomic, "max_rd_atomic", func(a *control.QPAttr) uint64 { return uint64(a.MaxRdAtomic) },
		0, object.MaxRdAtomic, func(d, s *control.QPAttr) { d.MaxRdAtomic = s.MaxRdAtomic }},
	{control.AttrMinRNRTimer, "min_rnr_timer", func(a *control.QPAttr) uint64 { return uint64(a.MinRNRTimer) },
		0, 31, func(d, s *control.QPAttr) { d.MinRNRTimer = s.MinRNRTimer }},
	{control.AttrSQPSN, "sq_psn", func(a *control.QPAttr) uint64 { return uint64(a.SQPSN) },
		0, 0xffffff, func(d, s *control.QPAttr) { d.SQPSN = s.SQPSN }},
	{control.AttrMaxDestRdAtom, "max_dest_rd_atomic", func(a *control.QPAttr) uint64 { return uint64(a.MaxDestRdAtomic) },
		0, object.MaxRdAtomic, func(d, s *control.QPAttr) { d.MaxDestRdAtomic = s.MaxDestRdAtomic }},
	{control.AttrDestQPN, "dest_qpn", func(a *control.QPAttr) uint64 { return uint64(a.DestQPN) },
		0, 0xffffff, func(d, s *control.QPAttr) { d.DestQPN = s.DestQPN }},
}

// AttributeNames returns the names of the attributes in a mask.
func AttributeNames(mask uint32) (names []string) {
	for _, a := range Attributes {
		if mask&a.Bit != 0 {
			names = append(names, a.Name)
			mask &^= a.Bit
		}
	}
	if mask&control.AttrCurState != 0 {
		names = append(names, "cur_state")
	}
	return names
}

func modifyQP(c *Client, m *control.QPAttr, _ object.RequestMemory,
	_ *control.Reply) (control.Message, error) {
	q, ok := c.QPs[m.QPN]
	if !ok {
		return nil, object.NotFound("QP", m.QPN)
	}
	if err := c.change(q, m); err != nil {
		return nil, err
	}
	c.Device.recordQueue(q, q.Watched)
	return &control.Empty{}, nil
}

// change changes the state and the attributes of a QP. If it returns an error, or faults because a guarded
// ring has no memory, it has changed nothing but the bytes of that ring.
func (c *Client) change(q *object.QP, m *control.QPAttr) error {
	sh := c.Loop()
	from, to := q.Attr.State, q.Attr.State
	if m.Mask&control.AttrCurState != 0 && m.CurState != from {
		return control.Errorf(control.CodeState, "QP %#06x: cur_state says %s, but the state is %s", q.Num, states.Name(m.CurState), states.Name(from))
	}
	if m.Mask&control.AttrState != 0 {
		to = m.State
	}
	required, optional, ok := states.Transition(q.Transport, q.Target() != nil, from, to)
	if !ok {
		return control.Errorf(control.CodeState, "QP %#06x: no transition from %s to %s", q.Num, states.Name(from), states.Name(to))
	}
	given := m.Mask &^ control.AttrState
	if missing := required &^ given; missing != 0 {
		return control.Errorf(control.CodeInvalid, "QP %#06x: %s to %s needs %v", q.Num, states.Name(from),
			states.Name(to), AttributeNames(missing))
	}
	if extra := given &^ (required | optional | control.AttrCurState); extra != 0 {
		return control.Errorf(control.CodeInvalid, "QP %#06x: %s to %s does not take %v (mask %#x)", q.Num,
			states.Name(from), states.Name(to), AttributeNames(extra), extra)
	}
	for _, a := range Attributes {
		if v := a.Value(m); given&a.Bit != 0 && (v < a.Min || v > a.Max) {
			return control.Errorf(control.CodeInvalid, "QP %#06x: %s %d; %d to %d are possible", q.Num, a.Name, v, a.Min, a.Max)
		}
	}
	if from == control.StateRST && to != control.StateRST && (q.SQ.CQ.Dead || q.RQ.CQ.Dead) {
		return control.Errorf(control.CodeState, "QP %#06x: its CQ has overrun and takes no more completions", q.Num)
	}
	if given&control.AttrAccess != 0 && m.Access&^control.AccessAll != 0 {
		return rights.Unknown(fmt.Sprintf("QP %#06x", q.Num), m.Access)
	}
	path := q.SetPath()
	if given&control.AttrAV != 0 {
		var err error
		if path, err = c.route(q, m.GUID); err != nil {
			return err
		}
	}
	wired := to == control.StateRTR && from != to && q.HasPeer() && path.Port != nil
	if wired {
		if err := sh.Ledger.Take(q.Client.UID, quota.Charge{quota.Memory: object.WireCost}); err != nil {
			return err
		}
	}
	if to == control.StateRST {
		markRing(q) // before anything changes, because it may fault
	}
	for _, a := range Attributes {
		if given&a.Bit != 0 {
			a.Set(&q.Attr, m)
		}
	}
	if to != from || to == control.StateRST {
		if to == control.StateERR || to == control.StateSQE {
			sh.NewFault()
			sh.StopsBecause(q, codes.QPMoved, "the client has moved the queue pair from %s to %s (modify_qp)",
				states.Name(from), states.Name(to))
		}
		sh.SetState(q, to)
	}
	if to == control.StateRST {
		if q.Source != nil {
			q.Source.Reset(q.Num)
		}
		q.Client.ReleasePeer(q)
	}
	if from == control.StateRTR && to == control.StateRTS && q.Wire != nil {
		q.Wire.BeginSending()
	}
	sh.Watchdog.Owners.Connect(uint64(q.Num), q.Attr.DestQPN)
	if wired {
		q.Conn.Path = &path
		// Only the thread of the port's shard may use the port's rings.
		c.Device.Follow(q.Client, path.Port.(*transport.PortHandle).Port.Shard)
		sh.ConnectWire(q, path)
	} else if to == control.StateRTR && q.HasPeer() {
		c.bind(q)
	}
	if to == control.StateRTR && from != to && c.Device.Outages.Down(c.Hosted.Port) {
		ports{c.Device}.cut(q, outage.PortDown)
	}
	return nil
}

// route returns the path to the device with this GUID, for the next transition of q to RTR. It is the path
// that the client has set before, or a path that a link knows. The zero path leads to this device.
func (c *Client) route(q *object.QP, guid uint64) (nic.Path, error) {
	switch {
	case q.Conn.Set != nil && guid != q.Conn.Set.GUID:
		return nic.Path{}, control.Errorf(control.CodeInvalid, "QP %#06x: the peer's device is %016x, but set_peer has named %016x", q.Num, guid, q.Conn.Set.GUID)
	case q.Conn.Set != nil:
		return q.Conn.Set.Path, nil
	case guid == c.Device.Runner.GUID, q.Transport == control.QPTypeUD:
		return q.SetPath(), nil
	}
	why := noLinks
	if c.Device.Router != nil {
		path, err := c.Device.Router.Route(nic.Address{GUID: guid})
		if err == nil && path.Port != nil {
			return path, nil
		}
		if err != nil {
			why = err.Error()
		}
	}
	return nic.Path{}, noPath(c.Device, q.Num, guid, why)
}

func queryQP(c *Client, m *control.QPN, _ object.RequestMemory, _ *control.Reply) (control.Message, error) {
	q, ok := c.QPs[m.QPN]
	if !ok {
		return nil, object.NotFound("QP", m.QPN)
	}
	attr := q.Attr
	attr.Executed = uint16(q.SQ.Done)
	attr.Announced = attr.Executed
	if attr.State == control.StateRTS || attr.State == control.StateSQD { // otherwise the record says nothing
		attr.Announced = uint16(announcedTo(c.Loop(), q))
	}
	return &attr, nil
}
