package traffic

import (
	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/wqe"
)

// The keys and addresses in the requests of Synth; their values mean nothing.
const (
	nearKey, farKey   = 0x1100, 0x2200
	nearAddr, farAddr = 1 << 32, 2 << 32
	synthQPN          = 0x100
)

// A builder makes the requests of Synth.
type builder struct {
	op    wqe.Opcode
	info  *wqe.Info
	bytes int
	f     *Form
	room  int // bytes between the buffers of two requests
	index uint16
}

func newBuilder(op wqe.Opcode, bytes int, f *Form) *builder {
	room := line
	for _, pieces := range []int{f.SGEs, f.ReceiveSGEs} {
		room = max(room, pieces*(((bytes+pieces-1)/pieces+line-1)&^(line-1)))
	}
	return &builder{op: op, info: op.Info(), bytes: bytes, f: f, room: room}
}

// config returns the queues and the memory of the traffic.
func (b *builder) config() Config {
	f := b.f
	c := Config{
		SendBlocks: f.Ring, Receives: f.Ring, Stride: f.Stride, SRQ: f.SRQ, SendCQ: f.Ring, RecvCQ: f.Ring,
		EntrySize: f.EntrySize, InlineResults: f.InlineCQE, InlineMessages: f.InlineCQE,
		Prefetched: f.Prefetched, SlowPath: f.SlowPath,
	}
	if f.BlueFlame {
		c.BlueFlame = 1
	}
	size := uint64(b.room * f.Batch)
	near := Memory{"tx", model.TxPayload, nearKey, nearAddr, size}
	far := Memory{"rx", model.RxPayload, farKey, farAddr, size}
	if b.info.Reads {
		near.Region, near.Structure = "rx", model.RxPayload
		if far.Region, far.Structure = "tx", model.TxPayload; b.info.Atomic() {
			far.Region, far.Structure = "word", model.RxPayload
		}
	}
	c.Memory = []Memory{near, far}
	return c
}

// split returns the data segments of a payload in so many pieces. Each begins on a line of its own.
func (b *builder) split(key uint32, addr uint64, pieces int) (list []wqe.Data) {
	for left := b.bytes; left > 0; pieces-- {
		n := (left + pieces - 1) / pieces
		list = append(list, wqe.Data{ByteCount: uint32(n), LKey: key, Addr: addr})
		addr += uint64(n+line-1) &^ (line - 1)
		left -= n
	}
	return list
}

// request returns the k-th request of a doorbell.
func (b *builder) request(k int, signaled bool) (r Request, err error) {
	off := uint64(k * b.room)
	near, far := nearAddr+off, farAddr+off
	ring := make([]byte, wqe.MaxBlocks*wqe.BlockSize)
	w := wqe.Start(ring, 0)
	c := wqe.Ctrl{Opcode: b.op, QPN: synthQPN}
	if signaled {
		c.Flags = wqe.CEAlways
	}
	if b.info.Imm == wqe.ImmData {
		c.Imm = 7
	}
	if b.info.Raddr {
		w.Raddr(wqe.Raddr{Addr: far, RKey: farKey})
	}
	b.operand(&w, &c)
	switch {
	case b.op == wqe.OpNop:
	case b.op == wqe.OpMMO:
		w.MMOMeta(wqe.MMOMeta{})
		w.Data(wqe.Data{ByteCount: uint32(b.bytes), LKey: nearKey, Addr: near})
		w.Data(wqe.Data{ByteCount: uint32(b.bytes), LKey: farKey, Addr: far})
	case b.f.Inline && b.bytes > 0:
		w.Inline(make([]byte, b.bytes))
	default:
		for _, d := range b.split(nearKey, near, b.f.SGEs) {
			w.Data(d)
		}
	}
	blocks, err := w.Finish(c)
	if err != nil {
		return Request{}, err
	}
	ring[1], ring[2] = byte(b.index>>8), byte(b.index)
	b.index += uint16(blocks)
	r = Request{WQE: ring[:blocks*wqe.BlockSize], Fill: !b.f.Untouched, Use: !b.f.Untouched}
	if b.info.Receive() {
		r.Receive = b.receive(far)
	}
	return r, nil
}

// operand adds what an atomic or an MMO has besides memory.
func (b *builder) operand(w *wqe.Builder, c *wqe.Ctrl) {
	switch b.op {
	case wqe.OpAtomicFA, wqe.OpAtomicCS:
		w.Atomic(wqe.Atomic{SwapAdd: 1})
	case wqe.OpAtomicMaskedFA:
		if c.OpMod = wqe.OpMod8; b.bytes == 4 {
			c.OpMod = wqe.OpMod4
			w.MaskedFA4(wqe.MaskedFA4{Add: 1})
			return
		}
		w.MaskedFA8(wqe.MaskedFA8{Add: 1})
	case wqe.OpAtomicMaskedCS:
		if c.OpMod = wqe.OpMod8; b.bytes == 4 {
			c.OpMod = wqe.OpMod4
			w.MaskedCS4(wqe.MaskedCS4{Swap: 1, SwapMask: 1})
			return
		}
		w.MaskedCS8(wqe.MaskedCS8{Swap: 1, SwapMask: 1})
	case wqe.OpMMO:
		c.OpMod = wqe.OpModMMODMA
	}
}

// receive returns the entry of a receive for the payload at far. The link of an SRQ's entry is left 0.
func (b *builder) receive(far uint64) []byte {
	header := 0
	if b.f.SRQ {
		header = wqe.SRQNextSize
	}
	list := b.split(farKey, far, b.f.ReceiveSGEs)
	entry := make([]byte, b.f.Stride)
	wqe.PutRecv(entry[header:], list)
	return entry
}
