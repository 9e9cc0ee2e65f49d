//go:build linux && (amd64 || arm64)

package report

import (
	"math/bits"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/outage"
	"github.com/nicless/nicless/engine/internal/rights"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
)

// These functions find the reason for a failure that has already happened. A client learns
// little about objects that are neither its own nor its peer's: at most that a queue pair
// of this number exists.

// whyNoTarget returns why no DCT answers q's WQE. A client without the key of a DCT gets to know
// only that it exists.
func (sh *Reporter) whyNoTarget(q *object.QP) object.Reason {
	to, p := &q.DC.To, sh.TargetOf(q)
	switch {
	case p == nil:
		return object.Because(codes.DCNoTarget, "no DCT has the number %#06x", to.DQP)
	case !sh.Outages.Carry(q.Client.Hosted.Port, p.Client.Hosted.Port):
		return sh.WhyNotCarried(q.Client, p.Client)
	case p.DC.Key == bits.ReverseBytes64(to.Key):
		return object.Because(codes.DCKey, "DCT %#06x drops requests with this access key, which was stored in host byte order", to.DQP)
	case p.DC.Key != to.Key:
		return object.Because(codes.DCKey, "DCT %#06x drops requests with this access key; its key is another", to.DQP)
	case !object.LeadsTo(to, q.Client, p.Client):
		return object.Because(codes.DCNoTarget, "DCT %#06x exists, but the address vector does not lead to its port (LID %#x, GID %x)", to.DQP, to.RLID, to.RGID)
	}
	return object.Because(codes.DCNoTarget, "DCT %#06x is in state %s; it answers in RTR", to.DQP, states.Name(p.Attr.State))
}

// A Use is an access to memory that a segment names.
type Use struct {
	Name string // lkey or rkey
	Key  uint32
	Addr uint64
	N    uint64
	Need uint32 // rights that the access needs
	zero bool   // the segment's byte_count is 0, which means n bytes

	Client *object.Client // only keys of this client are explained
	PD     *object.PD     // protection domain to which the key must belong
	QP     *object.QP     // queue pair that the key must serve
}

// LocalUse is the use of a data segment by a queue pair.
func LocalUse(d wqe.Data, need uint32, q *object.QP, p *object.PD) Use {
	return Use{"lkey", d.LKey, d.Addr, d.Length(), need, d.ByteCount == 0, q.Client, p, q}
}

// WhyNoAccess returns why a key does not give access.
func (sh *Reporter) WhyNoAccess(u Use) object.Reason {
	k, swapped, other := sh.keyOf(u.Client, u.Key), bits.ReverseBytes32(u.Key), sh.Keys.FindIndex(u.Key)
	switch {
	case k == nil && sh.keyOf(u.Client, swapped) != nil:
		return object.Because(codes.KeyByteOrder, "%s %#08x names nothing, but %#08x does: it was stored in host byte order", u.Name, u.Key, swapped)
	case k == nil && other != nil && other.Client == u.Client:
		return object.Because(codes.KeyStale, "%s %#08x: the index exists, the variant %#02x is stale", u.Name, u.Key, u.Key&0xff)
	case k == nil:
		return object.Because(codes.KeyUnknown, "%s %#08x names no memory region", u.Name, u.Key)
	case k.Free:
		return object.Because(codes.KeyUnbound, "%s %#08x is not bound, or has been invalidated", u.Name, u.Key)
	case k.Window != nil && u.Name == "lkey":
		return object.Because(codes.KeyWindow, "lkey %#08x is of a memory window, which gives remote access only", u.Key)
	case k.Domain() != u.PD:
		return object.Because(codes.KeyDomain, "%s %#08x belongs to another protection domain than the QP", u.Name, u.Key)
	case k.Window != nil && k.Window.Kind == 2 && k.Window.Serial != u.QP.Serial:
		return object.Because(codes.KeyWindow, "%s %#08x is a window of QP %#06x, not of QP %#06x", u.Name, u.Key, k.Window.QPN, u.QP.Num)
	case k.Access&u.Need != u.Need:
		return object.Because(codes.KeyAccess, "%s %#08x gives %s, %s is needed", u.Name, u.Key,
			rights.Names(k.Access), rights.Names(u.Need&^k.Access))
	case u.Addr-k.Base <= k.Size && u.N <= k.Size-(u.Addr-k.Base) && len(k.List) > 0:
		return object.Because(codes.KeyList, "%s %#08x: an entry of its list is outside the memory that it names", u.Name, u.Key)
	case u.zero:
		return object.Because(codes.LengthZero, "%s %#08x: byte_count 0 stands for 2^31 bytes, of which the key has %d; leave empty pieces out", u.Name, u.Key, k.Size)
	}
	return object.Because(codes.KeyRange, "%s %#08x: %d bytes at %#x are outside its %d bytes at %#x", u.Name, u.Key, u.N, u.Addr, k.Size, k.Base)
}

