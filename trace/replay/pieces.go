//go:build linux && (amd64 || arm64)

package replay

import (
	"slices"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// A piece is n bytes that a WQE or a receive names. mem is nil if they are inline, or if it is not known
// where they are.
type piece struct {
	mem  []byte
	n    uint64
	of   *client // whose memory it is
	addr uint64  // where it is in the client
	here bool    // it is inline, or a header that the device makes
}

// memory returns the memory under a key.
func (r *replayer) memory(k uint32, addr, n uint64) piece {
	x := r.keys[k>>8]
	if k == control.NullKey && x == nil {
		return piece{n: n, here: true} // zeros
	}
	if x == nil || x.key != k || x.setup.Window != 0 || x.setup.Entries != 0 {
		return piece{n: n}
	}
	if off := addr - x.info.Addr; off <= x.info.Length && n <= x.info.Length-off {
		at := x.setup.From + off
		return piece{mem: x.client.bytes(at, n), n: n, of: x.client, addr: at}
	}
	return piece{n: n}
}

// list returns the memory of data segments.
func (r *replayer) list(b []byte) (list []piece) {
	for ; len(b) >= wqe.DataSize; b = b[wqe.DataSize:] {
		d := wqe.ParseData((*[wqe.DataSize]byte)(b))
		if d.End() {
			break
		}
		list = append(list, r.memory(d.LKey, d.Addr, d.Length()))
	}
	return list
}

// local returns the memory of the data segments of a WQE.
func (r *replayer) local(v *wqe.View) (list []piece) {
	for segments := v.Data(); ; {
		d, inline, ok := segments.Next()
		switch {
		case !ok:
			return list
		case d.Inline():
			list = append(list, piece{n: uint64(len(inline)), here: true})
		default:
			list = append(list, r.memory(d.LKey, d.Addr, d.Length()))
		}
	}
}

// addresses says which address segment WQEs of a transport have.
var addresses = map[trace.Transport]wqe.Address{
	trace.UD: wqe.AddressUD, trace.RC: wqe.NoAddress, trace.UC: wqe.NoAddress,
}

// grhSize is how many bytes a datagram has before its payload.
const grhSize = 40

// ends returns the source and the destination of the bytes that a WQE moves, as far as they are known.
func (r *replayer) ends(q *queue, index uint16) (src, dst []piece, ctrl wqe.Ctrl) {
	b := q.wqe(index)
	ctrl = wqe.ParseCtrl((*[wqe.CtrlSize]byte)(b))
	if ctrl.Opcode == wqe.OpMMO {
		const source, target = wqe.CtrlSize + wqe.MMOMetaSize, wqe.CtrlSize + wqe.MMOMetaSize + wqe.DataSize
		if len(b) >= target+wqe.DataSize {
			src, dst = r.list(b[source:target]), r.list(b[target:target+wqe.DataSize])
		}
		return src, dst, ctrl
	}
	v, err := wqe.Parse(b, addresses[q.transport])
	if err != nil {
		return nil, nil, ctrl
	}
	info := ctrl.Opcode.Info()
	near := r.local(&v)
	var far []piece
	if s, ok := v.Find(wqe.KindRaddr); ok {
		a := wqe.ParseRaddr((*[wqe.RaddrSize]byte)(s.Bytes))
		far = []piece{r.memory(a.RKey, a.Addr, size(near))}
	} else if q.taken != nil {
		far = r.list(q.taken.list)
	}
	switch {
	case info.Reads:
		return far, near, ctrl
	case q.transport == trace.UD:
		near = slices.Insert(near, 0, piece{n: grhSize, here: true})
	}
	return near, far, ctrl
}

// wqe returns the bytes of the WQE that begins at an index, as far as its control segment has a size.
func (q *queue) wqe(index uint16) []byte {
	blocks := len(q.ring) / wqe.BlockSize
	at := int(index) % blocks * wqe.BlockSize
	n := max(int(wqe.ParseCtrl((*[wqe.CtrlSize]byte)(q.ring[at:])).DS)*wqe.UnitSize, wqe.UnitSize)
	b := slices.Clone(q.ring[at:min(at+n, len(q.ring))])
	return append(b, q.ring[:min(n-len(b), at)]...)
}

// size returns how many bytes pieces have.
func size(list []piece) (n uint64) {
	for _, p := range list {
		n += p.n
	}
	return n
}

// part calls f with the memory of n bytes from a place of a list on. It returns false if f does, or if not
// all of it is known; f gets nil for what is not.
func part(list []piece, at, n uint64, f func(mem []byte, n uint64) bool) bool {
	all := true
	for _, p := range list {
		if n == 0 {
			return all
		}
		if at >= p.n {
			at -= p.n
			continue
		}
		k := min(p.n-at, n)
		if p.mem != nil {
			all = f(p.mem[at:at+k], k) && all
		} else {
			f(nil, k)
			all = false
		}
		at, n = 0, n-k
	}
	return all && n == 0
}

// overlap reports whether two lists have bytes in common, or the second one has some twice.
func overlap(a, b []piece) bool {
	for i, x := range b {
		for _, y := range slices.Concat(a, b[i+1:]) {
			if x.mem != nil && y.mem != nil && x.of == y.of && x.addr < y.addr+y.n && y.addr < x.addr+x.n {
				return true
			}
		}
	}
	return false
}

// inCQE reports whether the n bytes of a WQE may be in its completion, in place of its memory.
func (r *replayer) inCQE(q *queue, ctrl wqe.Ctrl, n uint64) bool {
	info := ctrl.Opcode.Info()
	if info.Reads {
		return q.setup.Scatter&control.ScatterRequester != 0 && r.fits(q.info.SendCQ, n)
	}
	p := r.queues[q.info.Peer]
	return info.Receive() && p != nil && p.setup.Scatter&control.ScatterResponder != 0 &&
		r.fits(p.info.RecvCQ, n)
}

// fits reports whether n bytes fit into an entry of a completion queue.
func (r *replayer) fits(cqn uint32, n uint64) bool {
	if c := r.cqs[cqn]; c != nil && c.setup.LogEntry == 7 {
		return n <= cqe.MaxInline64
	}
	return n <= cqe.MaxInline32
}
