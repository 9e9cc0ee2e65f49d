//go:build linux && (amd64 || arm64)

package web

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/state"
	"github.com/nicless/nicless/wqe"
)

// A ringFrame is a ring without the bytes of its entries.
type ringFrame struct {
	Of       state.RingOf `json:"of"`
	Size     uint32       `json:"size"`
	Entry    uint32       `json:"entry"` // bytes
	Producer uint64       `json:"producer"`
	Consumer uint64       `json:"consumer"`
	Bad      []uint64     `json:"bad"` // numbers of entries in error; of a queue in error, all that wait are
	Error    string       `json:"error,omitempty"`
}

// ringNumber returns the number of the object that has a ring of a queue pair.
func ringNumber(q *state.Queue, of state.RingOf) uint32 {
	if of == state.CQRing {
		return q.SendCQ
	}
	return q.Number
}

// ringOf asks for a ring of a queue, around its consumer.
func ringOf(ctx context.Context, socket string, l *look, q *state.Queue, of state.RingOf) *ringFrame {
	f := &ringFrame{Of: of, Bad: []uint64{}}
	s, err := state.Read(ctx, socket, state.Request{Ring: &state.RingRequest{Queue: ringNumber(q, of), Of: of,
		Last: true, Count: int(ringCount(l, q, of))}})
	switch {
	case err != nil:
		f.Error = err.Error()
		return f
	case s.Ring == nil || s.Ring.Size == 0 || s.Ring.Entry == 0 || s.Ring.Producer < s.Ring.Consumer:
		f.Error = "the engine has sent no such ring"
		return f
	}
	r := s.Ring
	f.Size, f.Entry, f.Producer, f.Consumer = r.Size, r.Entry, r.Producer, r.Consumer
	if of == state.CQRing {
		f.Bad = append(f.Bad, badCompletions(r)...)
	} else if of == state.SendRing {
		f.Bad = append(f.Bad, failedWQEs(r, q.Number, errorsOf(l))...)
	}
	return f
}

// ringCount returns how many entries of a ring can be asked for.
func ringCount(l *look, q *state.Queue, of state.RingOf) uint32 {
	size := uint32(1)
	switch of {
	case state.SendRing:
		size = q.SendSize
	case state.ReceiveRing:
		size = q.RecvSize
	case state.CQRing:
		i := slices.IndexFunc(l.now.CQs, func(c state.CQ) bool { return c.Number == q.SendCQ })
		if i >= 0 && !l.now.CQs[i].Collapsed {
			size = l.now.CQs[i].Size
		}
	}
	return min(max(size, 1), state.MostEntries)
}

// badCompletions returns the numbers of completions with errors that are in r.
func badCompletions(r *state.Ring) (list []uint64) {
	for n := r.First; n < r.Producer; n++ {
		b := entryOf(r, n)
		if len(b) < cqe.Size {
			break
		}
		if cqe.OpOwn(b[len(b)-1]).Opcode().IsError() {
			list = append(list, n)
		}
	}
	return list
}

// failedWQEs returns the numbers of those blocks of a send queue that errors name and that are still in it.
func failedWQEs(r *state.Ring, queue uint32, errors []state.Error) (list []uint64) {
	for i := range errors {
		e := &errors[i]
		back := uint64(uint16(r.Producer) - e.Index)
		if e.Queue == queue && back > 0 && back <= min(r.Producer, uint64(r.Size)) {
			list = append(list, r.Producer-back)
		}
	}
	return list
}

// entryOf returns the bytes of an entry; nil if r does not have them.
func entryOf(r *state.Ring, n uint64) []byte {
	if n < r.First || n-r.First >= uint64(len(r.Bytes))/uint64(r.Entry) {
		return nil
	}
	at := (n - r.First) * uint64(r.Entry)
	return r.Bytes[at : at+uint64(r.Entry)]
}

// addresses has the address segments of the transports whose send WQEs have one.
var addresses = map[string]wqe.Address{
	"UD": wqe.AddressUD, "XRC-INI": wqe.AddressXRC, "DCI": wqe.AddressDC, "RAW": wqe.AddressEth,
}

// entryText describes the entry n of a ring of a queue, field by field.
func entryText(ctx context.Context, socket string, l *look, q *state.Queue, of state.RingOf,
	n uint64) (string, error) {
	size, before := ringCount(l, q, of), uint64(wqe.MaxBlocks-1)
	if of != state.SendRing {
		before = 0
	}
	first := n - min(n, before)
	count := min(uint64(size), n-first+uint64(wqe.MaxBlocks))
	if of == state.CQRing {
		count = 1
	}
	if count <= n-first { // a small ring
		first = n - (count - 1)
	}
	s, err := state.Read(ctx, socket, state.Request{Ring: &state.RingRequest{Queue: ringNumber(q, of), Of: of,
		First: first, Count: int(count)}})
	if err != nil {
		return "", err
	}
	if s.Ring == nil || s.Ring.Entry == 0 || entryOf(s.Ring, n) == nil {
		return "", fmt.Errorf("entry %d is not in the ring", n)
	}
	if n >= s.Ring.Producer {
		return "", fmt.Errorf("entry %d was never posted: the producer is at %d", n, s.Ring.Producer)
	}
	tree, b, err := describe(s.Ring, q, n)
	if err != nil && len(tree) == 0 {
		return "", fmt.Errorf("entry %d: %w", n, err)
	}
	var out bytes.Buffer
	if of == state.SendRing && s.Ring.Consumer > n && s.Ring.Consumer-n > uint64(s.Ring.Size) {
		fmt.Fprintf(&out, "entry %d was overwritten since; these are the bytes in its place\n", n)
	}
	_ = tree.Print(&out, b) // a buffer takes all
	if err != nil {
		fmt.Fprintf(&out, "%v\n", err)
	}
	return out.String(), nil
}

func describe(r *state.Ring, q *state.Queue, n uint64) (field.Tree, []byte, error) {
	b := entryOf(r, n)
	switch r.Of {
	case state.SendRing:
		b = wholeWQE(r, q.Number, n)
		if len(b) < wqe.CtrlSize {
			return nil, b, fmt.Errorf("%d bytes are no WQE", len(b))
		}
		tree, err := wqe.DescribeSend(b, addresses[q.Transport])
		return tree, b, err
	case state.ReceiveRing:
		tree, err := wqe.DescribeRecv(b, false)
		return tree, b, err
	}
	tree, err := cqe.Describe(b)
	return tree, b, err
}

// wholeWQE returns the WQE that has the block n: its control segment names the queue and its own block, and
// is long enough. A block that belongs to none is returned alone.
func wholeWQE(r *state.Ring, queue uint32, n uint64) (b []byte) {
	for back := range min(uint64(wqe.MaxBlocks), n+1) {
		head := entryOf(r, n-back)
		if len(head) < wqe.CtrlSize {
			break
		}
		c := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(head))
		if c.QPN != queue || c.Index != uint16(n-back) || uint64(c.Blocks()) <= back {
			continue
		}
		for i := range uint64(c.Blocks()) {
			b = append(b, entryOf(r, n-back+i)...)
		}
		return b
	}
	return entryOf(r, n)
}