// keyOf returns the mkey that a key names, if that mkey belongs to this client; otherwise
// nil.
func (sh *Reporter) keyOf(c *object.Client, key uint32) *object.Mkey {
	if k := sh.Keys.Find(key); k != nil && k.Client == c {
		return k
	}
	return nil
}

// WhyNoPeer returns why q cannot reach its peer. If the peer belongs to another client and is not
// connected back to q, the reason says only that the peer exists. If q is not connected to the
// queue pair that has its peer's number now, the reason does not say even that.
func (sh *Reporter) WhyNoPeer(q *object.QP) object.Reason {
	if q.Transport == control.QPTypeDCI {
		return sh.whyNoTarget(q)
	}
	p := sh.BoundPeer(q)
	switch {
	case outage.Cut(q.Conn.Bound):
		return WhyCut(q)
	case p != nil && outage.Cut(p.Conn.Bound):
		return WhyCut(p)
	case q.Conn.Bound == 0:
		return object.Because(codes.PeerMissing, "peer QP %#06x did not exist in this engine when this queue pair went to RTR; one that has the number later is another", q.Attr.DestQPN)
	case p == nil:
		return object.Because(codes.PeerGone, "peer QP %#06x, to which this queue pair was connected, has ended; one that has the number later is another", q.Attr.DestQPN)
	case p.Client != q.Client && p.Conn.Bound != q.Serial:
		return object.Because(codes.PeerNotBack, "peer QP %#06x exists, but does not answer: it is not connected back to %#06x, or not yet", p.Num, q.Num)
	case p.Transport != q.Transport:
		return object.Because(codes.PeerTransport, "peer QP %#06x is of transport %s, this one of %s", p.Num,
			states.Transports[p.Transport].Name, states.Transports[q.Transport].Name)
	case p.Conn.Bound != q.Serial && p.Attr.DestQPN == q.Num:
		return object.Because(codes.PeerNotBack, "peer QP %#06x is not connected back: it went to RTR before this queue pair existed, when %#06x was nobody's or another's", p.Num, q.Num)
	case p.Conn.Bound != q.Serial && p.Attr.State >= control.StateRTR:
		return object.Because(codes.PeerNotBack, "peer QP %#06x is not connected back: its peer is %#06x, not %#06x", p.Num, p.Attr.DestQPN, q.Num)
	}
	return object.Because(codes.PeerState, "peer QP %#06x is in state %s; it answers in RTR and RTS", p.Num, states.Name(p.Attr.State))
}

// WhyCut returns why q, whose connection is cut, reaches nobody.
func WhyCut(q *object.QP) object.Reason {
	if q.Conn.Bound&outage.PortDown != 0 {
		return object.Because(codes.PortDown, "the port of %s, the device of QP %#06x, is down", deviceOf(q), q.Num)
	}
	return object.Because(codes.GIDChanged, "the GID of %s, the device of QP %#06x, has changed since the queue pair was connected", deviceOf(q), q.Num)
}

// deviceOf returns the name of the device that q's client sees.
func deviceOf(q *object.QP) string { return nameOf(q.Client, q.Client.Hosted.Port) }

// nameOf returns the name of a device.
func nameOf(c *object.Client, n uint8) string { return nic.Names(c.Device.Settings.Names).Of(n) }

// WhyNotCarried returns why nothing of one client reaches another, or is reached from a link: then both are
// the same client.
func (sh *Reporter) WhyNotCarried(from, to *object.Client) object.Reason {
	n := from.Hosted.Port
	if !sh.Outages.Down(n) {
		n = to.Hosted.Port
	}
	if sh.Outages.Down(n) {
		return object.Because(codes.PortDown, "the port of %s is down", nameOf(from, n))
	}
	return object.Because(codes.GIDChanged, "the address is none of %s, whose GID has changed", nameOf(from, n))
}

// WhyNoRoom returns why a completion queue has no room.
func WhyNoRoom(q *object.CQ) object.Reason {
	if q.Filled != "" {
		return object.Because(codes.FaultInjected, "injected by %s", q.Filled)
	}
	word := q.Consumer.Observe()
	n := uint64(1) << q.Log
	unread := q.Next - q.Taken // according to the last valid consumer index
	ahead := func(index uint32) uint64 { return uint64(index-uint32(q.Taken)) & 0xffffff }
	swapped := bits.ReverseBytes32(word)
	switch {
	case word>>16 != 0 && word&0xffff == 0 && inFirstLap(q.Next, n) && swapped != 0 &&
		ahead(swapped) <= unread:
		return object.Because(codes.CQByteOrder, "consumer index %#08x is %d in host byte order", word, swapped)
	case ahead(word) > unread:
		return object.Because(codes.CQIndex, "consumer index %#06x is not among the %d completions from %#06x on", word&0xffffff, unread, q.Taken&0xffffff)
	case word == 0 && q.Taken == 0:
		return object.Because(codes.CQNeverPolled, "its consumer index has never been advanced")
	}
	return object.Because(codes.CQOverrun, "consumer index %#06x", word&0xffffff)
}
