//go:build linux && (amd64 || arm64)

package replay

import (
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
)

// header gives the client of a UD queue pair the GID that a datagram of it had as its source. h is the header
// of the datagram, as the receiver found it: a GRH or, in its last 20 bytes, a header of IPv4. A client that
// had no GID table has none in the replay either: the device then writes the GID of the receiver, whatever
// the WQE says.
func (r *replayer) header(q *queue, index uint16, h []byte) {
	b := q.wqe(index)
	if len(b) < wqe.CtrlSize+wqe.AVSize {
		return
	}
	av := wqe.ParseAV((*[wqe.AVSize]byte)(b[wqe.CtrlSize:]))
	var from, to nic.GID
	const ipv4At, nextUDP = grhSize - 20, 17
	switch {
	case h[0]>>4 == 6:
		from, to.Addr = nic.GID{Addr: [16]byte(h[8:24]), UDP: h[6] == nextUDP}, [16]byte(h[24:40])
	case h[ipv4At]>>4 == 4:
		from = nic.GID{Addr: [16]byte{10: 0xff, 11: 0xff}, UDP: true}
		to.Addr = from.Addr
		copy(from.Addr[12:], h[ipv4At+12:ipv4At+16])
		copy(to.Addr[12:], h[ipv4At+16:ipv4At+20])
	default:
		return // InfiniBand: the datagram has none
	}
	c := q.client
	if c.gids == nil && from.Addr == q.info.GID && !from.UDP && to.Addr != av.RGID {
		return
	}
	i := int(av.GRH >> 20 & 0xff)
	if i < len(c.gids) && c.gids[i] == from {
		return
	}
	for len(c.gids) <= i {
		c.gids = append(c.gids, nic.GID{})
	}
	c.gids[i] = from
	_ = c.SetGIDs(c.gids) // the client is there, and the table is not too long
}
