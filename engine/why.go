//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"math/bits"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// These functions find the reason for a failure that has already happened. A client learns
// little about objects that are neither its own nor its peer's: at most that a queue pair
// of this number exists.

// A reason is why something failed. Its text is formatted only if it is used.
type reason struct {
	code   codes.Code
	format string
	args   []any
}

func because(code codes.Code, format string, args ...any) reason { return reason{code, format, args} }

// String returns the text.
func (r reason) String() string { return fmt.Sprintf(r.format, r.args...) }

// A use is an access to memory that a segment names.
type use struct {
	name string // lkey or rkey
	key  uint32
	addr uint64
	n    uint64
	need uint32 // rights that the access needs
	zero bool   // the segment's byte_count is 0, which means n bytes

	client *client // only keys of this client are explained
	pd     *pd     // protection domain to which the key must belong
	qp     *qp     // queue pair that the key must serve
}

// localUse is the use of a data segment by a queue pair.
func localUse(d wqe.Data, need uint32, q *qp, p *pd) use {
	return use{"lkey", d.LKey, d.Addr, d.Length(), need, d.ByteCount == 0, q.client, p, q}
}

// whyNoAccess returns why a key does not give access.
func (sh *reporter) whyNoAccess(u use) reason {
	k, swapped, other := sh.keyOf(u.client, u.key), bits.ReverseBytes32(u.key), sh.keys.findIndex(u.key)
	switch {
	case k == nil && sh.keyOf(u.client, swapped) != nil:
		return because(codes.KeyByteOrder, "%s %#08x names nothing, but %#08x does: it was stored in host byte order", u.name, u.key, swapped)
	case k == nil && other != nil && other.client == u.client:
		return because(codes.KeyStale, "%s %#08x: the index exists, the variant %#02x is stale", u.name, u.key, u.key&0xff)
	case k == nil:
		return because(codes.KeyUnknown, "%s %#08x names no memory region", u.name, u.key)
	case k.free:
		return because(codes.KeyUnbound, "%s %#08x is not bound, or has been invalidated", u.name, u.key)
	case k.window != nil && u.name == "lkey":
		return because(codes.KeyWindow, "lkey %#08x is of a memory window, which gives remote access only", u.key)
	case k.domain() != u.pd:
		return because(codes.KeyDomain, "%s %#08x belongs to another protection domain than the QP", u.name, u.key)
	case k.window != nil && k.window.kind == 2 && k.window.serial != u.qp.serial:
		return because(codes.KeyWindow, "%s %#08x is a window of QP %#06x, not of QP %#06x", u.name, u.key, k.window.qpn, u.qp.num)
	case k.access&u.need != u.need:
		return because(codes.KeyAccess, "%s %#08x: its access (%s) lacks %s", u.name, u.key, rights(k.access), rights(u.need&^k.access))
	case u.addr-k.base <= k.size && u.n <= k.size-(u.addr-k.base) && len(k.list) > 0:
		return because(codes.KeyList, "%s %#08x: an entry of its list is outside the memory that it names", u.name, u.key)
	case u.zero:
		return because(codes.LengthZero, "%s %#08x: byte_count 0 stands for 2^31 bytes, of which the key has %d; leave empty pieces out", u.name, u.key, k.size)
	}
	return because(codes.KeyRange, "%s %#08x: %d bytes at %#x are outside its %d bytes at %#x", u.name, u.key, u.n, u.addr, k.size, k.base)
}

// keyOf returns the mkey that a key names, if that mkey belongs to this client; otherwise
// nil.
func (sh *reporter) keyOf(c *client, key uint32) *mkey {
	if k := sh.keys.find(key); k != nil && k.client == c {
		return k
	}
	return nil
}

// whyNoPeer returns why q cannot reach its peer. If the peer belongs to another client and is
// not connected back to q, the reason tells only that the peer exists. If q is not connected
// to the queue pair that has its peer's number now, the reason does not tell even that.
func (sh *reporter) whyNoPeer(q *qp) reason {
	if q.transport == control.QPTypeDCI {
		return sh.whyNoTarget(q)
	}
	p := sh.boundPeer(q)
	switch {
	case q.conn.bound == 0:
		return because(codes.PeerMissing, "peer QP %#06x did not exist in this engine when this queue pair went to RTR; one that has the number later is another", q.attr.DestQPN)
	case p == nil:
		return because(codes.PeerGone, "peer QP %#06x, to which this queue pair was connected, has ended; one that has the number later is another", q.attr.DestQPN)
	case p.client != q.client && p.conn.bound != q.serial:
		return because(codes.PeerNotBack, "peer QP %#06x exists, but does not answer: it is not connected back to %#06x, or not yet", p.num, q.num)
	case p.transport != q.transport:
		return because(codes.PeerTransport, "peer QP %#06x is of transport %s, this one of %s", p.num, transports[p.transport].name, transports[q.transport].name)
	case p.conn.bound != q.serial && p.attr.DestQPN == q.num:
		return because(codes.PeerNotBack, "peer QP %#06x is not connected back: it went to RTR before this queue pair existed, when %#06x was nobody's or another's", p.num, q.num)
	case p.conn.bound != q.serial && p.attr.State >= control.StateRTR:
		return because(codes.PeerNotBack, "peer QP %#06x is not connected back: its peer is %#06x, not %#06x", p.num, p.attr.DestQPN, q.num)
	}
	return because(codes.PeerState, "peer QP %#06x is in state %s; it answers in RTR and RTS", p.num, stateName(p.attr.State))
}

// whyNoRoom returns why a completion queue has no room.
func whyNoRoom(q *cq) reason {
	word := q.consumer.Observe()
	n := uint64(1) << q.log
	unread := q.next - q.seen // according to the last valid consumer index
	ahead := func(index uint32) uint64 { return uint64(index-uint32(q.seen)) & 0xffffff }
	switch swapped := bits.ReverseBytes32(word); {
	case word>>16 != 0 && word&0xffff == 0 && inFirstLap(q.next, n) && swapped != 0 && ahead(swapped) <= unread:
		return because(codes.CQByteOrder, "consumer index %#08x is %d in host byte order", word, swapped)
	case ahead(word) > unread:
		return because(codes.CQIndex, "consumer index %#06x is not among the %d completions from %#06x on", word&0xffffff, unread, q.seen&0xffffff)
	case word == 0 && q.seen == 0:
		return because(codes.CQNeverPolled, "its consumer index has never been advanced")
	}
	return because(codes.CQOverrun, "consumer index %#06x", word&0xffffff)
}
