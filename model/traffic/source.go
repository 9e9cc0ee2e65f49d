package traffic

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/wqe"
)

// A Source makes the requests of steady traffic of one operation in one form, as bytes. Its
// fields may be changed before the first Next.
type Source struct {
	Near, Far Memory // memory of the host, and of the peer
	QPN       uint32 // number of the host's queue pair

	op    wqe.Opcode
	info  *wqe.Info
	bytes int
	f     Form
	room  uint64 // distance in bytes between the buffers of two requests of a doorbell
	made  int    // number of requests made so far
	bells uint64 // number of doorbells so far
	index uint16 // number of blocks made so far, modulo 2^16
}

// NewSource returns a Source of requests with payloads of the given number of bytes. op is one of Ops.
// The keys and addresses in Near and Far, and QPN, have arbitrary values.
func NewSource(op string, bytes int, f Form) (*Source, error) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == op })
	if i < 0 {
		return nil, fmt.Errorf("traffic: operation %q; %s are possible", op, strings.Join(Ops(), ", "))
	}
	s := &Source{op: kinds[i].op, info: kinds[i].op.Info(), bytes: bytes, f: f, QPN: 0x100, room: line}
	if err := s.f.complete(s.op, bytes); err != nil {
		return nil, err
	}
	for _, pieces := range []int{s.f.SGEs, s.f.ReceiveSGEs} {
		s.room = max(s.room, lines(bytes)+uint64(pieces-1)*line)
	}
	size := s.room * uint64(s.f.Batch)
	s.Near = Memory{"tx", model.TxPayload, 0x1100, 1 << 32, size}
	s.Far = Memory{"rx", model.RxPayload, 0x2200, 2 << 32, size}
	if s.info.Reads {
		s.Near.Region, s.Near.Structure = "rx", model.RxPayload
		s.Far.Region, s.Far.Structure = "tx", model.TxPayload
		if s.info.Atomic() {
			s.Far.Region, s.Far.Structure = "word", model.RxPayload
		}
	}
	return s, nil
}

// lines returns n rounded up to whole lines, in bytes.
func lines(n int) uint64 { return uint64(n+line-1) &^ (line - 1) }

// Config returns the queues and the memory of the traffic.
func (s *Source) Config() Config {
	f := &s.f
	c := Config{
		SendBlocks: f.Ring, Receives: f.Ring, Stride: f.Stride, SRQ: f.SRQ, SendCQ: f.Ring, RecvCQ: f.Ring,
		EntrySize: f.EntrySize, InlineResults: f.InlineCQE, InlineMessages: f.InlineCQE,
		Events: f.Events, Rested: f.Rested, Prefetched: f.Prefetched, SlowPath: f.SlowPath,
		Memory: []Memory{s.Near, s.Far},
	}
	if f.BlueFlame {
		c.BlueFlame = 1
	}
	return c
}

// Next returns the requests of the next doorbell. When all requests have been made, it returns none.
func (s *Source) Next() (list []Request, err error) {
	for len(list) < s.f.Batch && s.made < s.f.Requests {
		s.made++
		r, err := s.request(uint64(len(list)), s.made%s.f.Signaled == 0)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	s.bells++
	return list, nil
}

// split returns the data segments of a payload in the given number of pieces. Each piece begins on a
// line of its own. If the payload has at least one line for each piece, all pieces but the last are
// whole lines.
func (s *Source) split(key uint32, addr uint64, pieces int) (list []wqe.Data) {
	for left := s.bytes; left > 0; pieces-- {
		n := (left + pieces - 1) / pieces
		if left >= pieces*line {
			n = left / line / pieces * line // whole lines
			if pieces == 1 {
				n = left
			}
		}
		list = append(list, wqe.Data{ByteCount: uint32(n), LKey: key, Addr: addr})
		addr += lines(n)
		left -= n
	}
	return list
}

// request returns the request number k of a doorbell, counted from 0.
func (s *Source) request(k uint64, signaled bool) (r Request, err error) {
	near, far := s.Near.Addr+k*s.room, s.Far.Addr+k*s.room
	ring := make([]byte, wqe.MaxBlocks*wqe.BlockSize)
	w := wqe.Start(ring, 0)
	c := wqe.Ctrl{Opcode: s.op, QPN: s.QPN}
	if signaled {
		c.Flags = wqe.CEAlways
	}
	if s.info.Imm == wqe.ImmData {
		c.Imm = 7
	}
	if s.info.Raddr {
		w.Raddr(wqe.Raddr{Addr: far, RKey: s.Far.Key})
	}
	s.operand(&w, &c)
	switch {
	case s.op == wqe.OpNop:
	case s.op == wqe.OpMMO:
		w.MMOMeta(wqe.MMOMeta{})
		w.Data(wqe.Data{ByteCount: uint32(s.bytes), LKey: s.Near.Key, Addr: near})
		w.Data(wqe.Data{ByteCount: uint32(s.bytes), LKey: s.Far.Key, Addr: far})
	case s.f.Inline && s.bytes > 0:
		w.Inline(make([]byte, s.bytes))
	default:
		for _, d := range s.split(s.Near.Key, near, s.f.SGEs) {
			w.Data(d)
		}
	}
	blocks, err := w.Finish(c)
	if err != nil {
		return Request{}, err
	}
	ring[1], ring[2] = byte(s.index>>8), byte(s.index) // the index of the WQE in its control segment
	s.index += uint16(blocks)
	r = Request{WQE: ring[:blocks*wqe.BlockSize], Fill: !s.f.Untouched, Use: !s.f.Untouched}
	if s.info.Receive() {
		r.Receive = s.receive(far)
	}
	return r, nil
}

// operand adds the segments and bits of w and c that an atomic or an MMO has besides memory. Each
// atomic adds 1 to its word. So no compare-and-swap fails if the words were 0 before the first doorbell.
func (s *Source) operand(w *wqe.Builder, c *wqe.Ctrl) {
	was, all := s.bells, ^uint64(0)
	switch s.op {
	case wqe.OpAtomicFA:
		w.Atomic(wqe.Atomic{SwapAdd: 1})
	case wqe.OpAtomicCS:
		w.Atomic(wqe.Atomic{SwapAdd: was + 1, Compare: was})
	case wqe.OpAtomicMaskedFA:
		c.OpMod = wqe.OpMod8
		if s.bytes == 4 {
			c.OpMod = wqe.OpMod4
			w.MaskedFA4(wqe.MaskedFA4{Add: 1})
			return
		}
		w.MaskedFA8(wqe.MaskedFA8{Add: 1})
	case wqe.OpAtomicMaskedCS:
		c.OpMod = wqe.OpMod8
		if s.bytes == 4 {
			c.OpMod = wqe.OpMod4
			w.MaskedCS4(wqe.MaskedCS4{Swap: uint32(was + 1), Compare: uint32(was), SwapMask: uint32(all),
				CompareMask: uint32(all)})
			return
		}
		w.MaskedCS8(wqe.MaskedCS8{Swap: was + 1, Compare: was, SwapMask: all, CompareMask: all})
	case wqe.OpMMO:
		c.OpMod = wqe.OpModMMODMA
	}
}

// receive returns the entry of a receive for the payload at far. The link of an SRQ's entry is left 0.
func (s *Source) receive(far uint64) []byte {
	header := 0
	if s.f.SRQ {
		header = wqe.SRQNextSize
	}
	list := s.split(s.Far.Key, far, s.f.ReceiveSGEs)
	entry := make([]byte, s.f.Stride)
	wqe.PutRecv(entry[header:], list)
	return entry
}
