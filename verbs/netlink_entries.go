//go:build linux && (amd64 || arm64)

package verbs

import (
	"slices"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/nicless/nicless/verbs/internal/nldev"
)

// Answers of NETLINK_RDMA about one resource.

// An entry is a resource as netlink shows it.
type entry struct {
	port       uint32 // 0: it has none
	attributes nldev.List
}

// entry returns a resource's entry. It reports false if the resource is gone, or is one of the driver and the
// request does not ask for those.
func (c *netlinkCall) entry(d *device, which int, r resource) (e entry, ok bool) {
	if which == nldev.CMID {
		return c.idEntry(d, r.id)
	}
	owner := nldev.Owner{PID: c.k.seen.number(r.x.opener)}
	if which == nldev.Context {
		return entry{attributes: nldev.ContextInfo{Owner: owner, ID: r.id}.Attributes()}, true
	}
	r.x.mu.Lock()
	defer r.x.mu.Unlock()
	o := r.x.objects[r.handle]
	if o == nil || o.kind != resourceKinds[which] || o.id() != r.id {
		return e, false
	}
	switch self := o.self.(type) {
	case *pd:
		e.attributes = nldev.PDInfo{Owner: owner, ID: r.id, Context: r.x.serial,
			Users: uint64(o.users)}.Attributes()
	case *cq:
		e.attributes = nldev.CQInfo{Owner: owner, ID: r.id, Context: r.x.serial, Entries: self.entries,
			Users: uint64(o.users)}.Attributes()
	case *mr:
		e.attributes = c.mrInfo(self, owner).Attributes()
	case *srq:
		e.attributes = srqInfo(r.x, self, owner).Attributes()
	case *qp:
		return c.qpEntry(r.x, self, owner)
	default:
		return e, false
	}
	return e, true
}

// usedID returns the number of the first object of a kind that o uses; nil: it uses none.
func (o *object) usedID(k kind) *uint32 {
	for _, u := range o.uses {
		if u.kind == k {
			id := u.id()
			return &id
		}
	}
	return nil
}

func (c *netlinkCall) mrInfo(m *mr, owner nldev.Owner) nldev.MRInfo {
	info := nldev.MRInfo{Owner: owner, ID: m.id(), PD: m.usedID(kindPD), Length: m.length}
	if c.k.isAdmin() {
		info.Key = &m.key
	}
	switch {
	case m.implicit():
		info.OnDemand = "implicit"
	case m.onDemand:
		info.OnDemand = "explicit"
	}
	return info
}

func srqInfo(x *uctx, q *srq, owner nldev.Owner) nldev.SRQInfo {
	info := nldev.SRQInfo{Owner: owner, ID: q.id(), PD: q.usedID(kindPD), CQ: q.usedID(kindCQ)}
	if q.xrc {
		info.Type = abi.SRQTXRC
	}
	for _, o := range x.objects {
		if o.kind == kindQP && slices.Contains(o.uses, q.object) {
			info.QPs = append(info.QPs, o.id())
		}
	}
	slices.Sort(info.QPs)
	return info
}

// qpType returns the type as verbs has it, and the kernel's name of a type of the driver.
func (q *qp) qpType() (number uint8, subtype string) {
	switch {
	case q.target != nil:
		return abi.QPTXRCTgt, ""
	case q.transport == control.QPTypeDCI:
		return nldev.QPTypeDriver, "DCI"
	case q.transport == control.QPTypeDCT:
		return nldev.QPTypeDriver, "DCT"
	case q.transport == control.QPTypeXRC:
		return abi.QPTXRCIni, ""
	}
	for verbs, device := range qpTypes {
		if device == q.transport {
			return uint8(verbs), ""
		}
	}
	return nldev.QPTypeDriver, ""
}

// qpEntry asks the device about a queue pair, as the kernel does.
func (c *netlinkCall) qpEntry(x *uctx, q *qp, owner nldev.Owner) (e entry, ok bool) {
	info := nldev.QPInfo{Owner: owner, Number: q.number, PD: q.usedID(kindPD)}
	info.Type, info.Subtype = q.qpType()
	if info.Type == nldev.QPTypeDriver && !c.attrs.Flag(nldev.AttrDriverDetails) {
		return e, false
	}
	if q.transport == control.QPTypeDCT { // its state is known here only
		info.State = verbsStates[q.stage]
		return entry{attributes: info.Attributes()}, true
	}
	m, _, err := x.request(control.OpQueryQP, &control.QPN{QPN: q.number})
	if err != nil {
		return e, false
	}
	a := m.(*control.QPAttr)
	info.State, info.Port = verbsStates[a.State], uint32(a.Port)
	info.Remote, info.RQPSN, info.SQPSN = a.DestQPN, a.RQPSN, a.SQPSN
	return entry{port: info.Port, attributes: info.Attributes()}, true
}

// idEntry returns the entry of an id of rdma_cm.
func (c *netlinkCall) idEntry(d *device, number uint32) (e entry, ok bool) {
	id, ok := c.k.s.manager.ID(int(d.index), number, c.k.sees)
	if !ok {
		return e, false
	}
	info := nldev.CMIDInfo{ID: id.Number, QPN: id.QPN, QPType: id.QPType, Space: uint32(id.Space),
		State: id.State, Src: id.Src, Dst: id.Dst}
	if p, ok := id.Owner.(*process); ok {
		info.PID = c.k.seen.number(p.opener)
	}
	if id.Attached {
		info.Port = 1
	}
	return entry{port: info.Port, attributes: info.Attributes()}, true
}
