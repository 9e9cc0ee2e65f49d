//go:build linux && (amd64 || arm64)

package top

import (
	"bytes"
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/state"
	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/trace/text"
	"github.com/nicless/nicless/wqe"
)

// addresses has the address segments of the transports whose send WQEs have one.
var addresses = map[string]wqe.Address{
	"UD": wqe.AddressUD, "XRC-INI": wqe.AddressXRC, "DCI": wqe.AddressDC, "RAW": wqe.AddressEth,
}

func (p *page) address() wqe.Address {
	if q := p.m.pic.queue(p.number); q != nil {
		return addresses[q.Transport]
	}
	return wqe.NoAddress
}

// headOf finds the WQE that a block belongs to: a control segment that names this queue and its own block,
// and is long enough. Old blocks, of which a part was overwritten, belong to none.
func (v *ringView) headOf(queue uint32, n uint64) (head uint64, c wqe.Ctrl, ok bool) {
	for back := range uint64(wqe.MaxBlocks) {
		if back > n {
			break
		}
		b := v.entry(n - back)
		if len(b) < wqe.CtrlSize {
			break
		}
		c = wqe.ParseCtrl((*[wqe.CtrlSize]byte)(b))
		if c.QPN == queue && c.Index == uint16(n-back) && uint64(c.Blocks()) > back {
			return n - back, c, true
		}
	}
	return 0, c, false
}

// wqeAt returns the WQE that has a block: as many of its bytes as are known.
func (v *ringView) wqeAt(queue uint32, n uint64) (head uint64, w objects.WQE, ok bool) {
	head, c, ok := v.headOf(queue, n)
	if !ok {
		return 0, w, false
	}
	w = objects.WQE{Index: uint16(head), Ctrl: c}
	for i := range uint64(c.Blocks()) {
		b := v.entry(head + i)
		if b == nil {
			break
		}
		w.Bytes = append(w.Bytes, b...)
	}
	return head, w, true
}

// summary describes an entry in a few words.
func (p *page) summary(n uint64) string {
	b := p.ring.entry(n)
	if b == nil {
		return ""
	}
	switch t := p.current(); t.of {
	case state.SendRing:
		head, w, ok := p.ring.wqeAt(t.queue, n)
		switch {
		case !ok:
			return "(part of no WQE)"
		case head != n:
			return fmt.Sprintf("  block %d of %d of WQE %d", n-head+1, w.Ctrl.Blocks(), head)
		}
		return clean(text.WQE(&w, p.address()))
	case state.ReceiveRing:
		if len(b) < wqe.DataSize {
			return ""
		}
		d := wqe.ParseData((*[wqe.DataSize]byte)(b))
		return fmt.Sprintf("%d bytes at 0x%x lkey 0x%x", d.ByteCount, d.Addr, d.LKey)
	}
	if len(b) < cqe.Size {
		return ""
	}
	return clean(text.CQE((*[cqe.Size]byte)(b[len(b)-cqe.Size:])))
}

// fieldLines returns the fields of the entry under the cursor, as nicless decode prints them.
func (p *page) fieldLines(rows, width int) []string {
	tree, b, err := p.describe(p.ring.cursor)
	var out bytes.Buffer
	_ = tree.Print(&out, b) // a buffer takes all
	lines := cleanLines(out.String())
	if err != nil {
		lines = append([]string{"! " + clean(err.Error())}, lines...)
	}
	p.ring.scroll = max(min(p.ring.scroll, len(lines)-rows), 0)
	lines = lines[p.ring.scroll:]
	if more := len(lines) - rows; more > 0 && rows > 0 {
		lines = lines[:rows]
		lines[rows-1] = cut(fmt.Sprintf("%s  ] %d more", left(lines[rows-1], max(width-14, 0)), more), width)
	}
	for i := range lines {
		lines[i] = cut(lines[i], width)
	}
	return lines[:min(len(lines), max(rows, 0))]
}

// describe returns the fields of an entry, and its bytes.
func (p *page) describe(n uint64) (field.Tree, []byte, error) {
	b := p.ring.entry(n)
	if b == nil {
		return nil, nil, fmt.Errorf("the bytes of entry %d are not here yet", n)
	}
	switch t := p.current(); t.of {
	case state.SendRing:
		if _, w, ok := p.ring.wqeAt(t.queue, n); ok {
			b = w.Bytes
		}
		if len(b) < wqe.CtrlSize {
			return nil, b, fmt.Errorf("%d bytes are no WQE", len(b))
		}
		tree, err := wqe.DescribeSend(b, p.address())
		return tree, b, err
	case state.ReceiveRing:
		tree, err := wqe.DescribeRecv(b, false)
		return tree, b, err
	}
	tree, err := cqe.Describe(b)
	return tree, b, err
}
