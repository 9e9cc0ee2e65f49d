package traffic

import (
	"encoding/binary"
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

// A work is what a request asks for.
type work struct {
	*Request
	ctrl     wqe.Ctrl
	info     *wqe.Info
	blocks   int
	signaled bool
	block    uint64 // number of the WQE's first block, counted from the first block ever posted

	src, dst []piece // where the payload comes from and goes to; a message goes to the list of its receive
	total    uint64  // bytes of the payload
	pieces   int     // number of data segments of the WQE
	remote   *piece  // memory of the peer that the WQE names, or nil
	atomic   bool
	carried  bool // whether the payload goes into a CQE

	receive []byte  // the receive that the request takes, or nil
	entry   uint64  // number of the receive, counted from the first receive ever posted
	list    []piece // scatter list of the receive

	prefetched bool // whether the device has read the receive on an idle visit
	counted    bool // whether the device has loaded the number of receives for this request
	filled     int  // Seq of the last store of host or peer that wrote the payload before posting
	moved      int  // Seq of the device's last store of the payload
}

// A piece is a range of bytes under one key. key is nil if the bytes are in the WQE.
type piece struct {
	key *key
	off uint64
	n   uint64
}

// parse parses a request.
func (x *Expander) parse(r *Request) (*work, error) {
	v, err := wqe.Parse(r.WQE, wqe.NoAddress)
	if err != nil {
		return nil, fmt.Errorf("traffic: %w", err)
	}
	w := &work{Request: r, ctrl: v.Ctrl, info: v.Ctrl.Opcode.Info(), blocks: v.Ctrl.Blocks()}
	if !w.info.Transports.Has(wqe.RC) {
		return nil, fmt.Errorf("traffic: %v is not executed on a reliable connection", v.Ctrl.Opcode)
	}
	if v.Ctrl.Completion() == wqe.CEEvent>>2 {
		return nil, fmt.Errorf("traffic: %v asks for an event, which is no line of memory", v.Ctrl.Opcode)
	}
	w.signaled = v.Ctrl.Flags&wqe.CEMask >= wqe.CEAlways
	w.atomic = w.info.Atomic()
	var local []piece
	for it := v.Segments(); ; {
		s, ok := it.Next()
		if !ok {
			break
		}
		switch s.Kind {
		case wqe.KindRaddr:
			a := wqe.ParseRaddr((*[wqe.RaddrSize]byte)(s.Bytes))
			w.remote = &piece{off: a.Addr}
			if k := x.keys[a.RKey]; k != nil {
				w.remote.key = k
			} else {
				return nil, fmt.Errorf("traffic: %v names key %#x, which Config.Memory does not have", v.Ctrl.Opcode, a.RKey)
			}
		case wqe.KindData:
			p, err := x.piece(s.Bytes)
			if err != nil {
				return nil, fmt.Errorf("traffic: %v: %w", v.Ctrl.Opcode, err)
			}
			local = append(local, p)
		case wqe.KindInline:
			local = append(local, piece{n: uint64(len(s.InlineData()))})
		}
	}
	w.pieces = len(local)
	return w, x.arrange(w, local)
}

// piece parses a data segment. It returns the bytes that the segment names.
func (x *Expander) piece(b []byte) (piece, error) {
	d := wqe.ParseData((*[wqe.DataSize]byte)(b))
	k := x.keys[d.LKey]
	if k == nil {
		return piece{}, fmt.Errorf("key %#x, which Config.Memory does not have", d.LKey)
	}
	p := piece{k, d.Addr - k.Addr, d.Length()}
	return p, p.check()
}

// check returns an error unless p is inside the memory of its key.
func (p *piece) check() error {
	if p.off > p.key.Size || p.n > p.key.Size-p.off {
		return fmt.Errorf("%d bytes at offset %d of memory %q, which has %d", p.n, int64(p.off), p.key.Region, p.key.Size)
	}
	return nil
}

// arrange fills in where the payload of w comes from and goes to, and whether it goes into a CQE. local
// has the data segments of w.
func (x *Expander) arrange(w *work, local []piece) error {
	switch w.ctrl.Opcode {
	case wqe.OpNop, wqe.OpDump, wqe.OpUMR, wqe.OpWait, wqe.OpSendEn:
		w.src = local // the device looks up the keys and reads none of the memory
		return w.takeReceive(x)
	case wqe.OpMMO:
		w.src, w.dst, w.total = local[:1], local[1:], local[0].n
		return w.takeReceive(x)
	}
	for _, p := range local {
		w.total += p.n
	}
	if w.remote != nil {
		w.remote.n = w.total
		w.remote.off -= w.remote.key.Addr // parse has put the address there
		if w.total > 0 {
			if err := w.remote.check(); err != nil {
				return fmt.Errorf("traffic: %v: %w", w.ctrl.Opcode, err)
			}
		}
	}
	if err := w.takeReceive(x); err != nil {
		return err
	}
	limit := uint64(cqeInline[x.c.EntrySize])
	switch {
	case w.info.Reads:
		w.src, w.dst = []piece{*w.remote}, local
		masked := cqe.WCOpcode(w.info.WC) == cqe.WCFromPost // results of masked atomics are not put into CQEs
		w.carried = x.c.InlineResults && !masked && w.signaled && w.total > 0 && w.total <= limit
	case w.remote != nil:
		w.src, w.dst = local, []piece{*w.remote}
	default:
		w.src, w.dst = local, w.list
		w.carried = x.c.InlineMessages && w.total > 0 && w.total <= limit
	}
	return nil
}

// takeReceive parses the receive that w takes.
func (w *work) takeReceive(x *Expander) error {
	if (w.Receive != nil) != w.info.Receive() {
		return fmt.Errorf("traffic: %v takes a receive: %t; there is one: %t", w.ctrl.Opcode, w.info.Receive(), w.Receive != nil)
	}
	if w.Receive == nil {
		return nil
	}
	if len(w.Receive) > x.c.Stride {
		return fmt.Errorf("traffic: receive of %d bytes; entries have %d", len(w.Receive), x.c.Stride)
	}
	w.receive = w.Receive
	list := wqe.RecvList(w.Receive)
	if x.c.SRQ {
		list = list[min(wqe.SRQNextSize, len(list)):]
	}
	room := uint64(0)
	for rest := list; ; {
		segment := rest // begins with the next data segment
		if _, ok := rest.Next(); !ok {
			break
		}
		p, err := x.piece(segment[:wqe.DataSize])
		if err != nil {
			return fmt.Errorf("traffic: receive: %w", err)
		}
		w.list = append(w.list, p)
		room += p.n
	}
	if w.remote == nil && room < w.total {
		return fmt.Errorf("traffic: message of %d bytes; its receive has room for %d", w.total, room)
	}
	return nil
}

// firstPiece returns the size and the key of the first data segment in the receive, as one number. It
// returns 0 if the receive has no data segment.
func (w *work) firstPiece() uint64 {
	if len(w.receive) < wqe.DataSize {
		return 0
	}
	return binary.BigEndian.Uint64(w.receive)
}
